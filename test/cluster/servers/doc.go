// Package servers tests pkg/mounter against the servers of the published CSI Proxy v1.3.0, on
// Windows. What those call of Windows is that of a simulated node; what they decide, and how they
// answer, is theirs. They are linked with the client of this repository, whose messages are the
// same on the wire (test/surface).
package servers
