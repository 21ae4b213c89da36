package main

import (
	"context"
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// driver is what a driver knows of its volume, and its clients.
type driver struct {
	disk   disk.Service
	volume volume.Service
	files  filesystem.Service
	system system.Service
	letter string // the ID of the volume C:
	id     string // of its volume, once it has been listed
}

// operation is a call of the life of a volume, with a check of its answer.
type operation struct {
	name string
	run  func(context.Context, *driver) error
}

// ask makes a call. The answer must pass the check, if there is one.
func ask[In, Out any](ctx context.Context, method func(context.Context, *In) (*Out, error), in In, check func(*Out) bool) error {
	out, err := method(ctx, &in)
	if err == nil && check != nil && !check(out) {
		return fmt.Errorf("returned %+v", out)
	}
	return err
}

// lifeOfVolume returns one call of each operation, in an order in which each finds what it needs.
func lifeOfVolume() []operation {
	return []operation{
		{"disk ListDiskIDs", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.ListDiskIDs, disk.ListDiskIDsRequest{}, func(out *disk.ListDiskIDsResponse) bool { return out.DiskIDs[matrixDisk] != nil })
		}},
		{"disk ListDisks", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.ListDisks, disk.ListDisksRequest{}, func(out *disk.ListDisksResponse) bool { return out.Disks[matrixDisk] != nil })
		}},
		{"disk ListDiskLocations", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.ListDiskLocations, disk.ListDiskLocationsRequest{}, nil)
		}},
		{"disk Rescan", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.Rescan, disk.RescanRequest{}, nil)
		}},
		{"disk GetDiskStats", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.GetDiskStats, disk.GetDiskStatsRequest{DiskNumber: matrixDisk}, func(out *disk.GetDiskStatsResponse) bool { return out.TotalBytes > 0 })
		}},
		{"disk SetDiskState, offline", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.SetDiskState, disk.SetDiskStateRequest{DiskNumber: matrixDisk}, nil)
		}},
		{"disk SetDiskState, online", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.SetDiskState, disk.SetDiskStateRequest{DiskNumber: matrixDisk, IsOnline: true}, nil)
		}},
		{"disk GetDiskState", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.GetDiskState, disk.GetDiskStateRequest{DiskNumber: matrixDisk}, func(out *disk.GetDiskStateResponse) bool { return out.IsOnline })
		}},
		{"disk SetDiskReadOnly", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.SetDiskReadOnly, disk.SetDiskReadOnlyRequest{DiskNumber: matrixDisk, IsReadOnly: true}, nil)
		}},
		{"disk SetDiskReadOnly, writable", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.SetDiskReadOnly, disk.SetDiskReadOnlyRequest{DiskNumber: matrixDisk}, nil)
		}},
		{"disk GetDiskReadOnly", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.GetDiskReadOnly, disk.GetDiskReadOnlyRequest{DiskNumber: matrixDisk}, func(out *disk.GetDiskReadOnlyResponse) bool { return !out.IsReadOnly })
		}},
		{"disk PartitionDisk", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.disk.PartitionDisk, disk.PartitionDiskRequest{DiskNumber: matrixDisk}, nil)
		}},
		{"volume ListVolumesOnDisk", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.ListVolumesOnDisk, volume.ListVolumesOnDiskRequest{DiskNumber: matrixDisk}, func(out *volume.ListVolumesOnDiskResponse) bool {
				if len(out.VolumeIDs) == 1 {
					d.id = out.VolumeIDs[0]
				}
				return d.id != ""
			})
		}},
		{"volume IsVolumeFormatted", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.IsVolumeFormatted, volume.IsVolumeFormattedRequest{VolumeID: d.letter}, func(out *volume.IsVolumeFormattedResponse) bool { return out.Formatted })
		}},
		{"volume FormatVolume", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.FormatVolume, volume.FormatVolumeRequest{VolumeID: d.id, Filesystem: "ntfs", AllocationUnitBytes: 64 << 10}, nil)
		}},
		{"filesystem Mkdir", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.files.Mkdir, filesystem.MkdirRequest{Path: matrixAt}, nil)
		}},
		{"filesystem PathExists", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.files.PathExists, filesystem.PathExistsRequest{Path: matrixAt}, func(out *filesystem.PathExistsResponse) bool { return out.Exists })
		}},
		{"filesystem PathValid", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.files.PathValid, filesystem.PathValidRequest{Path: matrixDir + `\a`}, func(out *filesystem.PathValidResponse) bool { return out.Valid })
		}},
		{"volume MountVolume", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.MountVolume, volume.MountVolumeRequest{VolumeID: d.id, TargetPath: matrixAt}, nil)
		}},
		{"volume GetVolumeIDFromTargetPath", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.GetVolumeIDFromTargetPath, volume.GetVolumeIDFromTargetPathRequest{TargetPath: matrixAt}, func(out *volume.GetVolumeIDFromTargetPathResponse) bool { return out.VolumeID == d.id })
		}},
		{"volume GetClosestVolumeIDFromTargetPath", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.GetClosestVolumeIDFromTargetPath, volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: matrixDir}, func(out *volume.GetClosestVolumeIDFromTargetPathResponse) bool {
				return out.VolumeID == d.letter
			})
		}},
		{"volume GetPathKind, of a mount point", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.GetPathKind, volume.GetPathKindRequest{Path: matrixAt}, func(out *volume.GetPathKindResponse) bool {
				return out.Kind == volume.PATH_KIND_VOLUME && out.VolumeID == d.id
			})
		}},
		{"volume GetPathKind, of a directory", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.GetPathKind, volume.GetPathKindRequest{Path: matrixDir + `\a`}, func(out *volume.GetPathKindResponse) bool { return out.Kind == volume.PATH_KIND_DIRECTORY })
		}},
		{"volume GetPathStats", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.GetPathStats, volume.GetPathStatsRequest{Path: matrixDir}, func(out *volume.GetPathStatsResponse) bool { return out.TotalBytes > out.UsedBytes })
		}},
		{"volume GetDiskNumberFromVolumeID", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.GetDiskNumberFromVolumeID, volume.GetDiskNumberFromVolumeIDRequest{VolumeID: d.id}, func(out *volume.GetDiskNumberFromVolumeIDResponse) bool { return out.DiskNumber == matrixDisk })
		}},
		{"volume GetVolumeStats", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.GetVolumeStats, volume.GetVolumeStatsRequest{VolumeID: d.letter}, func(out *volume.GetVolumeStatsResponse) bool { return out.TotalBytes > out.UsedBytes })
		}},
		{"volume ResizeVolume", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.ResizeVolume, volume.ResizeVolumeRequest{VolumeID: d.id}, nil)
		}},
		{"volume WriteVolumeCache", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.WriteVolumeCache, volume.WriteVolumeCacheRequest{VolumeID: d.id}, nil)
		}},
		{"filesystem CreateSymlink", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.files.CreateSymlink, filesystem.CreateSymlinkRequest{SourcePath: matrixAt, TargetPath: matrixDir + `\link`}, nil)
		}},
		{"filesystem IsSymlink, of a link", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.files.IsSymlink, filesystem.IsSymlinkRequest{Path: matrixDir + `\link`}, func(out *filesystem.IsSymlinkResponse) bool { return out.IsSymlink })
		}},
		{"filesystem IsSymlink, of a directory", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.files.IsSymlink, filesystem.IsSymlinkRequest{Path: matrixDir + `\a`}, func(out *filesystem.IsSymlinkResponse) bool { return !out.IsSymlink })
		}},
		{"volume UnmountVolume", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.volume.UnmountVolume, volume.UnmountVolumeRequest{VolumeID: d.id, TargetPath: matrixAt}, nil)
		}},
		{"filesystem RmdirContents", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.files.RmdirContents, filesystem.RmdirContentsRequest{Path: matrixDir + `\a`}, nil)
		}},
		{"filesystem Rmdir", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.files.Rmdir, filesystem.RmdirRequest{Path: matrixDir, Force: true}, nil)
		}},
		{"system GetBIOSSerialNumber", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.system.GetBIOSSerialNumber, system.GetBIOSSerialNumberRequest{}, nil)
		}},
		{"system GetService", func(ctx context.Context, d *driver) error {
			return ask(ctx, d.system.GetService, system.GetServiceRequest{Name: "RpcSs"}, nil)
		}},
	}
}
