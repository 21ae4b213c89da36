// Package kill tests that CSI Proxy can be killed at any moment: it checks what
// is left on the node, and that the next request completes the work.
//
// TestKillAtEveryCall stops CSI Proxy before and after each Win32 call of an
// operation that changes the node, in process: from that moment no call reaches the
// node. At the same points the test kills a real process, which must leave the same
// bytes. In make soak the points are all calls.
// TestKillUnderLoad kills the daemon at random moments while many callers use its
// sockets.
//
// After a kill under load, a request that got no response is done, not done, or
// partly done. Partly done means one of: a partition table without the partition;
// a larger partition with a file system of the old size; some of the directories
// of a path made or removed; a mapping without its link; or an empty directory
// that was going to become a link, which the caller removes before it retries.
//
// These tests use the simulated node. They have not run on Windows.
package kill
