// Package remote asks a CSI Proxy through its pipes, in the words of the
// packages that do the same in process.
//
// A driver on a Windows node does privileged work in one of two ways: in
// process, as a HostProcess container, or through the CSI Proxy that runs on
// the node. Its code need not know which. It is written against the Interface
// of a group, such as [disk.Interface], and one place chooses the constructor:
//
//	func disks(ctx context.Context, hostProcess bool) (disk.Interface, error) {
//		if hostProcess {
//			return disk.New(diskapi.New())
//		}
//		return remote.NewDisk(ctx)
//	}
//
// Requests, responses and their meaning are the same. What differs follows from
// there being another process: it may be absent, it may refuse paths outside
// its working directories, and an empty list or map comes as nil. What no published
// version has finds no way through the pipes: [Filesystem.PathValid], and the methods
// of [disk.ReadOnlyInterface].
//
// On systems without named pipes, unix sockets stand in for them, served by a
// simulated node; see package pipe of the client module.
//
// # Versions
//
// Each client speaks one published version, the newest that has every method of
// the Interface: disk v1, filesystem v2alpha1, iscsi v1alpha2, smb v1,
// system v1alpha1, volume v2alpha1. A container needs the pipes of these
// mounted. The clients are generated from the API; a field that a version could
// not carry stops the generator.
//
// # Errors
//
// An error is what it is in process, as far as errors.Is can tell: of the same
// kind, with the same Win32 error number (so [io/fs.ErrNotExist] and the like are
// found), a context's error if a context ended, and with the same text. All of
// them are an [Error], which has what the proxy says besides.
//
// They are no gRPC statuses. A driver that returns one from a gRPC method of
// its own would otherwise tell its caller NotFound of the volume when the
// proxy meant a path, and would do so through the pipes only.
//
// What only happens here: if no proxy serves the pipe or it stopped, the error
// is of the kind unavailable, and if the proxy is too old for a method, of the
// kind not implemented and an [errors.ErrUnsupported]. Their texts name the pipe.
package remote
