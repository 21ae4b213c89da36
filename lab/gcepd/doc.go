// Package gcepd runs the GCE PD CSI driver, a public one that is not ours, under Wine: its
// unmodified .exe, with the published client that it requires. It finds CSI Proxy on named
// pipes, and a simulated node behind them.
//
// The test runs csi-sanity with v1, and stories of volumes with v1 and with the beta versions. Each
// spec that fails is in a table with the reason; one that fails unexpectedly fails the test, and so
// does one that passes unexpectedly.
package gcepd
