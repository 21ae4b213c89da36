package cost

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// perVolume is how many calls the search of all volumes makes for each of them: its name, and to
// open it, ask where it lies and close it.
const perVolume = 4

// blankOperations are about a disk without a partition table.
func blankOperations() []operation {
	return []operation{
		{name: "ListVolumesOnDisk", calls: 17, perDisk: perVolume, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: blank}))
		}},
		{name: "SetDiskState, offline", calls: 49, perDisk: perVolume, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: blank}))
		}},
		{name: "DisconnectTarget", calls: 50, perDisk: perVolume, before: connectTarget, run: disconnect},
	}
}

// connectTarget connects the target, whose disk is blank.
func connectTarget(ctx context.Context, w *world) error {
	if _, err := w.System.StartService(ctx, &system.StartServiceRequest{Name: initiator}); err != nil {
		return err
	}
	if _, err := w.ISCSI.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal()}); err != nil {
		return err
	}
	return err2(w.ISCSI.ConnectTarget(ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal(), IQN: iqn}))
}

// measureBlank returns the calls of each operation on a node with so many other disks.
func measureBlank(t *testing.T, disks int) (all []int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, disks, nil)
		for _, o := range blankOperations() {
			n, err := o.count(t.Context(), w)
			if err != nil {
				t.Fatal(fmt.Errorf("%s with %d disks: %w", o.name, disks, err))
			}
			all = append(all, n)
		}
	})
	return all
}
