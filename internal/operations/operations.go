// Package operations is the life of a volume as a list of calls, one of each kind, each
// with a check of its answer. Tests run it on the emulated node, on Wine and on Windows.
package operations

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// What an operation needs, which not every Windows has.
const (
	Nothing   = ""
	Disk      = "a disk that supports control codes"
	Mounts    = "a mount manager"
	Reparse   = "reparse points"
	Formatter = "MSFT_Volume or fmifs.dll"
)

// World is a node and its services.
type World struct {
	disk   disk.Service
	volume volume.Service
	files  filesystem.Service
	system system.Service

	number uint32 // of the disk to use
	dir    string // does not exist
	id     string // of the volume
	letter string // the volume of C:

	made *made
}

// New creates the services over api, and records their successful calls. The operations use the
// blank disk with the given number, and the directory dir, which they make and remove.
func New(api win32.API, number uint32, dir string) (*World, error) {
	made := &made{calls: map[string]bool{}}
	s, err := services.Open(node.New(win32.Observe(api, made.record)))
	if err != nil {
		return nil, err
	}
	letter, err := api.VolumeNameForMountPoint(`C:\`)
	w := Through(s.Disk, s.Volume, s.Filesystem, s.System, number, dir, letter)
	w.made = made
	return w, err
}

// Through is like [New] with services that exist, such as those behind pipes, whose Win32 calls
// it does not record. letter is the ID of the volume C:.
func Through(d disk.Service, v volume.Service, f filesystem.Service, s system.Service, number uint32, dir, letter string) *World {
	return &World{disk: d, volume: v, files: f, system: s, number: number, dir: dir, letter: letter, made: &made{}}
}

// made are the names of successful calls.
type made struct {
	mu    sync.Mutex
	calls map[string]bool
}

func (m *made) record(c *win32.Call) error {
	err := c.Do()
	if err != nil || c.Name == "CloseHandle" {
		return err
	}
	name := c.Name
	if name == "DeviceIoControl" {
		name = win32.ControlCodeName(c.Code)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[name] = true
	return nil
}

// Operation is a call, with a check of its answer.
type Operation struct {
	Name  string
	Needs string // one of the constants
	run   func(context.Context, *World) error
}

// Run makes the call. It returns the names of the successful Win32 calls, sorted.
func (o Operation) Run(ctx context.Context, w *World) (calls []string, err error) {
	w.made.mu.Lock()
	clear(w.made.calls)
	w.made.mu.Unlock()
	if err := o.run(ctx, w); err != nil {
		return nil, err
	}
	w.made.mu.Lock()
	defer w.made.mu.Unlock()
	return slices.Sorted(maps.Keys(w.made.calls)), nil
}

// does returns a run of a service's method.
func does[S, In, Out any](of func(*World) S, method func(S, context.Context, *In) (*Out, error), in func(*World) *In, check func(*World, *Out) bool) func(context.Context, *World) error {
	return func(ctx context.Context, w *World) error {
		out, err := method(of(w), ctx, in(w))
		if err == nil && check != nil && !check(w, out) {
			return fmt.Errorf("returned %+v", out)
		}
		return err
	}
}

func disks(w *World) disk.Service             { return w.disk }
func volumes(w *World) volume.Service         { return w.volume }
func files(w *World) filesystem.Service       { return w.files }
func systems(w *World) system.Service         { return w.system }
func constant[In any](in In) func(*World) *In { return func(*World) *In { return &in } }

// All returns the life of a volume, in an order in which each operation finds what it
// needs.
func All() []Operation {
	return []Operation{
		{"disk ListDiskIDs", Disk, does(disks, disk.Service.ListDiskIDs, constant(disk.ListDiskIDsRequest{}),
			func(w *World, out *disk.ListDiskIDsResponse) bool { return out.DiskIDs[w.number] != nil })},
		{"disk ListDisks", Disk, does(disks, disk.Service.ListDisks, constant(disk.ListDisksRequest{}),
			func(w *World, out *disk.ListDisksResponse) bool { return out.Disks[w.number] != nil })},
		{"disk ListDiskLocations", Disk, does(disks, disk.Service.ListDiskLocations, constant(disk.ListDiskLocationsRequest{}), nil)},
		{"disk Rescan", Disk, does(disks, disk.Service.Rescan, constant(disk.RescanRequest{}), nil)},
		{"disk GetDiskStats", Disk, does(disks, disk.Service.GetDiskStats, func(w *World) *disk.GetDiskStatsRequest { return &disk.GetDiskStatsRequest{DiskNumber: w.number} },
			func(_ *World, out *disk.GetDiskStatsResponse) bool { return out.TotalBytes > 0 })},
		{"disk SetDiskState, offline", Disk, does(disks, disk.Service.SetDiskState, func(w *World) *disk.SetDiskStateRequest { return &disk.SetDiskStateRequest{DiskNumber: w.number} }, nil)},
		{"disk SetDiskState, online", Disk, does(disks, disk.Service.SetDiskState, func(w *World) *disk.SetDiskStateRequest {
			return &disk.SetDiskStateRequest{DiskNumber: w.number, IsOnline: true}
		}, nil)},
		{"disk GetDiskState", Disk, does(disks, disk.Service.GetDiskState, func(w *World) *disk.GetDiskStateRequest { return &disk.GetDiskStateRequest{DiskNumber: w.number} },
			func(_ *World, out *disk.GetDiskStateResponse) bool { return out.IsOnline })},
		{"disk SetDiskReadOnly", Disk, does(disks, disk.Service.SetDiskReadOnly, func(w *World) *disk.SetDiskReadOnlyRequest {
			return &disk.SetDiskReadOnlyRequest{DiskNumber: w.number, IsReadOnly: true}
		}, nil)},
		{"disk SetDiskReadOnly, writable", Disk, does(disks, disk.Service.SetDiskReadOnly, func(w *World) *disk.SetDiskReadOnlyRequest { return &disk.SetDiskReadOnlyRequest{DiskNumber: w.number} }, nil)},
		{"disk GetDiskReadOnly", Disk, does(disks, disk.Service.GetDiskReadOnly, func(w *World) *disk.GetDiskReadOnlyRequest { return &disk.GetDiskReadOnlyRequest{DiskNumber: w.number} },
			func(_ *World, out *disk.GetDiskReadOnlyResponse) bool { return !out.IsReadOnly })},
		{"disk PartitionDisk", Disk, does(disks, disk.Service.PartitionDisk, func(w *World) *disk.PartitionDiskRequest { return &disk.PartitionDiskRequest{DiskNumber: w.number} }, nil)},
		{"volume ListVolumesOnDisk", Disk, does(volumes, volume.Service.ListVolumesOnDisk, func(w *World) *volume.ListVolumesOnDiskRequest {
			return &volume.ListVolumesOnDiskRequest{DiskNumber: w.number}
		},
			func(w *World, out *volume.ListVolumesOnDiskResponse) bool {
				if len(out.VolumeIDs) == 1 {
					w.id = out.VolumeIDs[0]
				}
				return w.id != ""
			})},
		{"volume IsVolumeFormatted", Nothing, does(volumes, volume.Service.IsVolumeFormatted,
			func(w *World) *volume.IsVolumeFormattedRequest {
				return &volume.IsVolumeFormattedRequest{VolumeID: w.letter}
			},
			func(_ *World, out *volume.IsVolumeFormattedResponse) bool { return out.Formatted })},
		{"volume FormatVolume", Formatter, does(volumes, volume.Service.FormatVolume,
			func(w *World) *volume.FormatVolumeRequest {
				return &volume.FormatVolumeRequest{VolumeID: w.id, Filesystem: "ntfs", AllocationUnitBytes: 64 << 10}
			}, nil)},
		{"filesystem Mkdir", Nothing, does(files, filesystem.Service.Mkdir, func(w *World) *filesystem.MkdirRequest {
			return &filesystem.MkdirRequest{Path: w.dir + `\a\globalmount`}
		}, nil)},
		{"filesystem PathExists", Nothing, does(files, filesystem.Service.PathExists, func(w *World) *filesystem.PathExistsRequest {
			return &filesystem.PathExistsRequest{Path: w.dir + `\a\globalmount`}
		},
			func(_ *World, out *filesystem.PathExistsResponse) bool { return out.Exists })},
		{"filesystem PathValid", Nothing, does(files, filesystem.Service.PathValid, func(w *World) *filesystem.PathValidRequest { return &filesystem.PathValidRequest{Path: w.dir + `\a`} },
			func(_ *World, out *filesystem.PathValidResponse) bool { return out.Valid })},
		{"volume MountVolume", Mounts, does(volumes, volume.Service.MountVolume,
			func(w *World) *volume.MountVolumeRequest {
				return &volume.MountVolumeRequest{VolumeID: w.id, TargetPath: w.dir + `\a\globalmount`}
			}, nil)},
		{"volume GetVolumeIDFromTargetPath", Mounts, does(volumes, volume.Service.GetVolumeIDFromTargetPath,
			func(w *World) *volume.GetVolumeIDFromTargetPathRequest {
				return &volume.GetVolumeIDFromTargetPathRequest{TargetPath: w.dir + `\a\globalmount`}
			},
			func(w *World, out *volume.GetVolumeIDFromTargetPathResponse) bool { return out.VolumeID == w.id })},
		{"volume GetClosestVolumeIDFromTargetPath", Nothing, does(volumes, volume.Service.GetClosestVolumeIDFromTargetPath,
			func(w *World) *volume.GetClosestVolumeIDFromTargetPathRequest {
				return &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: w.dir}
			},
			func(w *World, out *volume.GetClosestVolumeIDFromTargetPathResponse) bool {
				return out.VolumeID == w.letter
			})},
		{"volume GetPathKind, of a mount point", Mounts, does(volumes, volume.Service.GetPathKind,
			func(w *World) *volume.GetPathKindRequest {
				return &volume.GetPathKindRequest{Path: w.dir + `\a\globalmount`}
			},
			func(w *World, out *volume.GetPathKindResponse) bool {
				return out.Kind == volume.PATH_KIND_VOLUME && out.VolumeID == w.id
			})},
		{"volume GetPathKind, of a directory", Nothing, does(volumes, volume.Service.GetPathKind,
			func(w *World) *volume.GetPathKindRequest { return &volume.GetPathKindRequest{Path: w.dir + `\a`} },
			func(_ *World, out *volume.GetPathKindResponse) bool { return out.Kind == volume.PATH_KIND_DIRECTORY })},
		{"volume GetPathStats", Nothing, does(volumes, volume.Service.GetPathStats,
			func(w *World) *volume.GetPathStatsRequest { return &volume.GetPathStatsRequest{Path: w.dir} },
			func(_ *World, out *volume.GetPathStatsResponse) bool { return out.TotalBytes > out.UsedBytes })},
		{"volume GetDiskNumberFromVolumeID", Disk, does(volumes, volume.Service.GetDiskNumberFromVolumeID,
			func(w *World) *volume.GetDiskNumberFromVolumeIDRequest {
				return &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: w.id}
			}, func(w *World, out *volume.GetDiskNumberFromVolumeIDResponse) bool { return out.DiskNumber == w.number })},
		{"volume GetVolumeStats", Nothing, does(volumes, volume.Service.GetVolumeStats,
			func(w *World) *volume.GetVolumeStatsRequest { return &volume.GetVolumeStatsRequest{VolumeID: w.letter} },
			func(_ *World, out *volume.GetVolumeStatsResponse) bool { return out.TotalBytes > out.UsedBytes })},
		{"volume ResizeVolume", Disk, does(volumes, volume.Service.ResizeVolume,
			func(w *World) *volume.ResizeVolumeRequest { return &volume.ResizeVolumeRequest{VolumeID: w.id} }, nil)},
		{"volume WriteVolumeCache", Disk, does(volumes, volume.Service.WriteVolumeCache,
			func(w *World) *volume.WriteVolumeCacheRequest { return &volume.WriteVolumeCacheRequest{VolumeID: w.id} }, nil)},
		{"filesystem CreateSymlink", Reparse, does(files, filesystem.Service.CreateSymlink,
			func(w *World) *filesystem.CreateSymlinkRequest {
				return &filesystem.CreateSymlinkRequest{SourcePath: w.dir + `\a\globalmount`, TargetPath: w.dir + `\link`}
			}, nil)},
		{"filesystem IsSymlink, of a link", Reparse, does(files, filesystem.Service.IsSymlink, func(w *World) *filesystem.IsSymlinkRequest {
			return &filesystem.IsSymlinkRequest{Path: w.dir + `\link`}
		},
			func(_ *World, out *filesystem.IsSymlinkResponse) bool { return out.IsSymlink })},
		{"filesystem IsSymlink, of a directory", Nothing, does(files, filesystem.Service.IsSymlink, func(w *World) *filesystem.IsSymlinkRequest { return &filesystem.IsSymlinkRequest{Path: w.dir + `\a`} },
			func(_ *World, out *filesystem.IsSymlinkResponse) bool { return !out.IsSymlink })},
		{"volume UnmountVolume", Mounts, does(volumes, volume.Service.UnmountVolume,
			func(w *World) *volume.UnmountVolumeRequest {
				return &volume.UnmountVolumeRequest{VolumeID: w.id, TargetPath: w.dir + `\a\globalmount`}
			}, nil)},
		{"filesystem RmdirContents", Nothing, does(files, filesystem.Service.RmdirContents, func(w *World) *filesystem.RmdirContentsRequest {
			return &filesystem.RmdirContentsRequest{Path: w.dir + `\a`}
		}, nil)},
		{"filesystem Rmdir", Nothing, does(files, filesystem.Service.Rmdir, func(w *World) *filesystem.RmdirRequest { return &filesystem.RmdirRequest{Path: w.dir, Force: true} }, nil)},
		{"system GetBIOSSerialNumber", Nothing, does(systems, system.Service.GetBIOSSerialNumber, constant(system.GetBIOSSerialNumberRequest{}), nil)},
		{"system GetService", Nothing, does(systems, system.Service.GetService, constant(system.GetServiceRequest{Name: "RpcSs"}), nil)},
	}
}
