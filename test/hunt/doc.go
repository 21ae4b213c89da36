// Package hunt searches for faults that need an order of events which no example has.
//
// Up to twelve drivers call the services of a simulated node, in one of the worlds of
// worlds.Pairs. At each step a seed chooses what happens next: one of the waiting Win32 calls is
// made, or fails; a driver makes a request; time passes; CSI Proxy is killed, Windows restarts, a
// disk is detached, another program changes the node. Between two steps one goroutine of the code
// under test runs, up to its next Win32 call, and time is that of a testing/synctest bubble.
// So the choices determine the run, which TestSameChoicesSameTrace checks.
//
// After each step the bytes of disks that must not change are compared. When an object is at
// rest, the node must have what was answered, and no handle or lock may be left. The
// requests and answers of a run must be linearizable: they must be possible one after the
// other on a small model of a disk with its volume, of a path, of a service, of a server with
// two shares, their mappings and links, and of the iSCSI initiator with portals, targets and sessions.
//
// A run that fails is shrunk to the choices that it needs, and printed as a Go test.
// TestPlanted plants faults, each of which must be found.
//
// These tests use the simulated node. They have not run on Windows.
package hunt
