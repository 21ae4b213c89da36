package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	iscsi "github.com/kubernetes-csi/csi-proxy/client/groups/iscsi/v1alpha2"
	smb "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
	system "github.com/kubernetes-csi/csi-proxy/client/groups/system/v1alpha1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
)

// clients has the clients of a driver, and the one that controls the node.
type clients struct {
	disk       *disk.Client
	volume     *volume.Client
	filesystem *filesystem.Client
	smb        *smb.Client
	iscsi      *iscsi.Client
	system     *system.Client
	node       *simcontrol.Client
	open       []io.Closer
}

func connect() (*clients, error) {
	c := &clients{}
	var errs [7]error
	c.disk, errs[0] = disk.NewClient()
	c.volume, errs[1] = volume.NewClient()
	c.filesystem, errs[2] = filesystem.NewClient()
	var conn *grpc.ClientConn
	conn, errs[3] = connectNode()
	c.smb, errs[4] = smb.NewClient()
	c.iscsi, errs[5] = iscsi.NewClient()
	c.system, errs[6] = system.NewClient()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	c.node = simcontrol.NewClient(conn)
	c.open = []io.Closer{c.disk, c.volume, c.filesystem, c.smb, c.iscsi, c.system, conn}
	return c, nil
}

func (c *clients) close() {
	for _, o := range c.open {
		o.Close()
	}
}

// Where the kubelet lets a driver stage a volume, and where a pod expects it.
const (
	staging = `C:\var\lib\kubelet\plugins\kubernetes.io\csi\demo\globalmount`
	podDir  = `C:\var\lib\kubelet\pods\8f4c\volumes\kubernetes.io~csi\pvc-demo`
	target  = podDir + `\mount`
)

// volumeStory is a volume, and what is known about it so far.
type volumeStory struct {
	*demo
	*clients

	disk   uint32
	volume string
	size   int64 // of its file system
}

func (v *volumeStory) stage(ctx context.Context) error {
	c := v.clients
	ids, err := call(ctx, v.demo, disk.GroupName, disk.Version, c.disk.ListDiskIDs, "ListDiskIDs", &diskv1.ListDiskIDsRequest{})
	if err != nil {
		return err
	}
	found := 0
	for number, id := range ids.DiskIDs {
		if id.Page83 == diskID && id.SerialNumber == diskSerial {
			v.disk = number
			found++
		}
	}
	if err := v.check(found == 1, "one disk of %d is %s, serial number %s: disk %d", len(ids.DiskIDs), diskID, diskSerial, v.disk); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, disk.GroupName, disk.Version, c.disk.Rescan, "Rescan", &diskv1.RescanRequest{}); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, disk.GroupName, disk.Version, c.disk.PartitionDisk, "PartitionDisk", &diskv1.PartitionDiskRequest{DiskNumber: v.disk}); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, disk.GroupName, disk.Version, c.disk.SetDiskState, "SetDiskState", &diskv1.SetDiskStateRequest{DiskNumber: v.disk, IsOnline: true}); err != nil {
		return err
	}
	list, err := call(ctx, v.demo, volume.GroupName, volume.Version, c.volume.ListVolumesOnDisk, "ListVolumesOnDisk", &volumev1.ListVolumesOnDiskRequest{DiskNumber: v.disk})
	if err != nil {
		return err
	}
	if err := v.check(len(list.VolumeIds) == 1, "the disk has one volume"); err != nil {
		return err
	}
	v.volume = list.VolumeIds[0]
	if err := v.checkFormatted(ctx, false); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, volume.GroupName, volume.Version, c.volume.FormatVolume, "FormatVolume", &volumev1.FormatVolumeRequest{VolumeId: v.volume}); err != nil {
		return err
	}
	if err := v.checkFormatted(ctx, true); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, filesystem.GroupName, filesystem.Version, c.filesystem.Mkdir, "Mkdir", &filesystemv1.MkdirRequest{Path: staging}); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, volume.GroupName, volume.Version, c.volume.MountVolume, "MountVolume", &volumev1.MountVolumeRequest{VolumeId: v.volume, TargetPath: staging}); err != nil {
		return err
	}
	v.size, err = v.stats(ctx)
	if err != nil {
		return err
	}
	return v.check(near(v.size, diskSize), "its file system has %d of the disk's %d bytes", v.size, diskSize)
}

func (v *volumeStory) publish(ctx context.Context) error {
	c := v.clients
	if _, err := call(ctx, v.demo, filesystem.GroupName, filesystem.Version, c.filesystem.Mkdir, "Mkdir", &filesystemv1.MkdirRequest{Path: podDir}); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, filesystem.GroupName, filesystem.Version, c.filesystem.CreateSymlink, "CreateSymlink", &filesystemv1.CreateSymlinkRequest{SourcePath: staging, TargetPath: target}); err != nil {
		return err
	}
	link, err := call(ctx, v.demo, filesystem.GroupName, filesystem.Version, c.filesystem.IsSymlink, "IsSymlink", &filesystemv1.IsSymlinkRequest{Path: target})
	if err != nil {
		return err
	}
	return v.check(link.IsSymlink, "the pod's directory is a link to the volume")
}

func (v *volumeStory) expand(ctx context.Context) error {
	c := v.clients
	if err := onNode(ctx, v.demo, "GrowDisk", fmt.Sprintf("disk %d to %d bytes", v.disk, uint64(grownSize)), func(ctx context.Context) error { return c.node.GrowDisk(ctx, v.disk, grownSize) }); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, disk.GroupName, disk.Version, c.disk.Rescan, "Rescan", &diskv1.RescanRequest{}); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, volume.GroupName, volume.Version, c.volume.ResizeVolume, "ResizeVolume", &volumev1.ResizeVolumeRequest{VolumeId: v.volume}); err != nil {
		return err
	}
	size, err := v.stats(ctx)
	if err != nil {
		return err
	}
	return v.check(size > v.size && near(size, grownSize), "its file system grew from %d to %d bytes, with the disk's %d", v.size, size, grownSize)
}

func (v *volumeStory) unpublish(ctx context.Context) error {
	if _, err := call(ctx, v.demo, filesystem.GroupName, filesystem.Version, v.clients.filesystem.Rmdir, "Rmdir", &filesystemv1.RmdirRequest{Path: target, Force: true}); err != nil {
		return err
	}
	if err := v.checkExists(ctx, target, false); err != nil {
		return err
	}
	return v.checkExists(ctx, staging, true)
}

func (v *volumeStory) unstage(ctx context.Context) error {
	c := v.clients
	id, err := call(ctx, v.demo, volume.GroupName, volume.Version, c.volume.GetVolumeIDFromTargetPath, "GetVolumeIDFromTargetPath", &volumev1.GetVolumeIDFromTargetPathRequest{TargetPath: staging})
	if err != nil {
		return err
	}
	if err := v.check(id.VolumeId == v.volume, "the staging directory holds the volume"); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, volume.GroupName, volume.Version, c.volume.UnmountVolume, "UnmountVolume", &volumev1.UnmountVolumeRequest{VolumeId: v.volume, TargetPath: staging}); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, filesystem.GroupName, filesystem.Version, c.filesystem.Rmdir, "Rmdir", &filesystemv1.RmdirRequest{Path: staging, Force: true}); err != nil {
		return err
	}
	if err := v.checkExists(ctx, staging, false); err != nil {
		return err
	}
	number, err := call(ctx, v.demo, volume.GroupName, volume.Version, c.volume.GetDiskNumberFromVolumeID, "GetDiskNumberFromVolumeID", &volumev1.GetDiskNumberFromVolumeIDRequest{VolumeId: v.volume})
	if err != nil {
		return err
	}
	if err := v.check(number.DiskNumber == v.disk, "the volume is on disk %d", v.disk); err != nil {
		return err
	}
	if _, err := call(ctx, v.demo, disk.GroupName, disk.Version, c.disk.SetDiskState, "SetDiskState", &diskv1.SetDiskStateRequest{DiskNumber: v.disk, IsOnline: false}); err != nil {
		return err
	}
	state, err := call(ctx, v.demo, disk.GroupName, disk.Version, c.disk.GetDiskState, "GetDiskState", &diskv1.GetDiskStateRequest{DiskNumber: v.disk})
	if err != nil {
		return err
	}
	return v.check(!state.IsOnline, "the disk is offline and may be detached")
}

func (v *volumeStory) checkFormatted(ctx context.Context, want bool) error {
	out, err := call(ctx, v.demo, volume.GroupName, volume.Version, v.clients.volume.IsVolumeFormatted, "IsVolumeFormatted", &volumev1.IsVolumeFormattedRequest{VolumeId: v.volume})
	if err != nil {
		return err
	}
	return v.check(out.Formatted == want, "formatted: %t", want)
}

func (v *volumeStory) checkExists(ctx context.Context, path string, want bool) error {
	out, err := call(ctx, v.demo, filesystem.GroupName, filesystem.Version, v.clients.filesystem.PathExists, "PathExists", &filesystemv1.PathExistsRequest{Path: path})
	if err != nil {
		return err
	}
	what := "is gone"
	if want {
		what = "is still there"
	}
	return v.check(out.Exists == want, "%s %s", path, what)
}

func (v *volumeStory) stats(ctx context.Context) (int64, error) {
	out, err := call(ctx, v.demo, volume.GroupName, volume.Version, v.clients.volume.GetVolumeStats, "GetVolumeStats", &volumev1.GetVolumeStatsRequest{VolumeId: v.volume})
	if err != nil {
		return 0, err
	}
	if out.TotalBytes <= 0 {
		return 0, fmt.Errorf("the volume has %d bytes", out.TotalBytes)
	}
	return out.TotalBytes, nil
}

// near reports whether a file system fills its disk. Tables and reserved partitions may
// take as much as the tests of drivers allow.
func near(size, disk int64) bool { return size <= disk && disk-size <= 20<<20 }
