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
// its working directories, and an empty list or map comes as nil. Three methods
// cannot be called through a pipe, as no published version has them: [Filesystem.PathValid],
// [Disk.GetDiskReadOnly] and [Disk.SetDiskReadOnly].
//
// On systems without named pipes, unix sockets stand in for them, served by a
// simulated node; see package pipe of the client module.
//
// # Versions
//
// Each client speaks the newest version of its group that is served, of all that
// were published: [Disk.Version] and its like tell which. A container needs the pipes
// of one version of a group mounted at least. [WithVersions] narrows the choice.
//
// A method that the version does not have fails before anything is asked, with an
// error of the kind not implemented that is an [errors.ErrUnsupported] and names both:
//
//	disk/v1beta1 SetDiskState: version v1beta1 of the disk API, the newest at hand, does not have it
//
//	disk        v1, v1beta3      all but GetDiskReadOnly, SetDiskReadOnly
//	            v1beta2          the same
//	            v1beta1          nor GetDiskState, SetDiskState
//	            v1alpha1         nor GetDiskStats, ListDiskIDs
//	filesystem  v2alpha1         all but PathValid
//	            v1 and older     nor RmdirContents
//	iscsi       v1alpha2         all
//	            v1alpha1         not SetMutualChapSecret
//	smb         all              all
//	system      v1alpha1         all
//	volume      v2alpha1         all
//	            v1, v1beta3      not GetClosestVolumeIDFromTargetPath
//	            v1beta2          nor ListVolumesOnDisk of one partition
//	            v1beta1          nor WriteVolumeCache
//	            v1alpha1         nor GetVolumeStats, GetDiskNumberFromVolumeID, GetVolumeIDFromTargetPath
//
// Proxies before v1.0 told paths of plugins from paths of pods by a field of
// filesystem v1alpha1 and v1beta1; here all paths are those of plugins. Later
// proxies ignore it.
//
// # A proxy that is not there
//
// The constructors wait for a proxy that is still starting until the deadline of
// their context; without one they look once. Their errors are an Error, and besides one of
// package negotiate of the client module:
//
//	negotiate.ErrNotRunning    hosterr.ErrUnavailable
//	negotiate.ErrBusy          hosterr.ErrUnavailable
//	negotiate.ErrTooOld        hosterr.ErrUnimplemented, errors.ErrUnsupported
//	negotiate.ErrNotServed     hosterr.ErrUnimplemented, errors.ErrUnsupported
//	negotiate.ErrAccessDenied  hosterr.ErrPermissionDenied
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
// Proxies that answer without details, as the published ones do, give text and
// code alone; their failures are of no kind.
//
// What only happens here: if the proxy stopped, the error is of the kind
// unavailable and names the pipe; if a request is larger than the proxy takes, of
// the kind invalid argument.
//
// The whole contract (package conformance) is run through these clients over
// simulated nodes, with all versions served and with the oldest alone.
// What has been verified, and on what: docs/evidence/verification.md.
package remote
