package growth_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/api/volume/v2alpha2"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	client "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v2alpha2"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// TestGetVolumeLabel calls the new method through a pipe, with the rules of the daemon. It
// uses the generated client of the new version, and package remote, which reports that
// older versions do not have the method.
func TestGetVolumeLabel(t *testing.T) {
	dir, err := os.MkdirTemp("", "csi") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(pipe.DirVariable, dir)

	n := nodetest.New(t, nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {Size: 1 << 30}}}, nil)
	s, err := services.Open(n.Node)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Disk.PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: 1}); err != nil {
		t.Fatal(err)
	}
	list, err := s.Volume.ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: 1})
	if err != nil || len(list.VolumeIDs) != 1 {
		t.Fatalf("ListVolumesOnDisk = %+v, %v, want one volume", list, err)
	}
	id := list.VolumeIDs[0]
	if err := n.Windows.UpdateStorageCache(); err != nil {
		t.Fatal(err)
	}
	if err := n.Windows.Format(id, win32.FormatOptions{FileSystem: "NTFS", Label: "Daten", Quick: true}); err != nil {
		t.Fatal(err)
	}

	ready := make(chan struct{})
	server, err := serve.Open(context.Background(), serve.Config{Ready: func() { close(ready) }},
		serve.Pipes(wire.Services(wire.Groups{Volume: s.Volume, Check: (&policy.Rules{}).Check}))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	<-ready

	c, err := client.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	out, err := c.GetVolumeLabel(t.Context(), &v2alpha2.GetVolumeLabelRequest{VolumeId: id})
	if err != nil || out.Label != "Daten" {
		t.Errorf("GetVolumeLabel = %v, %v, want Daten", out, err)
	}
	if _, err := c.GetVolumeLabel(t.Context(), &v2alpha2.GetVolumeLabelRequest{}); err == nil {
		t.Error("GetVolumeLabel without a volume succeeded")
	}

	r, err := remote.NewVolume(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if label, err := r.GetVolumeLabel(t.Context(), &volume.GetVolumeLabelRequest{VolumeID: id}); err != nil || label.Label != "Daten" {
		t.Errorf("remote GetVolumeLabel = %v, %v, want Daten", label, err)
	}
	old, err := remote.NewVolume(t.Context(), remote.WithVersions(apiversion.NewVersionOrPanic("v2alpha1"), apiversion.NewVersionOrPanic("v1beta2")))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if _, err := old.GetVolumeLabel(t.Context(), &volume.GetVolumeLabelRequest{VolumeID: id}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("remote GetVolumeLabel of v2alpha1 = %v, want ErrUnsupported", err)
	}
}
