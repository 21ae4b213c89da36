package server

import (
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// provider is a Windows of which only the reasons of offline disks are asked.
type provider struct {
	win32.API
	answer func(disk uint32) (uint16, error)
}

func (p provider) DiskOfflineReason(disk uint32) (uint16, error) { return p.answer(disk) }

// askReasons asks for the reasons of disks, of which 0 is online and 1 did not answer.
func askReasons(t *testing.T, s *Server, disks uint32, answer func(uint32) (uint16, error)) []*admin.Disk {
	t.Helper()
	var all []*admin.Disk
	for n := range disks {
		d := &admin.Disk{Number: n, Online: n == 0}
		if n == 1 {
			d.Error = "not ready"
		}
		all = append(all, d)
	}
	out := slices.Clone(all)
	s.addOfflineReasons(t.Context(), &node.Node{API: provider{answer: answer}, Log: slog.New(slog.DiscardHandler)}, out)
	for _, d := range all {
		if d.OfflineReason != "" {
			t.Errorf("disk %d was changed, and another call may describe it too", d.Number)
		}
	}
	return out
}

func TestOfflineReasons(t *testing.T) {
	answers := map[uint32]uint16{2: win32.VDSDiskOfflineReasonNone, 3: win32.VDSDiskOfflineReasonPolicy, 4: win32.VDSDiskOfflineReasonCollision, 5: 9}
	want := []string{"", "", "None", "Policy", "Collision", "reason 9", ""}
	for n, d := range askReasons(t, &Server{}, uint32(len(want)), func(disk uint32) (uint16, error) {
		if disk < 2 {
			t.Errorf("the reason of disk %d was asked", disk)
		}
		if reason, ok := answers[disk]; ok {
			return reason, nil
		}
		return 0, win32.ERROR_NOT_SUPPORTED // as under Wine
	}) {
		if d.OfflineReason != want[n] || n != 1 && d.Error != "" {
			t.Errorf("disk %d: reason %q, error %q, want %q and no error", n, d.OfflineReason, d.Error, want[n])
		}
	}
}

// A storage provider that hangs takes the time of one question, however many disks are offline,
// and is asked once about each.
func TestReasonsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const disks = 50
		var asked atomic.Int32
		hang, s := make(chan struct{}), &Server{}
		for range 20 {
			began := time.Now()
			for _, d := range askReasons(t, s, disks, func(uint32) (uint16, error) { asked.Add(1); <-hang; return 0, errors.New("late") }) {
				if d.OfflineReason != "" {
					t.Errorf("disk %d: %q, want no reason", d.Number, d.OfflineReason)
				}
			}
			if took := time.Since(began); took > patience {
				t.Errorf("they took %v, want at most %v", took, patience)
			}
		}
		if n := asked.Load(); n > disks-2 {
			t.Errorf("%d questions hang, want at most one for each of %d disks", n, disks-2)
		}
		close(hang)
	})
}
