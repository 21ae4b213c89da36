// Package simnode is a simulated Windows node, for tests of CSI drivers where
// there is no Windows.
//
//	func TestStage(t *testing.T) {
//		n := simnode.New(t)
//		d, err := n.AttachDisk(simnode.Disk{Size: 10 << 30, Serial: "vol-1"})
//		...
//		err = stage(n.Disk(), n.Volume(), n.Filesystem(), "vol-1") // the driver's code
//	}
//
// A driver that works in process is given the six Interfaces of a [Node]; one
// that works through pipes, with the client module or with package remote, is
// served by package simnode/serve.
//
// # What is simulated
//
// The services of a node are those that run on Windows, and so is the code
// below them, down to single Win32 calls. Only those calls are simulated: by a
// node made of state, that refuses what Windows refuses with the numbers that
// Windows uses. What passes here is therefore held to our reading of Windows, and
// to no Windows: none has run this code so far.
//
// The content of disks is in image files, which tools such as sgdisk read; files
// and directories are remembered by name and kind, without content.
//
// # What happens to a node
//
// Disks are attached, detached and grown; SMB servers, shares and accounts come,
// change and go; so do iSCSI targets and Windows services; the node reboots. Each
// is a method of [Node], which may be called while the driver works, or for later
// with [Node.After].
//
// [Node.Fail] makes calls of Windows fail, or take their time, or has something
// else happen at that very moment; package winapi has the names of the calls and of
// what they can answer. [Node.Record] shows which calls were made.
//
// # Time
//
// A node that is told to take its time (Config.VolumeArrivalDelay,
// Config.FormatDuration, Fault.Delay, [Node.After] …) takes that of package time.
// In the bubble of a [testing/synctest] test that costs nothing: a disk that
// comes after an hour does so at once, and at the same moment in every run. Pipes
// and sockets do not work in a bubble.
//
// # Many nodes at once
//
// Nodes have nothing in common, so tests with a node each may be parallel. A
// new node takes milliseconds and a few kilobytes of disk space, as its images
// are sparse. Nodes are random where Windows is, in the identities of volumes and
// partitions; with Config.Seed they are always the same, as long as one call
// follows another.
//
// # Processes
//
// What CSI Proxy keeps in memory, such as locks and the credentials of SMB
// mappings, belongs to a process. The Interfaces of a node are those of one
// process; [Node.NewProcess] begins another one, as a driver does that was
// restarted, or that works beside a daemon.
package simnode
