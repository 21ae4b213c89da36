package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// tracedConfig is a node on which the story always makes the same calls.
func tracedConfig() nodespec.Config {
	offline := true
	return nodespec.Config{
		Disks: []nodespec.Disk{
			{ID: "disk-0", Content: nodespec.ContentSystem, Serial: "0"},
			{ID: "disk-1", Size: gib, Serial: "1", Offline: &offline, Address: &nodespec.Address{Port: 2, Target: 1, Lun: 3}},
		},
		// Wine has no WMI storage provider whose cache a format could wait for, and the
		// driver's volumes are never late.
		World: behavior.In("", behavior.Windows{FormatKnows: behavior.FormatAtOnce, NewVolumes: nodespec.NewVolumesAtOnce}),
		// Wine has no page file, and says which it would make.
		Registry: map[string][]string{
			memoryManagement + `ExistingPageFiles`: nil,
			memoryManagement + `PagingFiles`:       {`C:\pagefile.sys 27 77`},
		},
		Log: slog.New(slog.DiscardHandler),
	}
}

const memoryManagement = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\`

// tracedMachine makes the same identifiers in every run.
func tracedMachine() emulated.Machine { return emulated.Machine{Rand: rand.New(rand.NewSource(1))} }

// trace is the -v=6 log of the story, step by step.
type trace struct {
	mu      sync.Mutex
	log     bytes.Buffer
	opened  int
	handles map[string]string // names of the open handles in the trace
	lines   []string
	buffers []string // complete buffers of control codes
}

func newTrace() *trace { return &trace{handles: map[string]string{}} }

func (tr *trace) Write(b []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.log.Write(b)
}

// over returns api with tracing.
func (tr *trace) over(api win32.API) win32.API {
	api = win32.Observe(api, func(c *win32.Call) error {
		err := c.Do()
		if c.Name == "DeviceIoControl" {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			tr.buffers = append(tr.buffers, fmt.Sprintf("%s %s in %x out %x of %d, %v", win32.ControlCodeName(c.Code), c.Path, c.In, c.Out[:c.N], len(c.Out), err))
		}
		return err
	})
	return win32.Trace(api, slog.New(slog.NewTextHandler(tr, &slog.HandlerOptions{Level: win32.TraceLevel})), nil, nil)
}

var (
	tookOf   = regexp.MustCompile(` took=\S+$`)
	handleOf = regexp.MustCompile(` handle=(\d+)`)
)

// step adds a title and the calls of a step, without what differs between two
// runs: handles are numbered in order of appearance, and times are removed.
func (tr *trace) step(title string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, "# "+title)
	for line := range strings.Lines(tr.log.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), `msg="Called Win32" call=`)
		line = tookOf.ReplaceAllString(line, "")
		line = handleOf.ReplaceAllStringFunc(line, func(h string) string {
			if tr.handles[h] == "" {
				tr.opened++
				tr.handles[h] = fmt.Sprintf(" handle=#%d", tr.opened)
			}
			named := tr.handles[h]
			if strings.HasPrefix(line, "CloseHandle") {
				delete(tr.handles, h) // Windows reuses the number
			}
			return named
		})
		tr.lines = append(tr.lines, line)
	}
	tr.log.Reset()
}

// story is the life of a volume: located, partitioned, formatted, grown, taken
// offline. grow makes the disk larger behind Windows' back.
func (tr *trace) story(ctx context.Context, api win32.API, grow func(number uint32, size uint64) error) error {
	n := node.New(tr.over(api))
	n.Log = slog.New(slog.DiscardHandler)
	n.Rand = rand.New(rand.NewSource(2))
	d, errDisk := disk.New(diskapi.On(n))
	v, errVolume := volume.New(volumeapi.On(n))
	if err := errors.Join(errDisk, errVolume); err != nil {
		return err
	}
	var id string
	for _, s := range []struct {
		title string
		run   func() error
	}{
		{"ListDiskLocations", func() error { _, err := d.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{}); return err }},
		{"ListDiskIDs", func() error { _, err := d.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{}); return err }},
		{"PartitionDisk", func() error {
			_, err := d.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: 1})
			return err
		}},
		{"ListVolumesOnDisk", func() error {
			out, err := v.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: 1})
			if err == nil && len(out.VolumeIDs) != 1 {
				err = fmt.Errorf("volumes %q, want one", out.VolumeIDs)
			}
			if err == nil {
				id = out.VolumeIDs[0]
			}
			return err
		}},
		{"IsVolumeFormatted, before", func() error {
			out, err := v.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: id})
			if err == nil && out.Formatted {
				err = errors.New("formatted")
			}
			return err
		}},
		{"FormatVolume", func() error {
			_, err := v.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id})
			return err
		}},
		{"IsVolumeFormatted, after", func() error {
			out, err := v.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: id})
			if err == nil && !out.Formatted {
				err = errors.New("not formatted")
			}
			return err
		}},
		{"GetVolumeStats", func() error {
			out, err := v.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeID: id})
			if err == nil && (out.TotalBytes < gib/2 || out.TotalBytes > gib) {
				err = fmt.Errorf("%d bytes", out.TotalBytes)
			}
			return err
		}},
		{"GetDiskNumberFromVolumeID", func() error {
			_, err := v.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: id})
			return err
		}},
		{"ResizeVolume, of a disk that has grown", func() error {
			if err := grow(1, 2*gib); err != nil {
				return err
			}
			_, err := v.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: id})
			return err
		}},
		{"GetVolumeStats, once more", func() error {
			out, err := v.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeID: id})
			if err == nil && out.TotalBytes < 3*gib/2 {
				err = fmt.Errorf("%d bytes", out.TotalBytes)
			}
			return err
		}},
		{"WriteVolumeCache", func() error {
			_, err := v.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeID: id})
			return err
		}},
		{"SetDiskState, offline", func() error {
			_, err := d.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: 1})
			return err
		}},
		{"IsVolumeFormatted, of a disk that is offline", func() error {
			_, err := v.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: id})
			if err == nil {
				return errors.New("its volume is still there")
			}
			return nil
		}},
		{"SetDiskState, online", func() error {
			_, err := d.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: 1, IsOnline: true})
			return err
		}},
		{"Rescan", func() error { _, err := d.Rescan(ctx, &disk.RescanRequest{}); return err }},
		{"GetDiskStats", func() error {
			out, err := d.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: 1})
			if err == nil && out.TotalBytes != 2*gib {
				err = fmt.Errorf("%d bytes", out.TotalBytes)
			}
			return err
		}},
	} {
		err := s.run()
		tr.step(s.title)
		if err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	return nil
}

// traceOfModel returns the trace of the story over the emulated node alone.
func traceOfModel(t *testing.T) *trace {
	t.Helper()
	config := tracedConfig()
	config.StateDir = t.TempDir()
	model, err := emulated.Open(config, tracedMachine())
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	tr := newTrace()
	if err := tr.story(t.Context(), model, model.Grow); err != nil {
		t.Fatal(err)
	}
	return tr
}

// A difference is a line of Windows' trace that differs from the model's.
type difference struct{ model, windows, why string }

// differences are all differences between the trace over the emulated node and
// the one through Windows' calls.
var differences = []difference{
	{`VolumePathName path=C:\Windows`, `VolumePathName path=C:\windows`, "the name of Wine's Windows directory; case does not matter in paths"},
}
