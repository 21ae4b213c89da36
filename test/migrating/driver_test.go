package migrating

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// driver is a node plugin. It works the same in process and through pipes.
type driver struct {
	disk       disk.Interface
	volume     volume.Interface
	filesystem filesystem.Interface
}

// stage mounts the volume of the disk with a serial number at dir.
func (d driver) stage(ctx context.Context, serial, dir string) error {
	if _, err := d.disk.Rescan(ctx, &disk.RescanRequest{}); err != nil {
		return err
	}
	ids, err := d.disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	if err != nil {
		return err
	}
	for number, id := range ids.DiskIDs {
		if id.SerialNumber != serial {
			continue
		}
		if _, err := d.disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
			return err
		}
		list, err := d.volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
		if err != nil {
			return err
		}
		if len(list.VolumeIDs) != 1 {
			return fmt.Errorf("disk %d has the volumes %q, want one", number, list.VolumeIDs)
		}
		formatted, err := d.volume.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: list.VolumeIDs[0]})
		if err != nil {
			return err
		}
		if !formatted.Formatted {
			if _, err := d.volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: list.VolumeIDs[0]}); err != nil {
				return err
			}
		}
		if _, err := d.filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: dir}); err != nil {
			return err
		}
		_, err = d.volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: list.VolumeIDs[0], TargetPath: dir})
		return err
	}
	return fmt.Errorf("no disk has the serial number %q", serial)
}

// connections are the two ways to reach the node. The same code uses both.
var connections = map[string]func(t *testing.T, n *simnode.Node) driver{
	"in process": func(_ *testing.T, n *simnode.Node) driver {
		return driver{n.Disk(), n.Volume(), n.Filesystem()}
	},
	"through pipes": func(t *testing.T, n *simnode.Node) driver {
		at := remote.WithPipePath(serve.Start(t, n).PipePath)
		d, errDisk := remote.NewDisk(t.Context(), at)
		v, errVolume := remote.NewVolume(t.Context(), at)
		f, errFilesystem := remote.NewFilesystem(t.Context(), at)
		if err := errors.Join(errDisk, errVolume, errFilesystem); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close(); v.Close(); f.Close() })
		return driver{d, v, f}
	},
}

const dir = `C:\var\lib\kubelet\plugins\vol-1`

// Whichever Windows call fails, the kubelet's next try stages the volume.
func TestStageRetry(t *testing.T) {
	for name, connect := range connections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for skip := uint32(0); ; skip += 10 {
				n := simnode.New(t)
				info, err := n.AttachDisk(simnode.Disk{Size: 1 << 30, Serial: "vol-1"})
				if err == nil {
					err = n.AwaitDisk(info.Number)
				}
				if err != nil {
					t.Fatal(err)
				}
				d := connect(t, n)
				f, err := n.Fail(simnode.Fault{Call: winapi.AnyCall, Skip: skip, Times: 1, Error: winapi.ERROR_GEN_FAILURE})
				if err != nil {
					t.Fatal(err)
				}
				first := d.stage(t.Context(), "vol-1", dir)
				if f.Hits() == 0 {
					if first != nil || skip < 30 {
						t.Errorf("stage without a fault makes fewer than %d calls and returns %v, want at least 30 calls and success", skip, first)
					}
					return
				}
				if err := d.stage(t.Context(), "vol-1", dir); err != nil {
					t.Errorf("retry after call %d failed (%v): %v", skip, first, err)
				}
			}
		})
	}
}
