package volume_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// A format that Windows refused at once gives no right to overwrite what another program then
// writes there.
func TestRefusedFormatKeepsWhatOthersWrite(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(2*gib, ""))
	id := f.id(1)
	at := int64(f.layout(1).Partitions[1].Offset)
	formats := 0
	f.Observe(func(c *win32.Call) error {
		if c.Name != "Format" {
			return c.Do()
		}
		if formats++; formats > 1 {
			return c.Do()
		}
		f.write(1, at, "what another program wrote")
		return win32.ERROR_ACCESS_DENIED
	})
	if err := f.format(id); !errors.Is(err, hosterr.ErrFailedPrecondition) || formats != 1 {
		t.Errorf("%d formats, %v; want one, and a refusal that names the content", formats, err)
	}
}

// Before Windows Server 2019, units of NTFS have at most 64 KiB.
func TestRefusedAllocationUnit(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(2*gib, ""))
	id := f.id(1)
	f.Fail("Format", 0, win32.ERROR_INVALID_PARAMETER)
	format := func(unit uint32) error {
		_, err := f.volume.FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: id, AllocationUnitBytes: unit})
		return err
	}
	err := format(1 << 20)
	if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), "allocation units of 1048576 bytes") || !strings.Contains(hosterr.HintOf(err), "Windows Server 2019") {
		t.Errorf("FormatVolume = %v, hint %q; want ErrInvalid with the unit, and what it needs", err, hosterr.HintOf(err))
	}
	if err := format(0); err == nil || errors.Is(err, hosterr.ErrInvalid) {
		t.Errorf("FormatVolume without a unit = %v, want another error", err)
	}
	f.Observe(nil)
	if err := format(64 << 10); err != nil {
		t.Error(err)
	}
}

// A volume with other allocation units is formatted again only by the rule that gives up its
// content, whether it has files or not.
func TestFormatWithOtherAllocationUnits(t *testing.T) {
	for name, filled := range map[string]bool{"empty": false, "with files": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nodespec.Config{}, data(2*gib, "NTFS"))
			id := f.id(1)
			f.mkdir(kubelet + `\m`)
			if err := f.mount(id, kubelet+`\m`); err != nil {
				t.Fatal(err)
			}
			if filled {
				f.mkdir(kubelet + `\m\data`)
			}
			format := func(unit uint32) error {
				_, err := f.volume.FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: id, AllocationUnitBytes: unit})
				return err
			}
			f.unchanged(func() {
				err := format(64 << 10)
				wantKind(t, err, hosterr.ErrFailedPrecondition)
				if hint := hosterr.HintOf(err); !strings.Contains(hint, "-format-existing=ntfs") {
					t.Errorf("hint %q, want the flag in it", hint)
				}
			})
			f.Node.FormatExisting = true
			for range 2 { // again after a lost response
				if err := format(64 << 10); err != nil {
					t.Fatal(err)
				}
			}
			f.Node.FormatExisting = false
			if err := format(64 << 10); err != nil {
				t.Errorf("the units that it has: %v", err)
			}
			wantKind(t, format(4096), hosterr.ErrFailedPrecondition, "65536 bytes, not 4096")
		})
	}
}

// Two formats of one volume at the same time are one, and an error for the caller that asked for
// other allocation units.
func TestFormatsWithDifferentAllocationUnits(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(2*gib, ""))
	var formats atomic.Int32
	f.Observe(func(c *win32.Call) error {
		if c.Name == "Format" {
			formats.Add(1)
		}
		return c.Do()
	})
	host, ok := volumeapi.On(f.Node.Node).(interface {
		FormatVolumeWithUnit(volumeID string, bytes uint32) error
	})
	if !ok {
		t.Fatal("the host has no FormatVolumeWithUnit")
	}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = host.FormatVolumeWithUnit(f.id(1), 4096<<i) })
	}
	wg.Wait()
	if formats.Load() != 1 || (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("%d formats, %v; want one, and an error for the other unit", formats.Load(), errs)
	}
}

// A HostAPI of a driver's own need not have what the published one lacks.
func TestAnotherHostAPILacksWhatIsNew(t *testing.T) {
	v, err := volume.New(struct{ volumeapi.HostAPI }{})
	if err != nil {
		t.Fatal(err)
	}
	_, kind := v.GetPathKind(t.Context(), &volume.GetPathKindRequest{Path: `C:\a`})
	_, stats := v.GetPathStats(t.Context(), &volume.GetPathStatsRequest{Path: `C:\a`})
	for what, err := range map[string]error{"GetPathKind": kind, "GetPathStats": stats} {
		if !errors.Is(err, hosterr.ErrUnimplemented) {
			t.Errorf("%s = %v, want ErrUnimplemented", what, err)
		}
	}
}
