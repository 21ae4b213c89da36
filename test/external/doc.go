// Package driver stands for a driver in a repository of its own. Its tests hold
// nodes to the contract of package conformance, and drive a volume through its life,
// with what anybody can import.
package driver
