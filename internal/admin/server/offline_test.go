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
	answer func() (map[uint32]uint16, error)
}

func (p provider) OfflineReasons() (map[uint32]uint16, error) { return p.answer() }

// askReasons asks for the reasons of disks, of which 0 is online and 1 did not answer.
func askReasons(t *testing.T, s *Server, disks uint32, answer func() (map[uint32]uint16, error)) []*admin.Disk {
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
	want := []string{"", "", "None", "Policy", "Collision", "reason 9", ""}
	asked := 0
	for n, d := range askReasons(t, &Server{}, uint32(len(want)), func() (map[uint32]uint16, error) {
		asked++
		return map[uint32]uint16{
			0: win32.VDSDiskOfflineReasonPolicy, 1: win32.VDSDiskOfflineReasonPolicy, // as in a cache that is not up to date
			2: win32.VDSDiskOfflineReasonNone, 3: win32.VDSDiskOfflineReasonPolicy, 4: win32.VDSDiskOfflineReasonCollision, 5: 9,
		}, nil
	}) {
		if d.OfflineReason != want[n] || n != 1 && d.Error != "" {
			t.Errorf("disk %d: reason %q, error %q, want %q and no error", n, d.OfflineReason, d.Error, want[n])
		}
	}
	askReasons(t, &Server{}, 2, func() (map[uint32]uint16, error) { asked++; return nil, nil }) // none is offline
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
}

// Without a storage provider, as under Wine, only the reasons are missing.
func TestReasonsWithoutProvider(t *testing.T) {
	asked := 0
	for _, d := range askReasons(t, &Server{}, 9, func() (map[uint32]uint16, error) { asked++; return nil, win32.ERROR_NOT_SUPPORTED }) {
		if d.OfflineReason != "" || d.Number != 1 && d.Error != "" {
			t.Errorf("disk %d: reason %q, error %q, want none", d.Number, d.OfflineReason, d.Error)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
}

// A storage provider that hangs is asked once, and takes the time of one question.
func TestReasonsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		hang, s := make(chan struct{}), &Server{}
		for range 20 {
			began := time.Now()
			for _, d := range askReasons(t, s, 50, func() (map[uint32]uint16, error) { asked.Add(1); <-hang; return nil, errors.New("late") }) {
				if d.OfflineReason != "" {
					t.Errorf("disk %d: %q, want no reason", d.Number, d.OfflineReason)
				}
			}
			if took := time.Since(began); took > patience {
				t.Errorf("they took %v, want at most %v", took, patience)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%d questions hang, want one", n)
		}
		close(hang)
	})
}
