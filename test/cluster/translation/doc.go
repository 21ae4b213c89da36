// Package translation stands between a kubelet that runs on Linux and a driver that works on
// a simulated Windows node. It registers the driver with the kubelet, passes the calls of CSI
// on, and makes two things fit: the paths in the requests, and the directories that they name.
//
// # Paths
//
// The kubelet's directory on Linux, wherever it is, is C:\var\lib\kubelet on the node. Each
// path of a request becomes the same path on the node. One outside of that directory is
// refused.
//
// # Directories
//
// On Windows the kubelet and CSI Proxy see the same directories. Here the kubelet makes and
// removes them on Linux, with system calls, so:
//
//   - before a call the directories that the kubelet has made on the way to a path of the
//     request are made on the node;
//   - after a call the kubelet has a directory at the path if the node has anything there, and
//     nothing if the node has nothing. A link or a mounted volume of the node is an empty
//     directory for the kubelet;
//   - a directory that the kubelet has removed is removed on the node within a second, if it
//     is empty and no link. What else is there stays, so that a test can find it.
//
// Files are not mirrored.
package translation
