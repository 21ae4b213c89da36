package wine

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/test/wine/driver"
)

// Reasons why an operation does not run under Wine.
const (
	onWine      = ""
	noDisk      = "Wine's disks support no control codes"
	noMounts    = "Wine mounts no volumes"
	noReparse   = "Wine has no reparse points"
	noFormatter = "Wine has neither MSFT_Volume nor fmifs.dll"
)

// world is a node and its services. It records the successful calls.
type world struct {
	disk   *disk.Disk
	volume *volume.Volume
	files  *filesystem.Filesystem
	system *system.System

	number uint32 // of the disk to use
	id     string // of the volume
	letter string // the volume of C:

	mu    sync.Mutex
	calls map[string]bool
}

const workDir = `C:\var\lib\kubelet\operations`

func (w *world) record(c *win32.Call) error {
	err := c.Do()
	if err != nil || c.Name == "CloseHandle" {
		return err
	}
	name := c.Name
	if name == "DeviceIoControl" {
		name = win32.ControlCodeName(c.Code)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[name] = true
	return nil
}

// The kinds of a world.
const (
	onEmulated = "emulated"
	onWine10   = "Wine"
	onDriver   = "Wine + driver" // with the disks and volumes of an emulated node
	onWindows  = "Windows"
)

// here returns Windows, which may be Wine, if the test runs on it, and otherwise
// the emulated node.
func here(t *testing.T) (api win32.API, on string) {
	t.Helper()
	if runtime.GOOS != "windows" {
		e, err := emulated.Open(nodespec.Config{}, emulated.Machine{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e, onEmulated
	}
	n, err := node.Native()
	if err != nil {
		t.Fatal(err)
	}
	if driver.UnderWine() {
		return n.API, onWine10
	}
	return n.API, onWindows
}

// newWorld creates the services over api.
func newWorld(t *testing.T, api win32.API) *world {
	t.Helper()
	w := &world{calls: map[string]bool{}, number: 1}
	n := node.New(win32.Observe(api, w.record))
	s, err := services.Open(n, services.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.disk, w.volume, w.files, w.system = s.Disk, s.Volume, s.Filesystem, s.System
	if w.letter, err = api.VolumeNameForMountPoint(`C:\`); err != nil {
		t.Fatal(err)
	}
	return w
}

// operation is a name, the reason why it does not run under Wine, and a call.
type operation struct {
	name, lacks string
	run         func(context.Context, *world) error
}

// does returns a run of a service's method.
func does[S, In, Out any](of func(*world) S, method func(S, context.Context, *In) (*Out, error), in func(*world) *In, check func(*world, *Out) bool) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		out, err := method(of(w), ctx, in(w))
		if err == nil && check != nil && !check(w, out) {
			return fmt.Errorf("returned %+v", out)
		}
		return err
	}
}

func disks(w *world) *disk.Disk               { return w.disk }
func volumes(w *world) *volume.Volume         { return w.volume }
func files(w *world) *filesystem.Filesystem   { return w.files }
func systems(w *world) *system.System         { return w.system }
func constant[In any](in In) func(*world) *In { return func(*world) *In { return &in } }

// operations are the life of a volume, in an order in which each finds what it
// needs.
var operations = []operation{
	{"disk ListDiskIDs", noDisk, does(disks, (*disk.Disk).ListDiskIDs, constant(disk.ListDiskIDsRequest{}),
		func(_ *world, out *disk.ListDiskIDsResponse) bool { return len(out.DiskIDs) == 3 })},
	{"disk ListDiskLocations", noDisk, does(disks, (*disk.Disk).ListDiskLocations, constant(disk.ListDiskLocationsRequest{}), nil)},
	{"disk Rescan", noDisk, does(disks, (*disk.Disk).Rescan, constant(disk.RescanRequest{}), nil)},
	{"disk GetDiskStats", noDisk, does(disks, (*disk.Disk).GetDiskStats, constant(disk.GetDiskStatsRequest{DiskNumber: 1}),
		func(_ *world, out *disk.GetDiskStatsResponse) bool { return out.TotalBytes > 0 })},
	{"disk SetDiskState, offline", noDisk, does(disks, (*disk.Disk).SetDiskState, constant(disk.SetDiskStateRequest{DiskNumber: 1}), nil)},
	{"disk SetDiskState, online", noDisk, does(disks, (*disk.Disk).SetDiskState, constant(disk.SetDiskStateRequest{DiskNumber: 1, IsOnline: true}), nil)},
	{"disk GetDiskState", noDisk, does(disks, (*disk.Disk).GetDiskState, constant(disk.GetDiskStateRequest{DiskNumber: 1}),
		func(_ *world, out *disk.GetDiskStateResponse) bool { return out.IsOnline })},
	{"disk SetDiskReadOnly", noDisk, does(disks, (*disk.Disk).SetDiskReadOnly, constant(disk.SetDiskReadOnlyRequest{DiskNumber: 1, IsReadOnly: true}), nil)},
	{"disk SetDiskReadOnly, writable", noDisk, does(disks, (*disk.Disk).SetDiskReadOnly, constant(disk.SetDiskReadOnlyRequest{DiskNumber: 1}), nil)},
	{"disk GetDiskReadOnly", noDisk, does(disks, (*disk.Disk).GetDiskReadOnly, constant(disk.GetDiskReadOnlyRequest{DiskNumber: 1}),
		func(_ *world, out *disk.GetDiskReadOnlyResponse) bool { return !out.IsReadOnly })},
	{"disk PartitionDisk", noDisk, does(disks, (*disk.Disk).PartitionDisk, constant(disk.PartitionDiskRequest{DiskNumber: 1}), nil)},
	{"volume ListVolumesOnDisk", noDisk, does(volumes, (*volume.Volume).ListVolumesOnDisk, constant(volume.ListVolumesOnDiskRequest{DiskNumber: 1}),
		func(w *world, out *volume.ListVolumesOnDiskResponse) bool {
			if len(out.VolumeIDs) == 1 {
				w.id = out.VolumeIDs[0]
			}
			return w.id != ""
		})},
	{"volume IsVolumeFormatted", onWine, does(volumes, (*volume.Volume).IsVolumeFormatted,
		func(w *world) *volume.IsVolumeFormattedRequest {
			return &volume.IsVolumeFormattedRequest{VolumeID: w.letter}
		},
		func(_ *world, out *volume.IsVolumeFormattedResponse) bool { return out.Formatted })},
	{"volume FormatVolume", noFormatter, does(volumes, (*volume.Volume).FormatVolume,
		func(w *world) *volume.FormatVolumeRequest { return &volume.FormatVolumeRequest{VolumeID: w.id} }, nil)},
	{"filesystem Mkdir", onWine, does(files, (*filesystem.Filesystem).Mkdir, constant(filesystem.MkdirRequest{Path: workDir + `\a\b`}), nil)},
	{"filesystem PathExists", onWine, does(files, (*filesystem.Filesystem).PathExists, constant(filesystem.PathExistsRequest{Path: workDir + `\a\b`}),
		func(_ *world, out *filesystem.PathExistsResponse) bool { return out.Exists })},
	{"filesystem PathValid", onWine, does(files, (*filesystem.Filesystem).PathValid, constant(filesystem.PathValidRequest{Path: workDir + `\a`}),
		func(_ *world, out *filesystem.PathValidResponse) bool { return out.Valid })},
	{"volume MountVolume", noMounts, does(volumes, (*volume.Volume).MountVolume,
		func(w *world) *volume.MountVolumeRequest {
			return &volume.MountVolumeRequest{VolumeID: w.id, TargetPath: workDir + `\a\b`}
		}, nil)},
	{"volume GetVolumeIDFromTargetPath", noMounts, does(volumes, (*volume.Volume).GetVolumeIDFromTargetPath,
		constant(volume.GetVolumeIDFromTargetPathRequest{TargetPath: workDir + `\a\b`}),
		func(w *world, out *volume.GetVolumeIDFromTargetPathResponse) bool { return out.VolumeID == w.id })},
	{"volume GetClosestVolumeIDFromTargetPath", onWine, does(volumes, (*volume.Volume).GetClosestVolumeIDFromTargetPath,
		constant(volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: workDir}),
		func(w *world, out *volume.GetClosestVolumeIDFromTargetPathResponse) bool {
			return out.VolumeID == w.letter
		})},
	{"volume GetDiskNumberFromVolumeID", noDisk, does(volumes, (*volume.Volume).GetDiskNumberFromVolumeID,
		func(w *world) *volume.GetDiskNumberFromVolumeIDRequest {
			return &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: w.id}
		}, func(_ *world, out *volume.GetDiskNumberFromVolumeIDResponse) bool { return out.DiskNumber == 1 })},
	{"volume GetVolumeStats", onWine, does(volumes, (*volume.Volume).GetVolumeStats,
		func(w *world) *volume.GetVolumeStatsRequest { return &volume.GetVolumeStatsRequest{VolumeID: w.letter} },
		func(_ *world, out *volume.GetVolumeStatsResponse) bool { return out.TotalBytes > out.UsedBytes })},
	{"volume ResizeVolume", noDisk, does(volumes, (*volume.Volume).ResizeVolume,
		func(w *world) *volume.ResizeVolumeRequest { return &volume.ResizeVolumeRequest{VolumeID: w.id} }, nil)},
	{"volume WriteVolumeCache", noDisk, does(volumes, (*volume.Volume).WriteVolumeCache,
		func(w *world) *volume.WriteVolumeCacheRequest { return &volume.WriteVolumeCacheRequest{VolumeID: w.id} }, nil)},
	{"filesystem CreateSymlink", noReparse, does(files, (*filesystem.Filesystem).CreateSymlink,
		constant(filesystem.CreateSymlinkRequest{SourcePath: workDir + `\a\b`, TargetPath: workDir + `\link`}), nil)},
	{"filesystem IsSymlink, of a link", noReparse, does(files, (*filesystem.Filesystem).IsSymlink, constant(filesystem.IsSymlinkRequest{Path: workDir + `\link`}),
		func(_ *world, out *filesystem.IsSymlinkResponse) bool { return out.IsSymlink })},
	{"filesystem IsSymlink, of a directory", onWine, does(files, (*filesystem.Filesystem).IsSymlink, constant(filesystem.IsSymlinkRequest{Path: workDir + `\a`}),
		func(_ *world, out *filesystem.IsSymlinkResponse) bool { return !out.IsSymlink })},
	{"volume UnmountVolume", noMounts, does(volumes, (*volume.Volume).UnmountVolume,
		func(w *world) *volume.UnmountVolumeRequest {
			return &volume.UnmountVolumeRequest{VolumeID: w.id, TargetPath: workDir + `\a\b`}
		}, nil)},
	{"filesystem RmdirContents", onWine, does(files, (*filesystem.Filesystem).RmdirContents, constant(filesystem.RmdirContentsRequest{Path: workDir + `\a`}), nil)},
	{"filesystem Rmdir", onWine, does(files, (*filesystem.Filesystem).Rmdir, constant(filesystem.RmdirRequest{Path: workDir, Force: true}), nil)},
	{"system GetBIOSSerialNumber", onWine, does(systems, (*system.System).GetBIOSSerialNumber, constant(system.GetBIOSSerialNumberRequest{}), nil)},
	{"system GetService", onWine, does(systems, (*system.System).GetService, constant(system.GetServiceRequest{Name: "RpcSs"}), nil)},
}

// lacking returns why an operation cannot run in a world, "" if it can.
func (o operation) lacking(on string) string {
	switch {
	case o.lacks == onWine || on == onEmulated:
		return ""
	case on == onDriver && (o.lacks == noDisk || o.lacks == noFormatter):
		return ""
	case on == onWindows && o.lacks != noReparse:
		return "needs a disk that may be overwritten; this test does not use one of a real Windows"
	case on == onWindows:
		return ""
	}
	return "needs real Windows: " + o.lacks
}

// runOperations runs the operations that a world supports, and records the calls.
func runOperations(t *testing.T, w *world, on string) {
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			if why := o.lacking(on); why != "" {
				t.Skip(why)
			}
			w.mu.Lock()
			clear(w.calls)
			w.mu.Unlock()
			if err := o.run(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			t.Attr("operation", strings.Join([]string{on, o.name, strings.Join(slices.Sorted(maps.Keys(w.calls)), ", ")}, "|"))
		})
	}
}

// TestOperations runs every operation over the emulated node, and those that
// Windows supports over Windows. Its test attributes are the source of
// docs/evidence/operations.md.
func TestOperations(t *testing.T) {
	api, on := here(t)
	runOperations(t, newWorld(t, api), on)
}
