// Package kernel is what all rooms of the emulated node stand on: one lock, one transaction for
// each call of Windows, the store in which it ends, one disk image for each disk, the clock, and
// the table of open handles with the rules of opening a device.
//
// # State
//
// One call is one transaction. Before the call returns, what it changes in images is written
// there, and then the rest to a journal: killing the process loses nothing of a call that has
// returned. See package journal for the format and its limits. Only one process can
// hold the state directory. The images in it are ordinary disk images. Tools
// such as sgdisk and blkid read them. A tool may change them while the node is
// closed, or in the range of a volume that the node is not using at that
// moment.
//
// The kernel knows no disk, volume or file. What is open is an [Object], and what can be opened
// for its data is a [Device]. What happens by itself, such as a disk that arrives, is applied
// before each call, by the function that [New] gets.
package kernel
