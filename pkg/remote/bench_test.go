package remote_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	nodes "github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// bench provides the disk and volume services over an emulated node, and counts
// their Win32 calls. The times are those of this code and of the emulation. The
// number of calls per operation is the same on Windows.
type bench struct {
	b      *testing.B
	win    *emulated.Node
	disk   disk.Service
	volume volume.Service
	calls  atomic.Int64
}

func newBench(b *testing.B, disks int) *bench {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	config := nodespec.Config{Log: quiet, Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}}}
	for range disks - 1 {
		config.Disks = append(config.Disks, nodespec.Disk{Size: 1 << 30})
	}
	win, err := emulated.Open(config, emulated.Machine{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { win.Close() })
	e := &bench{b: b, win: win}
	n := nodes.New(win32.Observe(win, func(c *win32.Call) error {
		e.calls.Add(1)
		return c.Do()
	}))
	n.Log = quiet
	if e.disk, err = disk.New(diskapi.On(n)); err != nil {
		b.Fatal(err)
	}
	if e.volume, err = volume.New(volumeapi.On(n)); err != nil {
		b.Fatal(err)
	}
	return e
}

// measure repeats do. The code before it is neither timed nor counted.
func (e *bench) measure(do func() error) {
	e.calls.Store(0)
	e.b.ResetTimer()
	for range e.b.N {
		if err := do(); err != nil {
			e.b.Fatal(err)
		}
	}
	e.b.StopTimer()
	e.b.ReportMetric(float64(e.calls.Load())/float64(e.b.N), "win32calls/op")
}

// volumeOn partitions and formats a disk.
func (e *bench) volumeOn(number uint32) (string, error) {
	ctx := e.b.Context()
	if _, err := e.disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return "", err
	}
	list, err := e.volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return "", err
	}
	if len(list.VolumeIDs) != 1 {
		return "", fmt.Errorf("volumes of disk %d: %q, want one", number, list.VolumeIDs)
	}
	_, err = e.volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: list.VolumeIDs[0]})
	return list.VolumeIDs[0], err
}

// through serves the volume service on sockets and returns a client of it.
func (e *bench) through() volume.Service {
	b := e.b
	dir, err := os.MkdirTemp("", "csi") // b.TempDir may be too long for a socket
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	b.Setenv(pipe.DirVariable, dir)
	prefix := fmt.Sprintf("bench%d-", os.Getpid())
	pipes := serve.Pipes(wire.Services(wire.Groups{Disk: e.disk, Volume: e.volume}))
	for i := range pipes {
		pipes[i].Name = prefix + pipes[i].Name
	}
	s, err := serve.Open(context.Background(), serve.Config{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, pipes...)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	client, err := remote.NewVolume(b.Context(), remote.WithPipePath(func(group string, version apiversion.Version) string {
		return pipe.Path(prefix + "csi-proxy-" + group + "-" + version.String())
	}))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return client
}

// The cost that the socket, gRPC and the conversion add to a call of the service.
func BenchmarkGetVolumeStats(b *testing.B) {
	for _, via := range []string{"in process", "through a socket"} {
		b.Run(via, func(b *testing.B) {
			e := newBench(b, 2)
			id, err := e.volumeOn(1)
			if err != nil {
				b.Fatal(err)
			}
			v := e.volume
			if via != "in process" {
				v = e.through()
			}
			e.measure(func() error {
				out, err := v.GetVolumeStats(b.Context(), &volume.GetVolumeStatsRequest{VolumeID: id})
				if err == nil && out.TotalBytes == 0 {
					err = fmt.Errorf("volume %q has no size", id)
				}
				return err
			})
		})
	}
}

// Partitions and formats a blank disk. Attaching and removing the disk is neither
// timed nor counted.
func BenchmarkPartitionDiskFormatVolume(b *testing.B) {
	e := newBench(b, 1)
	e.measure(func() error {
		b.StopTimer()
		number, err := e.win.Attach(nodespec.Disk{ID: "bench", Size: 1 << 30})
		if err == nil {
			err = e.win.AwaitDisk(number)
		}
		if err != nil {
			return err
		}
		b.StartTimer()
		_, err = e.volumeOn(number)
		b.StopTimer()
		if err == nil {
			err = e.win.Detach(number)
		}
		if err == nil {
			err = e.win.Discard("bench")
		}
		b.StartTimer()
		return err
	})
}

func BenchmarkListDiskIDs(b *testing.B) {
	for _, disks := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("%d disks", disks), func(b *testing.B) {
			e := newBench(b, disks)
			e.measure(func() error {
				out, err := e.disk.ListDiskIDs(b.Context(), &disk.ListDiskIDsRequest{})
				if err == nil && len(out.DiskIDs) != disks {
					err = fmt.Errorf("%d disks, want %d", len(out.DiskIDs), disks)
				}
				return err
			})
		})
	}
}

// A request for one disk must not open the other disks.
func BenchmarkGetDiskState(b *testing.B) {
	for _, disks := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d disks", disks), func(b *testing.B) {
			e := newBench(b, disks)
			e.measure(func() error {
				_, err := e.disk.GetDiskState(b.Context(), &disk.GetDiskStateRequest{})
				return err
			})
		})
	}
}
