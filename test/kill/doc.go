// Package kill ends CSI Proxy at the worst moments and looks what is left, and
// whether the next request can go on from there.
//
// TestEveryPoint ends it before and after each single Win32 call of an operation,
// in process: from that moment on no call of the dead process reaches the node.
// Some of the same points are then done by killing a process, which must leave
// the same bytes. TestUnderLoad kills the daemon, as it ships, at random moments
// while many callers work through its sockets.
//
// Requests under load are whole, absent or begun. Begun are: a partitioned disk's
// table without its partition; a grown partition without its file system; some of
// the directories of a path, made or removed; a mapping without its link; and an empty
// directory that was to become a link, which the caller removes before it asks again.
//
// All of it is about the simulated node; on Windows nothing of it has run.
package kill
