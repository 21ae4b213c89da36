// Package conformance tests that a node behaves as drivers expect. The cases call
// the Interfaces of package disk and of the other groups, so they run on every
// implementation: the simulated node in process, the same node through the
// daemon's pipes, a real Windows node, or an implementation of your own:
//
//	func TestContract(t *testing.T) {
//		conformance.Run(t, func(t *testing.T, setup conformance.Setup) *conformance.Node {
//			...
//		})
//	}
//
// # What a node provides
//
// Besides the Interfaces, a [Node] provides what a test needs to change from
// outside: attach a disk, remove it, grow it, add an SMB server, an iSCSI target
// or a service, make a Windows call fail. A function that a node does not support
// is nil or returns [errors.ErrUnsupported]. Cases that need it are skipped, with
// a message that says which node runs them.
//
// # What the cases check
//
// The kinds of errors (package hosterr) are part of the contract, and so are the
// texts that published drivers match on. Other texts are not checked. No case may
// leave a handle of the node open, and the suite may not leave a goroutine behind.
//
// A bug found on one node becomes a case here, so that all nodes are tested for it.
package conformance
