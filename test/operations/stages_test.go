package operations_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

const (
	formatTime  = 3 * time.Second
	arrivalTime = 500 * time.Millisecond
)

// stageDisk makes the calls of a driver that stages a new disk.
func (c *caller) stageDisk(number uint32) error {
	if err := ignore(c.disk.PartitionDisk(c.ctx, &disk.PartitionDiskRequest{DiskNumber: number})); err != nil {
		return err
	}
	list, err := c.volume.ListVolumesOnDisk(c.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil || len(list.VolumeIDs) != 1 {
		return fmt.Errorf("volumes of disk %d: %v, %w", number, list, err)
	}
	id := list.VolumeIDs[0]
	if err := ignore(c.volume.FormatVolume(c.ctx, &volume.FormatVolumeRequest{VolumeID: id})); err != nil {
		return err
	}
	at := fmt.Sprintf(`%s\%d`, dir, number)
	if err := c.mkdir(at); err != nil {
		return err
	}
	return ignore(c.volume.MountVolume(c.ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: at}))
}

// stageAll returns how long so many stages take that begin at the same time, each on a disk of
// its own.
func stageAll(t *testing.T, stages, formatsAtOnce int) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := inBubble(t, func(c *nodespec.Config) {
			c.FormatDuration, c.VolumeArrivalDelay = nodespec.Duration(formatTime), nodespec.Duration(arrivalTime)
			for range stages {
				c.Disks = append(c.Disks, nodespec.Disk{Size: gib})
			}
		})
		// A provider that formats so many volumes at a time.
		turn := make(chan struct{}, formatsAtOnce)
		c, err := m.start(t.Context(), lifeRequest, func(c *win32.Call) error {
			if c.Name != "Format" {
				return c.Do()
			}
			turn <- struct{}{}
			defer func() { <-turn }()
			return c.Do()
		})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range stages {
			wg.Go(func() {
				if err := c.stageDisk(uint32(1 + i)); err != nil {
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
	one := stageAll(t, 1, stages)
	if one < formatTime+arrivalTime || one > formatTime+arrivalTime+2*time.Second {
		t.Errorf("one stage took %v, want little more than %v", one, formatTime+arrivalTime)
	}
	if all := stageAll(t, stages, stages); all > one+slack {
		t.Errorf("%d stages took %v, want %v as for one", stages, all, one)
	}
	want := one + (stages-1)*formatTime
	if all := stageAll(t, stages, 1); all > want+slack {
		t.Errorf("with one format at a time, %d stages took %v, want %v", stages, all, want)
	}
}
