package simstorage

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/csi-driver/driver"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// disks returns the disks of a node that a storage system has attached.
func disks(t *testing.T, n *simnode.Node) []simnode.DiskInfo {
	t.Helper()
	state, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Detached) > 0 {
		t.Errorf("the node keeps the detached disks %q", state.Detached)
	}
	return state.Disks[3:] // it has three by itself
}

// A disk moves to another node with its content and its size, and a volume is where it says.
func TestMove(t *testing.T) {
	dir := t.TempDir()
	s, a, b := New(Config{FindBy: driver.SerialNumber, Dir: dir}), simnode.New(t), simnode.New(t)
	s.AddNode("a", a)
	s.AddNode("b", b)
	ctx := t.Context()
	v, err := s.Create(ctx, "pvc-1", driver.KindDisk, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Create(ctx, "pvc-1", driver.KindDisk, 64<<20); err != nil || again != v {
		t.Errorf("the same volume again = %+v, %v, want %+v", again, err, v)
	}
	for range 2 { // a repeated call changes nothing
		publish, err := s.Attach(ctx, v.ID, "a")
		if err != nil || publish[driver.SerialNumber] == "" {
			t.Fatalf("Attach = %v, %v, want a serial number", publish, err)
		}
	}
	on := disks(t, a)
	if len(on) != 1 {
		t.Fatalf("node a has the disks %+v, want one", on)
	}
	if err := a.AwaitDisk(on[0].Number); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: on[0].Number}); err != nil {
		t.Fatal(err)
	}
	volumes, err := a.Volume().ListVolumesOnDisk(ctx, &volumeapi.ListVolumesOnDiskRequest{DiskNumber: on[0].Number})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Volume().FormatVolume(ctx, &volumeapi.FormatVolumeRequest{VolumeID: volumes.VolumeIDs[0]}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(on[0].Image)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attach(ctx, v.ID, "b"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Attach to a second node = %v, want FailedPrecondition", err)
	}
	if err := s.Delete(ctx, v.ID); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Delete of an attached volume = %v, want FailedPrecondition", err)
	}
	for range 2 {
		if err := s.Detach(ctx, v.ID, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if on := disks(t, a); len(on) > 0 {
		t.Errorf("after Detach node a has %+v", on)
	}
	if _, err := s.Grow(ctx, v.ID, 128<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attach(ctx, v.ID, "b"); err != nil {
		t.Fatal(err)
	}
	on = disks(t, b)
	if len(on) != 1 || on[0].Size != 128<<20 {
		t.Fatalf("node b has the disks %+v, want one of 128 MiB", on)
	}
	after, err := os.ReadFile(on[0].Image)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after[:len(before)]) {
		t.Error("the content of the disk changed on its way")
	}
	if err := s.Detach(ctx, v.ID, "a"); err != nil || len(disks(t, b)) != 1 {
		t.Errorf("Detach from a node that has it no more = %v, want nothing done", err)
	}
	if err := s.Detach(ctx, v.ID, "b"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, v.ID); err != nil || s.Volumes() != 0 {
		t.Errorf("Delete = %v, and %d volumes are left", err, s.Volumes())
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("after Delete the storage system has %v, %v", files, err)
	}
	if _, err := s.Attach(ctx, v.ID, "a"); status.Code(err) != codes.NotFound {
		t.Errorf("Attach of a deleted volume = %v, want NotFound", err)
	}
}

// A directory of a share is on every node at once.
func TestShare(t *testing.T) {
	s, a, b := New(Config{Dir: t.TempDir()}), simnode.New(t, Describe), simnode.New(t, Describe)
	s.AddNode("a", a)
	s.AddNode("b", b)
	ctx := t.Context()
	v, err := s.Create(ctx, "pvc-1", driver.KindSMB, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]*simnode.Node{"a": a, "b": b} {
		if publish, err := s.Attach(ctx, v.ID, name); err != nil || publish != nil {
			t.Errorf("Attach to %s = %v, %v", name, publish, err)
		}
		directory := strings.Split(v.ID, "#")[3]
		_, err := n.SMB().NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{
			RemotePath: `\\` + SMBServer + `\` + SMBShare + `\` + directory, LocalPath: `C:\var\lib\kubelet\plugins\volume`, Username: SMBUser, Password: SMBPassword,
		})
		if err != nil {
			t.Errorf("on %s: %v", name, err)
		}
	}
	if err := s.Detach(ctx, v.ID, "a"); err != nil {
		t.Error(err)
	}
	if size, err := s.Grow(ctx, v.ID, 2<<20); err != nil || size != 2<<20 {
		t.Errorf("Grow = %d, %v", size, err)
	}
	if err := s.Delete(ctx, v.ID); err != nil || s.Volumes() != 0 {
		t.Errorf("Delete = %v; %d volumes are left", err, s.Volumes())
	}
	target, err := s.Create(ctx, "pvc-2", driver.KindISCSI, 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, target.ID); err != nil {
		t.Error(err)
	}
}
