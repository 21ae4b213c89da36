// Package simnode simulates a Windows node, for tests of CSI drivers without Windows.
//
//	func TestStage(t *testing.T) {
//		n := simnode.New(t)
//		d, err := n.AttachDisk(simnode.Disk{Size: 10 << 30, Serial: "vol-1"})
//		...
//		err = n.AwaitDisk(d.Number) // rescans, as drivers do
//		err = stage(n.Disk(), n.Volume(), n.Filesystem(), "vol-1") // the driver's code
//	}
//
// A driver in process uses the six Interfaces of a [Node]. For a driver that uses pipes,
// with the client module or with package remote, package simnode/serve serves the node.
//
// # What is simulated
//
// The services of a node and the code below them, down to single Win32 calls, are the
// same as on Windows. Only the Win32 calls are simulated. The simulation has state and
// fails where Windows fails, with Windows' error numbers. It implements what we know
// about Windows: this code has not yet run on a real Windows.
//
// The content of disks is in image files, which tools such as sgdisk can read. Files and
// directories have names and types, but no content.
//
// # Changes of a node
//
// Methods of [Node] attach, detach and grow disks, add, change and remove SMB servers,
// shares, accounts, iSCSI targets and Windows services, and reboot the node. They may be
// called while the driver works. [Node.After] calls a function later.
//
// [Node.Fail] makes Windows calls fail or take longer, or runs a function at that moment;
// package winapi has the names of the calls and errors. [Node.Record] records which calls
// were made.
//
// # Time
//
// Delays (Config.VolumeArrivalDelay, Config.FormatDuration, Fault.Delay, [Node.After] …)
// use package time. In a [testing/synctest] bubble they take no real time: a disk that
// arrives after an hour arrives immediately, and at the same moment in every run. Pipes
// and sockets do not work in a bubble.
//
// # Parallel tests
//
// Nodes are independent, so tests with a node each may run in parallel. A new node takes
// milliseconds and a few kilobytes of disk space, because its images are sparse. The IDs
// of volumes and partitions are random, as on Windows. With Config.Seed they are the same
// in every run, if calls are made one after the other.
//
// # Processes
//
// What CSI Proxy keeps in memory, such as locks and the credentials of SMB mappings,
// belongs to a process. The Interfaces of a node are those of one process.
// [Node.NewProcess] starts another one, like a driver after a restart, or a driver that
// runs at the same time as a daemon.
package simnode
