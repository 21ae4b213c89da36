// Package conformance is the contract of a Windows node as a driver meets it: a
// suite of tests spoken in the Interfaces of package disk and its neighbours,
// which every node has to pass, whatever stands behind them. It is run over the
// simulated node in process and through the pipes of the daemon, and can be run
// over a real Windows node, or over a driver's own implementation:
//
//	func TestContract(t *testing.T) {
//		conformance.Run(t, func(t *testing.T, setup conformance.Setup) *conformance.Node {
//			...
//		})
//	}
//
// # What a node brings
//
// Beside the Interfaces a [Node] brings what a test does from outside: attach a
// disk of some kind, take it away, grow it, make an SMB server, an iSCSI target or a
// service, make a call of Windows fail. A node that cannot do one of these leaves
// it out, or answers [errors.ErrUnsupported]; the cases that need it are then
// skipped, and say which host runs them.
//
// # What the cases hold to
//
// Cases are named by their meaning. The kinds of errors (package hosterr) are
// part of the contract, and so are the texts that published drivers match on;
// other texts are not looked at. Every case ends without an open handle of the
// node, and the suite without a goroutine.
//
// A bug found on one host becomes a case here, for all of them.
package conformance
