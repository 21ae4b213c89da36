package conformance

import (
	"errors"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// checkResponse checks that a call that succeeded returned a response. It skips
// the case if the node lacks the method.
func checkResponse[T any](e *env, method string, out *T, err error) error {
	e.Helper()
	if slices.Contains(e.n.Lacks, method) {
		if !errors.Is(err, errors.ErrUnsupported) {
			e.Fatalf("%s: %v, want an error that is %q: the node lacks the method", method, err, errors.ErrUnsupported)
		}
		e.Skipf("the version of the API behind this node lacks %s; the newest one, or the node in process, runs the case", method)
	}
	if err == nil && out == nil {
		e.Errorf("%s succeeded without a response", method)
	}
	return err
}

func (e *env) partition(number uint32) error {
	e.Helper()
	out, err := e.n.Disk.PartitionDisk(e.ctx, &disk.PartitionDiskRequest{DiskNumber: number})
	return checkResponse(e, "PartitionDisk", out, err)
}

func (e *env) rescan() error {
	e.Helper()
	out, err := e.n.Disk.Rescan(e.ctx, &disk.RescanRequest{})
	return checkResponse(e, "Rescan", out, err)
}

func (e *env) setOnline(number uint32, online bool) error {
	e.Helper()
	out, err := e.n.Disk.SetDiskState(e.ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: online})
	return checkResponse(e, "SetDiskState", out, err)
}

func (e *env) online(number uint32) (bool, error) {
	e.Helper()
	out, err := e.n.Disk.GetDiskState(e.ctx, &disk.GetDiskStateRequest{DiskNumber: number})
	if checkResponse(e, "GetDiskState", out, err) != nil || out == nil {
		return false, err
	}
	return out.IsOnline, nil
}

// wantOnline checks a disk's state.
func (e *env) wantOnline(number uint32, want bool) {
	e.Helper()
	if got, err := e.online(number); err != nil || got != want {
		e.Errorf("disk %d is online: %t, %v, want %t", number, got, err, want)
	}
}

func (e *env) setReadOnly(number uint32, readOnly bool) error {
	e.Helper()
	out, err := e.n.Disk.SetDiskReadOnly(e.ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: number, IsReadOnly: readOnly})
	return checkResponse(e, "SetDiskReadOnly", out, err)
}

// wantReadOnly checks whether a disk is read-only.
func (e *env) wantReadOnly(number uint32, want bool) {
	e.Helper()
	out, err := e.n.Disk.GetDiskReadOnly(e.ctx, &disk.GetDiskReadOnlyRequest{DiskNumber: number})
	if checkResponse(e, "GetDiskReadOnly", out, err) != nil || out == nil || out.IsReadOnly != want {
		e.Errorf("disk %d is read-only: %+v, %v, want %t", number, out, err, want)
	}
}

// disk returns what ListDisks says about a disk.
func (e *env) disk(number uint32) disk.DiskInfo {
	e.Helper()
	out, err := e.n.Disk.ListDisks(e.ctx, &disk.ListDisksRequest{})
	if checkResponse(e, "ListDisks", out, err) != nil || out == nil || out.Disks[number] == nil {
		e.Fatalf("ListDisks = %+v, %v, want disk %d", out, err, number)
	}
	return *out.Disks[number]
}

func (e *env) size(number uint32) (int64, error) {
	e.Helper()
	out, err := e.n.Disk.GetDiskStats(e.ctx, &disk.GetDiskStatsRequest{DiskNumber: number})
	if checkResponse(e, "GetDiskStats", out, err) != nil || out == nil {
		return 0, err
	}
	return out.TotalBytes, nil
}

func (e *env) ids() (map[uint32]*disk.DiskIDs, error) {
	e.Helper()
	out, err := e.n.Disk.ListDiskIDs(e.ctx, &disk.ListDiskIDsRequest{})
	if checkResponse(e, "ListDiskIDs", out, err) != nil || out == nil {
		return nil, err
	}
	return out.DiskIDs, nil
}

func (e *env) locations() (map[uint32]*disk.DiskLocation, error) {
	e.Helper()
	out, err := e.n.Disk.ListDiskLocations(e.ctx, &disk.ListDiskLocationsRequest{})
	if checkResponse(e, "ListDiskLocations", out, err) != nil || out == nil {
		return nil, err
	}
	return out.DiskLocations, nil
}

func (e *env) list(number, partition uint32) []string {
	e.Helper()
	ids, err := e.listed(number, partition)
	e.ok(err)
	return ids
}

func (e *env) listed(number, partition uint32) ([]string, error) {
	e.Helper()
	out, err := e.n.Volume.ListVolumesOnDisk(e.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number, PartitionNumber: partition})
	method := "ListVolumesOnDisk"
	if partition != 0 {
		method = ListPartition
	}
	if err := checkResponse(e, method, out, err); err != nil || out == nil {
		return nil, err
	}
	return out.VolumeIDs, nil
}

// volume returns the only volume of a disk.
func (e *env) volume(number uint32) string {
	e.Helper()
	ids := e.list(number, 0)
	if len(ids) != 1 {
		e.Fatalf("disk %d has the volumes %q, want one", number, ids)
	}
	return ids[0]
}

func (e *env) formatted(id string) (bool, error) {
	e.Helper()
	out, err := e.n.Volume.IsVolumeFormatted(e.ctx, &volume.IsVolumeFormattedRequest{VolumeID: id})
	if checkResponse(e, "IsVolumeFormatted", out, err) != nil || out == nil {
		return false, err
	}
	return out.Formatted, nil
}

// wantFormatted checks whether a volume has a file system.
func (e *env) wantFormatted(id string, want bool) {
	e.Helper()
	if got, err := e.formatted(id); err != nil || got != want {
		e.Errorf("volume %s is formatted: %t, %v, want %t", id, got, err, want)
	}
}

func (e *env) format(id string) error {
	e.Helper()
	out, err := e.n.Volume.FormatVolume(e.ctx, &volume.FormatVolumeRequest{VolumeID: id})
	return checkResponse(e, "FormatVolume", out, err)
}

// formatAs formats a volume with a file system and an allocation unit.
func (e *env) formatAs(id, filesystem string, unit uint32) error {
	e.Helper()
	out, err := e.n.Volume.FormatVolume(e.ctx, &volume.FormatVolumeRequest{VolumeID: id, Filesystem: filesystem, AllocationUnitBytes: unit})
	return checkResponse(e, AllocationUnit, out, err)
}

func (e *env) mount(id, path string) error {
	e.Helper()
	out, err := e.n.Volume.MountVolume(e.ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: path})
	return checkResponse(e, "MountVolume", out, err)
}

func (e *env) unmount(id, path string) error {
	e.Helper()
	out, err := e.n.Volume.UnmountVolume(e.ctx, &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: path})
	return checkResponse(e, "UnmountVolume", out, err)
}

func (e *env) flush(id string) error {
	e.Helper()
	out, err := e.n.Volume.WriteVolumeCache(e.ctx, &volume.WriteVolumeCacheRequest{VolumeID: id})
	return checkResponse(e, "WriteVolumeCache", out, err)
}

func (e *env) resize(id string, size int64) error {
	e.Helper()
	out, err := e.n.Volume.ResizeVolume(e.ctx, &volume.ResizeVolumeRequest{VolumeID: id, SizeBytes: size})
	return checkResponse(e, "ResizeVolume", out, err)
}

func (e *env) stats(id string) (total, used int64, err error) {
	e.Helper()
	out, err := e.n.Volume.GetVolumeStats(e.ctx, &volume.GetVolumeStatsRequest{VolumeID: id})
	if checkResponse(e, "GetVolumeStats", out, err) != nil || out == nil {
		return 0, 0, err
	}
	return out.TotalBytes, out.UsedBytes, nil
}

// total returns the size of a volume's file system.
func (e *env) total(id string) int64 {
	e.Helper()
	total, _, err := e.stats(id)
	e.ok(err)
	return total
}

// wantTotal checks the size of a volume's file system. It may be up to 20 MiB
// smaller, as in the drivers' own tests.
func (e *env) wantTotal(id string, want int64) {
	e.Helper()
	const slack = 20 * mib
	if got := e.total(id); got > want || got < want-slack {
		e.Errorf("volume %s has %d bytes, want %d or up to %d less", id, got, want, slack)
	}
}

func (e *env) diskOf(id string) (uint32, error) {
	e.Helper()
	out, err := e.n.Volume.GetDiskNumberFromVolumeID(e.ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: id})
	if checkResponse(e, "GetDiskNumberFromVolumeID", out, err) != nil || out == nil {
		return 0, err
	}
	return out.DiskNumber, nil
}

func (e *env) mountedAt(path string) (string, error) {
	e.Helper()
	out, err := e.n.Volume.GetVolumeIDFromTargetPath(e.ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: path})
	if checkResponse(e, "GetVolumeIDFromTargetPath", out, err) != nil || out == nil {
		return "", err
	}
	return out.VolumeID, nil
}

// wantMounted checks which volume is mounted on a directory.
func (e *env) wantMounted(path, id string) {
	e.Helper()
	if got, err := e.mountedAt(path); err != nil || !strings.EqualFold(got, id) {
		e.Errorf("mounted on %s: %q, %v, want %q", path, got, err, id)
	}
}

func (e *env) closest(path string) (string, error) {
	e.Helper()
	out, err := e.n.Volume.GetClosestVolumeIDFromTargetPath(e.ctx, &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: path})
	if checkResponse(e, "GetClosestVolumeIDFromTargetPath", out, err) != nil || out == nil {
		return "", err
	}
	return out.VolumeID, nil
}

// wantClosest checks which volume a path is on.
func (e *env) wantClosest(path, id string) {
	e.Helper()
	if got, err := e.closest(path); err != nil || !strings.EqualFold(got, id) {
		e.Errorf("the volume of %s: %q, %v, want %q", path, got, err, id)
	}
}

// spaceAt returns the size and the used bytes of what holds a path.
func (e *env) spaceAt(path string) (total, used int64, err error) {
	e.Helper()
	out, err := e.n.Volume.GetPathStats(e.ctx, &volume.GetPathStatsRequest{Path: path})
	if checkResponse(e, "GetPathStats", out, err) != nil || out == nil {
		return 0, 0, err
	}
	return out.TotalBytes, out.UsedBytes, nil
}

func (e *env) kindOf(path string) (volume.GetPathKindResponse, error) {
	e.Helper()
	out, err := e.n.Volume.GetPathKind(e.ctx, &volume.GetPathKindRequest{Path: path})
	if checkResponse(e, "GetPathKind", out, err) != nil || out == nil {
		return volume.GetPathKindResponse{}, err
	}
	return *out, nil
}

// wantKind checks what is at a path. id is the volume of a mount point.
func (e *env) wantKind(path string, want volume.PathKind, id string) {
	e.Helper()
	got, err := e.kindOf(path)
	if err != nil || got.Kind != want || !strings.EqualFold(got.VolumeID, id) {
		e.Errorf("at %s is %+v, %v, want %d %q", path, got, err, want, id)
	}
}

func (e *env) mkdir(path string) error {
	e.Helper()
	out, err := e.n.Filesystem.Mkdir(e.ctx, &filesystem.MkdirRequest{Path: path})
	return checkResponse(e, "Mkdir", out, err)
}

func (e *env) rmdir(path string, force bool) error {
	e.Helper()
	out, err := e.n.Filesystem.Rmdir(e.ctx, &filesystem.RmdirRequest{Path: path, Force: force})
	return checkResponse(e, "Rmdir", out, err)
}

func (e *env) empty(path string) error {
	e.Helper()
	out, err := e.n.Filesystem.RmdirContents(e.ctx, &filesystem.RmdirContentsRequest{Path: path})
	return checkResponse(e, "RmdirContents", out, err)
}

// link makes path a link to source.
func (e *env) link(source, path string) error {
	e.Helper()
	out, err := e.n.Filesystem.CreateSymlink(e.ctx, &filesystem.CreateSymlinkRequest{SourcePath: source, TargetPath: path})
	return checkResponse(e, "CreateSymlink", out, err)
}

func (e *env) exists(path string) (bool, error) {
	e.Helper()
	out, err := e.n.Filesystem.PathExists(e.ctx, &filesystem.PathExistsRequest{Path: path})
	if checkResponse(e, "PathExists", out, err) != nil || out == nil {
		return false, err
	}
	return out.Exists, nil
}

// wantExists checks whether paths exist.
func (e *env) wantExists(want bool, paths ...string) {
	e.Helper()
	for _, p := range paths {
		if got, err := e.exists(p); err != nil || got != want {
			e.Errorf("%s exists: %t, %v, want %t", p, got, err, want)
		}
	}
}

func (e *env) isLink(path string) (bool, error) {
	e.Helper()
	out, err := e.n.Filesystem.IsSymlink(e.ctx, &filesystem.IsSymlinkRequest{Path: path})
	if checkResponse(e, "IsSymlink", out, err) != nil || out == nil {
		return false, err
	}
	return out.IsSymlink, nil
}

// wantLink checks whether a path is a link or mount point whose target exists.
func (e *env) wantLink(path string, want bool) {
	e.Helper()
	if got, err := e.isLink(path); err != nil || got != want {
		e.Errorf("%s is a link: %t, %v, want %t", path, got, err, want)
	}
}
