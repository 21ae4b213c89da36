// Package remote calls a CSI Proxy through its pipes, with the same Interfaces as the
// packages that work in process.
//
// A driver on a Windows node does privileged work in one of two ways: in process, in a
// HostProcess container, or through the CSI Proxy of the node. Its code can be the same
// for both: it uses the Interface of a group, such as [disk.Interface], and one function
// chooses the constructor:
//
//	func disks(ctx context.Context, hostProcess bool) (disk.Interface, error) {
//		if hostProcess {
//			return disk.New(diskapi.New())
//		}
//		return remote.NewDisk(ctx)
//	}
//
// Requests and responses are the same. The differences come from the other process: it may
// not run, it refuses paths outside its working directories, and an empty list or map is
// nil. One method cannot be called through a pipe, because no published version has it:
// [Filesystem.PathValid].
//
// On systems without named pipes a simulated node serves unix sockets instead; see package
// pipe of the client module.
//
// # Versions
//
// Each client uses the newest version of its group that is served. [Disk.Version] and the
// same method of the other clients return that version. The pipe of at least one version
// of a group must be mounted into the container. [WithVersions] limits the choice.
//
// If the version does not have a method, the method fails without a call, with an error
// that matches hosterr.ErrUnimplemented and [errors.ErrUnsupported] and names both:
//
//	disk/v1beta1 SetDiskState: version v1beta1 of the disk API, the newest that is served, does not have this method
//
// docs/drivers/api.md shows which version has which method; in older ones some have
// other names, which this package knows. Before volume v1beta3, ListVolumesOnDisk
// cannot be asked about one partition.
//
// filesystem v1alpha1 and v1beta1 have a field that distinguishes paths of plugins from
// paths of pods, which proxies before v1.0 use. This package always sets it to plugin.
//
// # If the proxy does not run
//
// The constructors wait for a proxy that is starting or stopping until the deadline of their
// context. Without a deadline they try once. Their errors are of type [*Error] and match an
// error of package negotiate of the client module, and a kind:
//
//	negotiate.ErrNotRunning    hosterr.ErrUnavailable
//	negotiate.ErrBusy          hosterr.ErrUnavailable
//	negotiate.ErrStopping      hosterr.ErrUnavailable
//	negotiate.ErrTooOld        hosterr.ErrUnimplemented, errors.ErrUnsupported
//	negotiate.ErrNotServed     hosterr.ErrUnimplemented, errors.ErrUnsupported
//	negotiate.ErrAccessDenied  hosterr.ErrPermissionDenied
//
// # Errors
//
// With errors.Is, errors are the same as in process: they have the same kind and the same
// Win32 error number (so [io/fs.ErrNotExist] and similar errors match), or a context's error
// if a context ended. They also have the same text. All errors are of type [*Error], which
// has further details from the proxy.
//
// The errors are not gRPC statuses. Otherwise, a driver that returns such an error from a
// gRPC method of its own would report NotFound for a volume when the proxy meant a path.
//
// The published proxies send no details. Their errors have a text and a code, and kinds
// only for codes that gRPC itself returns.
//
// Some errors exist only through pipes: if the proxy stopped, the error has the kind
// hosterr.ErrUnavailable and names the pipe; if a request is too large for the proxy, it
// has the kind hosterr.ErrInvalid.
//
// Package conformance tests these clients over simulated nodes, with all versions served and
// with only the oldest versions. docs/develop/verification.md says what has been verified,
// and on which systems.
package remote
