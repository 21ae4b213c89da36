// Package operations takes each operation through what can happen between two Win32 calls.
// One table has the operations: each method of the API, in each situation in which it does
// something else. For each of its calls:
//
//   - TestDieAtEveryCall ends CSI Proxy before and after it, in process: from that moment no
//     call reaches the node. The next request must complete the work, or say what is in the
//     way.
//   - TestChangeAtEveryCall changes the node before it: a disk is removed, another disk gets
//     its number, a directory is removed, a server or target disappears, another program does
//     the same work. The request must return what is promised for that change: not found for
//     something that was removed, success for work that was already done, and never an error
//     without a kind. The repeated request must succeed if the change was undone.
//   - TestCalls counts it: what one disk, volume or share costs must not grow with the node.
//
// TestKillUnderLoad kills the daemon, a process of its own, at random moments while drivers live
// volumes through its sockets.
//
// Changes are made and calls are counted in testing/synctest bubbles: waiting takes no time,
// and a request that never returns fails the test.
//
// These tests use the simulated node. They have not run on Windows. Its calls are those of
// win32.API, each of which counts as many as the native side makes for it.
package operations
