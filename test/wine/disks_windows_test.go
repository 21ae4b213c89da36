package wine

import (
	"os"
	"regexp"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	diskpb "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	volumepb "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	diskclient "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/test/wine/driver"
)

// driven gives Wine the disks, volumes and formats of an emulated node (package
// driver).
func driven(t *testing.T, config nodespec.Config) *emulated.Node {
	t.Helper()
	dir := os.Getenv("CSI_PROXY_WINE_DRIVER")
	if dir == "" || !driver.UnderWine() {
		t.Skip("needs Wine and the driver, which the stage wine of make test builds with mingw-w64")
	}
	if err := driver.Load(dir); err != nil {
		t.Fatal(err)
	}
	config.StateDir = t.TempDir()
	model, err := emulated.Open(config, emulated.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	_, stop, err := driver.Serve(model, model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return model
}

// csi-proxy.exe takes a disk from blank to a grown volume through its pipes.
func TestDaemonWithDriver(t *testing.T) {
	const gib = 1 << 30
	model := driven(t, nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {Size: gib, Serial: "VOL1"}, {Size: gib}}})
	p := start(t, csiProxy, "-v=6")
	ctx := t.Context()
	d, err := diskclient.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	v, err := volumeclient.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()

	ids, err := d.ListDiskIDs(ctx, &diskpb.ListDiskIDsRequest{})
	if err != nil || len(ids.DiskIDs) != 3 || ids.DiskIDs[1].SerialNumber != "VOL1" {
		t.Fatalf("disks %+v, %v", ids, err)
	}
	for range 2 { // a driver retries
		if _, err := d.PartitionDisk(ctx, &diskpb.PartitionDiskRequest{DiskNumber: 1}); err != nil {
			t.Fatalf("PartitionDisk: %v", err)
		}
	}
	volumes, err := v.ListVolumesOnDisk(ctx, &volumepb.ListVolumesOnDiskRequest{DiskNumber: 1})
	if err != nil || len(volumes.VolumeIds) != 1 {
		t.Fatalf("volumes %+v, %v", volumes, err)
	}
	id := volumes.VolumeIds[0]
	if _, err := v.FormatVolume(ctx, &volumepb.FormatVolumeRequest{VolumeId: id}); err != nil {
		t.Fatalf("FormatVolume: %v", err)
	}
	if out, err := v.IsVolumeFormatted(ctx, &volumepb.IsVolumeFormattedRequest{VolumeId: id}); err != nil || !out.Formatted {
		t.Errorf("IsVolumeFormatted: %+v, %v", out, err)
	}
	stats, err := v.GetVolumeStats(ctx, &volumepb.GetVolumeStatsRequest{VolumeId: id})
	if err != nil || stats.TotalBytes < gib/2 || stats.TotalBytes > gib {
		t.Errorf("GetVolumeStats: %+v, %v", stats, err)
	}
	if err := model.Grow(1, 3*gib); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Rescan(ctx, &diskpb.RescanRequest{}); err != nil {
		t.Errorf("Rescan: %v", err)
	}
	if _, err := v.ResizeVolume(ctx, &volumepb.ResizeVolumeRequest{VolumeId: id}); err != nil {
		t.Errorf("ResizeVolume: %v", err)
	}
	if grown, err := v.GetVolumeStats(ctx, &volumepb.GetVolumeStatsRequest{VolumeId: id}); err != nil || grown.TotalBytes < 5*gib/2 {
		t.Errorf("GetVolumeStats after ResizeVolume: %+v, %v", grown, err)
	}
	// Of a disk without a volume: a volume is locked first, and Wine's ntdll refuses
	// FSCTL_LOCK_VOLUME without asking the driver.
	for _, online := range []bool{false, true} {
		if _, err := d.SetDiskState(ctx, &diskpb.SetDiskStateRequest{DiskNumber: 2, IsOnline: online}); err != nil {
			t.Errorf("SetDiskState, online %t: %v", online, err)
		}
		if out, err := d.GetDiskState(ctx, &diskpb.GetDiskStateRequest{DiskNumber: 2}); err != nil || out.IsOnline != online {
			t.Errorf("GetDiskState: %+v, %v, want online %t", out, err, online)
		}
	}
	// A request without a number means disk 0, which holds Windows.
	if _, err := d.SetDiskState(ctx, &diskpb.SetDiskStateRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("SetDiskState of disk 0: %v, want FailedPrecondition", err)
	}
	p.awaitOutput(regexp.MustCompile(`"Called Win32" call="DeviceIoControl"`)) // with -v=6
}
