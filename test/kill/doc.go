// Package kill ends CSI Proxy at the worst moments and looks what is left, and
// whether the next request can go on from there.
//
// TestEveryPoint ends it before and after each single Win32 call of an operation,
// in process: from that moment on no call of the dead process reaches the node.
// Some of the same points are then done by killing a process, which must leave
// the same bytes. TestUnderLoad kills the daemon, as it ships, at random moments
// while many callers work through its sockets.
//
// All of it is about the simulated node; on Windows nothing of it has run.
package kill
