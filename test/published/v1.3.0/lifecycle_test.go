package published

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/kubernetes-csi/csi-proxy/client"
	disk "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	diskv1beta3 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta3"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/test/published/script"
)

func connect(t *testing.T, d *script.Daemon, group string) *grpc.ClientConn {
	t.Helper()
	conn, err := dial(group, "v1", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestVolumeLifecycle makes the calls for a volume with the published client, as
// drivers do: stage, publish, expand, unpublish, unstage. The audit log has each that changes
// the node.
func TestVolumeLifecycle(t *testing.T) {
	d := script.Start(t)
	disks := disk.NewDiskClient(connect(t, d, "disk"))
	volumes := volume.NewVolumeClient(connect(t, d, "volume"))
	files := filesystem.NewFilesystemClient(connect(t, d, "filesystem"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	d.Control(t, "node", "attach", "--size", "1GiB", "--serial", "vol-published")
	_, err := disks.Rescan(ctx, &disk.RescanRequest{})
	must(err)
	number, found := uint32(0), false
	for !found { // a disk arrives some time after the scan
		ids, err := disks.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
		must(err)
		for n, id := range ids.DiskIDs {
			if strings.Contains(id.SerialNumber, "vol-published") {
				number, found = n, true
			}
		}
	}

	// NodeStage
	_, err = disks.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number})
	must(err)
	_, err = disks.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: true})
	must(err)
	list, err := volumes.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	must(err)
	if len(list.VolumeIds) != 1 {
		t.Fatalf("volumes on disk %d: %v, want one", number, list.VolumeIds)
	}
	id := list.VolumeIds[0]
	formatted, err := volumes.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeId: id})
	must(err)
	if formatted.Formatted {
		t.Fatal("a new volume is reported as formatted")
	}
	_, err = volumes.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeId: id})
	must(err)
	const stage, publish = `C:\var\lib\kubelet\plugins\example.com\pv1\globalmount`, `C:\var\lib\kubelet\pods\pod1\mount`
	_, err = files.Mkdir(ctx, &filesystem.MkdirRequest{Path: stage})
	must(err)
	_, err = volumes.MountVolume(ctx, &volume.MountVolumeRequest{VolumeId: id, TargetPath: stage})
	must(err)

	// NodePublish
	_, err = files.Mkdir(ctx, &filesystem.MkdirRequest{Path: `C:\var\lib\kubelet\pods\pod1`})
	must(err)
	_, err = files.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: stage, TargetPath: publish})
	must(err)
	link, err := files.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: publish})
	must(err)
	if !link.IsSymlink {
		t.Errorf("%s is not reported as a link", publish)
	}

	// NodeExpand
	before, err := volumes.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeId: id})
	must(err)
	d.Control(t, "node", "grow", strconv.FormatUint(uint64(number), 10), "2GiB")
	_, err = disks.Rescan(ctx, &disk.RescanRequest{})
	must(err)
	_, err = volumes.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeId: id})
	must(err)
	after, err := volumes.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeId: id})
	must(err)
	if grown := after.TotalBytes - before.TotalBytes; grown < 1<<30-20<<20 {
		t.Errorf("the volume grew from %d to %d bytes, want about 1 GiB more", before.TotalBytes, after.TotalBytes)
	}

	// NodeUnpublish
	_, err = files.Rmdir(ctx, &filesystem.RmdirRequest{Path: publish, Force: true})
	must(err)

	// NodeUnstage
	mounted, err := volumes.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: stage})
	must(err)
	if mounted.VolumeId != id {
		t.Errorf("the volume mounted at %s is %s, want %s", stage, mounted.VolumeId, id)
	}
	_, err = volumes.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeId: id, TargetPath: stage})
	must(err)
	_, err = files.Rmdir(ctx, &filesystem.RmdirRequest{Path: stage, Force: true})
	must(err)
	onDisk, err := volumes.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeId: id})
	must(err)
	if onDisk.DiskNumber != number {
		t.Errorf("volume %s is on disk %d, want %d", id, onDisk.DiskNumber, number)
	}
	_, err = disks.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: false})
	must(err)
	exists, err := files.PathExists(ctx, &filesystem.PathExistsRequest{Path: stage})
	must(err)
	if exists.Exists {
		t.Errorf("%s still exists", stage)
	}

	want := `
pipe="csi-proxy-disk-v1" method="Rescan" target="" result="OK"
pipe="csi-proxy-disk-v1" method="PartitionDisk" target="disk_number=NUMBER" result="OK"
pipe="csi-proxy-disk-v1" method="SetDiskState" target="disk_number=NUMBER is_online=true" result="OK"
pipe="csi-proxy-volume-v1" method="FormatVolume" target="volume_id=VOLUME" result="OK"
pipe="csi-proxy-filesystem-v1" method="Mkdir" target="path=C:\\var\\lib\\kubelet\\plugins\\example.com\\pv1\\globalmount" result="OK"
pipe="csi-proxy-volume-v1" method="MountVolume" target="volume_id=VOLUME target_path=C:\\var\\lib\\kubelet\\plugins\\example.com\\pv1\\globalmount" result="OK"
pipe="csi-proxy-filesystem-v1" method="Mkdir" target="path=C:\\var\\lib\\kubelet\\pods\\pod1" result="OK"
pipe="csi-proxy-filesystem-v1" method="CreateSymlink" target="source_path=C:\\var\\lib\\kubelet\\plugins\\example.com\\pv1\\globalmount target_path=C:\\var\\lib\\kubelet\\pods\\pod1\\mount" result="OK"
pipe="csi-proxy-disk-v1" method="Rescan" target="" result="OK"
pipe="csi-proxy-volume-v1" method="ResizeVolume" target="volume_id=VOLUME size_bytes=0" result="OK"
pipe="csi-proxy-filesystem-v1" method="Rmdir" target="path=C:\\var\\lib\\kubelet\\pods\\pod1\\mount force=true" result="OK"
pipe="csi-proxy-volume-v1" method="UnmountVolume" target="volume_id=VOLUME target_path=C:\\var\\lib\\kubelet\\plugins\\example.com\\pv1\\globalmount" result="OK"
pipe="csi-proxy-filesystem-v1" method="Rmdir" target="path=C:\\var\\lib\\kubelet\\plugins\\example.com\\pv1\\globalmount force=true" result="OK"
pipe="csi-proxy-disk-v1" method="SetDiskState" target="disk_number=NUMBER is_online=false" result="OK"
`
	want = strings.NewReplacer("NUMBER", strconv.FormatUint(uint64(number), 10), "VOLUME", strings.ReplaceAll(id, `\`, `\\`)).Replace(strings.TrimSpace(want))
	got := strings.Join(audited(d, strings.Count(want, "\n")+1), "\n")
	t.Logf("the audit log:\n%s", got)
	if got != want {
		t.Errorf("want\n%s", want)
	}
}

// audited returns the audit lines. It waits until there are n: the daemon writes a line after
// it has sent the response.
func audited(d *script.Daemon, n int) []string {
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if lines := d.Audit(); len(lines) >= n || time.Now().After(end) {
			return lines
		}
	}
}

// TestFallBack: to a published driver, a daemon that does not serve a version is an older
// one. It asks for the versions that it speaks, newest first, and takes the first whose pipe
// exists.
func TestFallBack(t *testing.T) {
	d := script.Start(t, "-enable-api=disk/v1beta3,disk/v1beta1,volume")
	open := func(api string) error {
		if newClient, ok := clients[api]; ok {
			_, err := newClient()
			return err
		}
		group, version, _ := strings.Cut(api, "/")
		c, err := dialPipe(t.Context(), client.PipePath(group, apiversion.NewVersionOrPanic(version)), d.Socket)
		if err == nil {
			c.Close()
		}
		return err
	}
	for _, api := range []string{"disk/v1", "disk/v1beta2", "smb/v1"} {
		err := open(api)
		t.Logf("%s: %v", api, err)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want fs.ErrNotExist", api, err)
		}
	}
	for _, api := range []string{"disk/v1beta3", "disk/v1beta1", "volume/v1"} {
		if err := open(api); err != nil {
			t.Errorf("%s: %v", api, err)
		}
	}
	conn, err := dial("disk", "v1beta3", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := diskv1beta3.NewDiskClient(conn).Rescan(t.Context(), &diskv1beta3.RescanRequest{}); err != nil {
		t.Error(err)
	}
	want := `pipe="csi-proxy-disk-v1beta3" method="Rescan" target="" result="OK"`
	if got := audited(d, 1); len(got) != 1 || got[0] != want {
		t.Errorf("audited %q, want %q", got, want)
	}
}
