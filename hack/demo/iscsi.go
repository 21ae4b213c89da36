package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	iscsiv1alpha2 "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha2"
	systemv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/system/v1alpha1"
	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	iscsi "github.com/kubernetes-csi/csi-proxy/client/groups/iscsi/v1alpha2"
	system "github.com/kubernetes-csi/csi-proxy/client/groups/system/v1alpha1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// The target, which requires CHAP.
const (
	iscsiAddress = "10.0.0.1"
	iscsiTarget  = "iqn.2003-01.org.example:demo"
	iscsiUser    = "csi"
	iscsiSecret  = "demo-only-secret"
	iscsiStaging = `C:\var\lib\kubelet\plugins\kubernetes.io\csi\iscsi-demo`
	iscsiSize    = 1 << 30
)

// iscsiStory is the life of an iSCSI volume.
type iscsiStory struct {
	volumeStory
}

func (s *iscsiStory) run(ctx context.Context) error {
	for _, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"An iSCSI volume: its target appears, and the initiator is started", s.prepare},
		{"An iSCSI volume: the target is connected", s.connect},
		{"An iSCSI volume: NodeStage", s.stage},
		{"An iSCSI volume: NodeUnstage", s.unstage},
	} {
		s.title(step.title)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return nil
}

func (s *iscsiStory) portal() *iscsiv1alpha2.TargetPortal {
	return &iscsiv1alpha2.TargetPortal{TargetAddress: iscsiAddress, TargetPort: 3260}
}

func (s *iscsiStory) prepare(ctx context.Context) error {
	target := nodespec.ISCSITarget{
		IQN: iscsiTarget, Portals: []nodespec.ISCSIPortal{{Address: iscsiAddress}}, LUNs: []nodespec.LUN{{Disk: nodespec.Disk{Size: iscsiSize}}},
		CHAP: &nodespec.CHAP{User: iscsiUser, Secret: iscsiSecret}, ArrivalDelay: nodespec.Duration(100 * time.Millisecond),
	}
	err := onNode(ctx, s.demo, "SetIscsiTarget", iscsiTarget+" at "+iscsiAddress, func(ctx context.Context) error { return s.node.SetISCSITarget(ctx, target) })
	if err != nil {
		return err
	}
	add := &iscsiv1alpha2.AddTargetPortalRequest{TargetPortal: s.portal()}
	_, err = call(ctx, s.demo, iscsi.GroupName, iscsi.Version, s.iscsi.AddTargetPortal, "AddTargetPortal", add)
	if err := s.check(status.Code(err) == codes.FailedPrecondition, "the call fails, because it needs the service MSiSCSI"); err != nil {
		return err
	}
	if _, err := call(ctx, s.demo, system.GroupName, system.Version, s.system.StartService, "StartService", &systemv1alpha1.StartServiceRequest{Name: "MSiSCSI"}); err != nil {
		return err
	}
	_, err = call(ctx, s.demo, iscsi.GroupName, iscsi.Version, s.iscsi.AddTargetPortal, "AddTargetPortal", add)
	return err
}

func (s *iscsiStory) connect(ctx context.Context) error {
	found, err := call(ctx, s.demo, iscsi.GroupName, iscsi.Version, s.iscsi.DiscoverTargetPortal, "DiscoverTargetPortal", &iscsiv1alpha2.DiscoverTargetPortalRequest{TargetPortal: s.portal()})
	if err != nil {
		return err
	}
	if err := s.check(slices.Equal(found.Iqns, []string{iscsiTarget}), "the portal lists the target"); err != nil {
		return err
	}
	in := &iscsiv1alpha2.ConnectTargetRequest{
		TargetPortal: s.portal(), Iqn: iscsiTarget, AuthType: iscsiv1alpha2.AuthenticationType_ONE_WAY_CHAP, ChapUsername: iscsiUser, ChapSecret: "not-the-secret-1",
	}
	_, err = call(ctx, s.demo, iscsi.GroupName, iscsi.Version, s.iscsi.ConnectTarget, "ConnectTarget", in)
	if err := s.check(status.Code(err) == codes.PermissionDenied, "a wrong CHAP secret is rejected"); err != nil {
		return err
	}
	in.ChapSecret = iscsiSecret
	for range 2 { // the second time as after a lost response
		if _, err := call(ctx, s.demo, iscsi.GroupName, iscsi.Version, s.iscsi.ConnectTarget, "ConnectTarget", in); err != nil {
			return err
		}
	}
	disks, err := s.disks(ctx)
	if err != nil {
		return err
	}
	if err := s.check(len(disks) == 1, "the target provides one disk"); err != nil {
		return err
	}
	number, err := strconv.ParseUint(disks[0], 10, 32)
	s.disk = uint32(number)
	return err
}

func (s *iscsiStory) disks(ctx context.Context) ([]string, error) {
	out, err := call(ctx, s.demo, iscsi.GroupName, iscsi.Version, s.iscsi.GetTargetDisks, "GetTargetDisks", &iscsiv1alpha2.GetTargetDisksRequest{TargetPortal: s.portal(), Iqn: iscsiTarget})
	return out.GetDiskIDs(), err
}

func (s *iscsiStory) stage(ctx context.Context) error {
	if _, err := call(ctx, s.demo, disk.GroupName, disk.Version, s.clients.disk.PartitionDisk, "PartitionDisk", &diskv1.PartitionDiskRequest{DiskNumber: s.disk}); err != nil {
		return err
	}
	list, err := call(ctx, s.demo, volume.GroupName, volume.Version, s.clients.volume.ListVolumesOnDisk, "ListVolumesOnDisk", &volumev1.ListVolumesOnDiskRequest{DiskNumber: s.disk})
	if err != nil {
		return err
	}
	if err := s.check(len(list.VolumeIds) == 1, "the disk has one volume"); err != nil {
		return err
	}
	s.volume = list.VolumeIds[0]
	if _, err := call(ctx, s.demo, volume.GroupName, volume.Version, s.clients.volume.FormatVolume, "FormatVolume", &volumev1.FormatVolumeRequest{VolumeId: s.volume}); err != nil {
		return err
	}
	if _, err := call(ctx, s.demo, filesystem.GroupName, filesystem.Version, s.filesystem.Mkdir, "Mkdir", &filesystemv1.MkdirRequest{Path: iscsiStaging}); err != nil {
		return err
	}
	if _, err := call(ctx, s.demo, volume.GroupName, volume.Version, s.clients.volume.MountVolume, "MountVolume", &volumev1.MountVolumeRequest{VolumeId: s.volume, TargetPath: iscsiStaging}); err != nil {
		return err
	}
	size, err := s.stats(ctx)
	if err != nil {
		return err
	}
	return s.check(near(size, iscsiSize), "its file system has %d of the LUN's %d bytes", size, iscsiSize)
}

func (s *iscsiStory) unstage(ctx context.Context) error {
	if _, err := call(ctx, s.demo, volume.GroupName, volume.Version, s.clients.volume.UnmountVolume, "UnmountVolume", &volumev1.UnmountVolumeRequest{VolumeId: s.volume, TargetPath: iscsiStaging}); err != nil {
		return err
	}
	if _, err := call(ctx, s.demo, filesystem.GroupName, filesystem.Version, s.filesystem.Rmdir, "Rmdir", &filesystemv1.RmdirRequest{Path: iscsiStaging}); err != nil {
		return err
	}
	if _, err := call(ctx, s.demo, iscsi.GroupName, iscsi.Version, s.iscsi.DisconnectTarget, "DisconnectTarget", &iscsiv1alpha2.DisconnectTargetRequest{TargetPortal: s.portal(), Iqn: iscsiTarget}); err != nil {
		return err
	}
	disks, err := s.disks(ctx)
	if err != nil {
		return err
	}
	if err := s.check(len(disks) == 0, "the target provides no disk any more"); err != nil {
		return err
	}
	ids, err := call(ctx, s.demo, disk.GroupName, disk.Version, s.clients.disk.ListDiskIDs, "ListDiskIDs", &diskv1.ListDiskIDsRequest{})
	if err != nil {
		return err
	}
	_, found := ids.DiskIDs[s.disk]
	return s.check(!found, "disk %d is gone", s.disk)
}
