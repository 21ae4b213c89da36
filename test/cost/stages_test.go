package cost

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

const (
	formatTime  = 3 * time.Second
	arrivalTime = 500 * time.Millisecond
)

// stage makes the calls of a driver that stages a new disk.
func (w *world) stage(ctx context.Context, number uint32) error {
	if err := err2(w.Disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number})); err != nil {
		return err
	}
	list, err := w.Volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil || len(list.VolumeIDs) != 1 {
		return fmt.Errorf("volumes of disk %d: %v, %w", number, list, err)
	}
	id := list.VolumeIDs[0]
	if err := err2(w.Volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id})); err != nil {
		return err
	}
	at := fmt.Sprintf(`%s\%d`, w.deep, number)
	if err := err2(w.Filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: at})); err != nil {
		return err
	}
	return err2(w.Volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: at}))
}

// staging returns how long so many stages take that begin at the same time, each on a disk of
// its own.
func staging(t *testing.T, stages, formatsAtOnce int) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, func(c *nodespec.Config) {
			c.FormatDuration, c.VolumeArrivalDelay = nodespec.Duration(formatTime), nodespec.Duration(arrivalTime)
			for range stages - 1 {
				c.Disks = append(c.Disks, nodespec.Disk{Size: 1 << 30})
			}
		})
		// A provider that formats so many volumes at a time.
		turn := make(chan struct{}, formatsAtOnce)
		w.before(func(c *win32.Call) error {
			if c.Name != "Format" {
				return c.Do()
			}
			turn <- struct{}{}
			defer func() { <-turn }()
			return c.Do()
		})
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range stages {
			wg.Go(func() {
				if err := w.stage(t.Context(), uint32(blank+i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		took = time.Since(begun)
	})
	return took
}

// Independent disks do not wait for each other: 32 stages at the same time take as long as
// one. If Windows formats one volume at a time, the formats come one after another and
// everything else happens at the same time.
func TestStagesOfDisksDoNotWaitForEachOther(t *testing.T) {
	const stages = 32
	// Formats that wait for their turn may try again in different moments.
	const slack = 250 * time.Millisecond
	one := staging(t, 1, stages)
	if one < formatTime+arrivalTime || one > formatTime+arrivalTime+2*time.Second {
		t.Errorf("one stage took %v, want little more than %v", one, formatTime+arrivalTime)
	}
	if all := staging(t, stages, stages); all > one+slack {
		t.Errorf("%d stages took %v, want %v as for one", stages, all, one)
	}
	want := one + (stages-1)*formatTime
	if all := staging(t, stages, 1); all > want+slack {
		t.Errorf("with one format at a time, %d stages took %v, want %v", stages, all, want)
	}
}
