package windows

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"testing"
	"time"

	diskapi "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	volumeapi "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
)

var (
	ours     = flag.String("csi-proxy", os.Getenv("CSI_PROXY_BINARY"), "the csi-proxy.exe of this project")
	existing = flag.String("existing", "", "the csi-proxy.exe of the existing project, to compare with ours")
)

// BenchmarkCalls measures calls that change nothing through the pipes of our
// daemon, and of the existing one if its binary is given. Both serve the same
// pipes, so one runs at a time, and no service csiproxy may run.
func BenchmarkCalls(b *testing.B) {
	for _, d := range []struct{ name, exe string }{{"ours", *ours}, {"existing", *existing}} {
		b.Run(d.name, func(b *testing.B) {
			if d.exe == "" {
				b.Skipf("needs -csi-proxy and -existing, the executables, on any Windows Server")
			}
			daemon(b, d.exe)
			calls(b)
		})
	}
}

// daemon runs an executable until the end of the benchmark.
func daemon(b *testing.B, exe string) {
	b.Helper()
	const name = `\\.\pipe\csi-proxy-disk-v1`
	if c, err := pipe.Dial(b.Context(), name); err == nil {
		c.Close()
		b.Fatalf("%s is already served: stop the service csiproxy", name)
	}
	cmd := exec.Command(exe)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	err := nodetest.Eventually(time.Minute, func() error {
		c, err := pipe.Dial(b.Context(), name)
		if err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		b.Fatalf("%s does not serve: %v", exe, err)
	}
}

func calls(b *testing.B) {
	d, err := disk.NewClient()
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	v, err := volume.NewClient()
	if err != nil {
		b.Fatal(err)
	}
	defer v.Close()
	f, err := filesystem.NewClient()
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := os.MkdirAll(`C:\var\lib\kubelet`, 0o755); err != nil {
		b.Fatal(err)
	}
	id := formatted(b, v)
	for _, c := range []struct {
		name string
		call func(context.Context) error
	}{
		{"ListDiskIDs", func(ctx context.Context) error {
			_, err := d.ListDiskIDs(ctx, &diskapi.ListDiskIDsRequest{})
			return err
		}},
		{"ListDiskLocations", func(ctx context.Context) error {
			_, err := d.ListDiskLocations(ctx, &diskapi.ListDiskLocationsRequest{})
			return err
		}},
		{"GetDiskState", func(ctx context.Context) error {
			_, err := d.GetDiskState(ctx, &diskapi.GetDiskStateRequest{})
			return err
		}},
		{"Rescan", func(ctx context.Context) error {
			_, err := d.Rescan(ctx, &diskapi.RescanRequest{})
			return err
		}},
		{"ListVolumesOnDisk", func(ctx context.Context) error {
			_, err := v.ListVolumesOnDisk(ctx, &volumeapi.ListVolumesOnDiskRequest{})
			return err
		}},
		{"IsVolumeFormatted", func(ctx context.Context) error {
			_, err := v.IsVolumeFormatted(ctx, &volumeapi.IsVolumeFormattedRequest{VolumeId: id})
			return err
		}},
		{"GetVolumeStats", func(ctx context.Context) error {
			_, err := v.GetVolumeStats(ctx, &volumeapi.GetVolumeStatsRequest{VolumeId: id})
			return err
		}},
		{"PathExists", func(ctx context.Context) error {
			_, err := f.PathExists(ctx, &filesystemapi.PathExistsRequest{Path: `C:\var\lib\kubelet`})
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.call(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// formatted returns a volume of disk 0 with a file system.
func formatted(b *testing.B, v *volume.Client) string {
	b.Helper()
	list, err := v.ListVolumesOnDisk(b.Context(), &volumeapi.ListVolumesOnDiskRequest{})
	if err != nil {
		b.Fatal(err)
	}
	for _, id := range list.VolumeIds {
		is, err := v.IsVolumeFormatted(b.Context(), &volumeapi.IsVolumeFormattedRequest{VolumeId: id})
		if err == nil && is.Formatted {
			return id
		}
	}
	b.Fatalf("disk 0 has no formatted volume among %q", list.VolumeIds)
	return ""
}
