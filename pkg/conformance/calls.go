package conformance

import (
	"context"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// checkResponse checks that a call that succeeded returned a response.
func checkResponse[T any](e *env, out *T, err error) error {
	e.Helper()
	if err == nil && out == nil {
		e.Errorf("success without a %T", out)
	}
	return err
}

// do makes a call whose response says nothing.
func do[In, Out any](e *env, method func(context.Context, *In) (*Out, error), in *In) error {
	e.Helper()
	out, err := method(e.ctx, in)
	return checkResponse(e, out, err)
}

// get makes a call and returns a value of its response.
func get[In, Out, V any](e *env, method func(context.Context, *In) (*Out, error), in *In, value func(*Out) V) (v V, err error) {
	e.Helper()
	out, err := method(e.ctx, in)
	if err = checkResponse(e, out, err); err == nil && out != nil {
		v = value(out)
	}
	return v, err
}

// errOf drops the value of a call.
func errOf[T any](_ T, err error) error { return err }

func (e *env) partition(number uint32) error {
	return do(e, e.n.Disk.PartitionDisk, &disk.PartitionDiskRequest{DiskNumber: number})
}

func (e *env) rescan() error {
	return do(e, e.n.Disk.Rescan, &disk.RescanRequest{})
}

func (e *env) setOnline(number uint32, online bool) error {
	return do(e, e.n.Disk.SetDiskState, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: online})
}

func (e *env) online(number uint32) (bool, error) {
	return get(e, e.n.Disk.GetDiskState, &disk.GetDiskStateRequest{DiskNumber: number}, func(r *disk.GetDiskStateResponse) bool { return r.IsOnline })
}

// wantOnline checks a disk's state.
func (e *env) wantOnline(number uint32, want bool) {
	e.Helper()
	if got, err := e.online(number); err != nil || got != want {
		e.Errorf("disk %d is online: %t, %v, want %t", number, got, err, want)
	}
}

func (e *env) setReadOnly(number uint32, readOnly bool) error {
	return do(e, e.n.Disk.SetDiskReadOnly, &disk.SetDiskReadOnlyRequest{DiskNumber: number, IsReadOnly: readOnly})
}

func (e *env) readOnly(number uint32) (bool, error) {
	return get(e, e.n.Disk.GetDiskReadOnly, &disk.GetDiskReadOnlyRequest{DiskNumber: number}, func(r *disk.GetDiskReadOnlyResponse) bool { return r.IsReadOnly })
}

// wantReadOnly checks whether a disk is read-only.
func (e *env) wantReadOnly(number uint32, want bool) {
	e.Helper()
	if got, err := e.readOnly(number); err != nil || got != want {
		e.Errorf("disk %d is read-only: %t, %v, want %t", number, got, err, want)
	}
}

// disk returns what ListDisks says about a disk.
func (e *env) disk(number uint32) disk.DiskInfo {
	e.Helper()
	out, err := e.n.Disk.ListDisks(e.ctx, &disk.ListDisksRequest{})
	if checkResponse(e, out, err) != nil || out == nil || out.Disks[number] == nil {
		e.Fatalf("ListDisks = %+v, %v, want disk %d", out, err, number)
	}
	return *out.Disks[number]
}

func (e *env) size(number uint32) (int64, error) {
	return get(e, e.n.Disk.GetDiskStats, &disk.GetDiskStatsRequest{DiskNumber: number}, func(r *disk.GetDiskStatsResponse) int64 { return r.TotalBytes })
}

func (e *env) ids() (map[uint32]*disk.DiskIDs, error) {
	return get(e, e.n.Disk.ListDiskIDs, &disk.ListDiskIDsRequest{}, func(r *disk.ListDiskIDsResponse) map[uint32]*disk.DiskIDs { return r.DiskIDs })
}

func (e *env) locations() (map[uint32]*disk.DiskLocation, error) {
	return get(e, e.n.Disk.ListDiskLocations, &disk.ListDiskLocationsRequest{}, func(r *disk.ListDiskLocationsResponse) map[uint32]*disk.DiskLocation { return r.DiskLocations })
}

func (e *env) list(number, partition uint32) []string {
	e.Helper()
	ids, err := e.listed(number, partition)
	e.ok(err)
	return ids
}

func (e *env) listed(number, partition uint32) ([]string, error) {
	return get(e, e.n.Volume.ListVolumesOnDisk, &volume.ListVolumesOnDiskRequest{DiskNumber: number, PartitionNumber: partition}, func(r *volume.ListVolumesOnDiskResponse) []string { return r.VolumeIDs })
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
	return get(e, e.n.Volume.IsVolumeFormatted, &volume.IsVolumeFormattedRequest{VolumeID: id}, func(r *volume.IsVolumeFormattedResponse) bool { return r.Formatted })
}

// wantFormatted checks whether a volume has a file system.
func (e *env) wantFormatted(id string, want bool) {
	e.Helper()
	if got, err := e.formatted(id); err != nil || got != want {
		e.Errorf("volume %s is formatted: %t, %v, want %t", id, got, err, want)
	}
}

func (e *env) format(id string) error {
	return do(e, e.n.Volume.FormatVolume, &volume.FormatVolumeRequest{VolumeID: id})
}

// formatAs formats a volume with a file system and an allocation unit.
func (e *env) formatAs(id, filesystem string, unit uint32) error {
	return do(e, e.n.Volume.FormatVolume, &volume.FormatVolumeRequest{VolumeID: id, Filesystem: filesystem, AllocationUnitBytes: unit})
}

func (e *env) mount(id, path string) error {
	return do(e, e.n.Volume.MountVolume, &volume.MountVolumeRequest{VolumeID: id, TargetPath: path})
}

func (e *env) unmount(id, path string) error {
	return do(e, e.n.Volume.UnmountVolume, &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: path})
}

func (e *env) flush(id string) error {
	return do(e, e.n.Volume.WriteVolumeCache, &volume.WriteVolumeCacheRequest{VolumeID: id})
}

func (e *env) resize(id string, size int64) error {
	return do(e, e.n.Volume.ResizeVolume, &volume.ResizeVolumeRequest{VolumeID: id, SizeBytes: size})
}

// space is what GetVolumeStats and GetPathStats return.
type space struct{ total, used int64 }

func (e *env) stats(id string) (space, error) {
	return get(e, e.n.Volume.GetVolumeStats, &volume.GetVolumeStatsRequest{VolumeID: id}, func(r *volume.GetVolumeStatsResponse) space { return space{r.TotalBytes, r.UsedBytes} })
}

// total returns the size of a volume's file system.
func (e *env) total(id string) int64 {
	e.Helper()
	got, err := e.stats(id)
	e.ok(err)
	return got.total
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
	return get(e, e.n.Volume.GetDiskNumberFromVolumeID, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: id}, func(r *volume.GetDiskNumberFromVolumeIDResponse) uint32 { return r.DiskNumber })
}

func (e *env) mountedAt(path string) (string, error) {
	return get(e, e.n.Volume.GetVolumeIDFromTargetPath, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: path}, func(r *volume.GetVolumeIDFromTargetPathResponse) string { return r.VolumeID })
}

// wantMounted checks which volume is mounted on a directory.
func (e *env) wantMounted(path, id string) {
	e.Helper()
	if got, err := e.mountedAt(path); err != nil || !strings.EqualFold(got, id) {
		e.Errorf("mounted on %s: %q, %v, want %q", path, got, err, id)
	}
}

func (e *env) closest(path string) (string, error) {
	return get(e, e.n.Volume.GetClosestVolumeIDFromTargetPath, &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: path}, func(r *volume.GetClosestVolumeIDFromTargetPathResponse) string { return r.VolumeID })
}

// wantClosest checks which volume a path is on.
func (e *env) wantClosest(path, id string) {
	e.Helper()
	if got, err := e.closest(path); err != nil || !strings.EqualFold(got, id) {
		e.Errorf("the volume of %s: %q, %v, want %q", path, got, err, id)
	}
}

// spaceAt returns the size and the used bytes of what holds a path.
func (e *env) spaceAt(path string) (space, error) {
	return get(e, e.n.Volume.GetPathStats, &volume.GetPathStatsRequest{Path: path}, func(r *volume.GetPathStatsResponse) space { return space{r.TotalBytes, r.UsedBytes} })
}

func (e *env) kindOf(path string) (volume.GetPathKindResponse, error) {
	return get(e, e.n.Volume.GetPathKind, &volume.GetPathKindRequest{Path: path}, func(r *volume.GetPathKindResponse) volume.GetPathKindResponse { return *r })
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
	return do(e, e.n.Filesystem.Mkdir, &filesystem.MkdirRequest{Path: path})
}

func (e *env) rmdir(path string, force bool) error {
	return do(e, e.n.Filesystem.Rmdir, &filesystem.RmdirRequest{Path: path, Force: force})
}

func (e *env) empty(path string) error {
	return do(e, e.n.Filesystem.RmdirContents, &filesystem.RmdirContentsRequest{Path: path})
}

// link makes path a link to source.
func (e *env) link(source, path string) error {
	return do(e, e.n.Filesystem.CreateSymlink, &filesystem.CreateSymlinkRequest{SourcePath: source, TargetPath: path})
}

func (e *env) exists(path string) (bool, error) {
	return get(e, e.n.Filesystem.PathExists, &filesystem.PathExistsRequest{Path: path}, func(r *filesystem.PathExistsResponse) bool { return r.Exists })
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
	return get(e, e.n.Filesystem.IsSymlink, &filesystem.IsSymlinkRequest{Path: path}, func(r *filesystem.IsSymlinkResponse) bool { return r.IsSymlink })
}

// wantLink checks whether a path is a link or mount point whose target exists.
func (e *env) wantLink(path string, want bool) {
	e.Helper()
	if got, err := e.isLink(path); err != nil || got != want {
		e.Errorf("%s is a link: %t, %v, want %t", path, got, err, want)
	}
}
