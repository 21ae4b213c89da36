package interleave_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

const (
	gib     = 1 << 30
	kubelet = `C:\var\lib\kubelet`
	dir     = kubelet + `\plugins\interleave`
	at      = dir + `\mount`
	staging = kubelet + `\plugins\kubernetes.io\csi\smb.csi.k8s.io\1`
	staged  = staging + `\globalmount`
	server  = "files.example.com"
	share   = `\\` + server + `\data`
	target  = "iqn.2025-01.com.example:data"
)

var portal = &iscsi.TargetPortal{TargetAddress: "192.0.2.10"}

// caller is a program that makes requests: the one under test, or another one that
// changes the node.
type caller struct {
	*testing.T
	ctx context.Context
	n   *simnode.Node
	*simnode.Process
	id string // of the volume on disk 1
}

// ignore drops the response of a method after checking that there is one.
func ignore[T any](answer T, err error) error {
	if err == nil && reflect.ValueOf(answer).IsZero() {
		return errors.New("success without a response")
	}
	return err
}

func (c *caller) must(errs ...error) {
	c.Helper()
	for _, err := range errs {
		if err != nil {
			c.Fatal(err)
		}
	}
}

func (c *caller) partition() error {
	return ignore(c.Disk().PartitionDisk(c.ctx, &disk.PartitionDiskRequest{DiskNumber: 1}))
}

func (c *caller) online(online bool) error {
	return ignore(c.Disk().SetDiskState(c.ctx, &disk.SetDiskStateRequest{DiskNumber: 1, IsOnline: online}))
}

func (c *caller) readOnly(readOnly bool) error {
	return ignore(c.Disk().SetDiskReadOnly(c.ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: 1, IsReadOnly: readOnly}))
}

func (c *caller) format() error {
	return ignore(c.Volume().FormatVolume(c.ctx, &volume.FormatVolumeRequest{VolumeID: c.id}))
}

func (c *caller) mount() error {
	return ignore(c.Volume().MountVolume(c.ctx, &volume.MountVolumeRequest{VolumeID: c.id, TargetPath: at}))
}

func (c *caller) unmount() error {
	return ignore(c.Volume().UnmountVolume(c.ctx, &volume.UnmountVolumeRequest{VolumeID: c.id, TargetPath: at}))
}

func (c *caller) resize(n int64) error {
	return ignore(c.Volume().ResizeVolume(c.ctx, &volume.ResizeVolumeRequest{VolumeID: c.id, SizeBytes: n}))
}

func (c *caller) mkdir(p string) error {
	return ignore(c.Filesystem().Mkdir(c.ctx, &filesystem.MkdirRequest{Path: p}))
}

func (c *caller) rmdir(p string, force bool) error {
	return ignore(c.Filesystem().Rmdir(c.ctx, &filesystem.RmdirRequest{Path: p, Force: force}))
}

func (c *caller) empty(p string) error {
	return ignore(c.Filesystem().RmdirContents(c.ctx, &filesystem.RmdirContentsRequest{Path: p}))
}

func (c *caller) link(to, p string) error {
	return ignore(c.Filesystem().CreateSymlink(c.ctx, &filesystem.CreateSymlinkRequest{SourcePath: to, TargetPath: p}))
}

func (c *caller) isLink(p string) error {
	return ignore(c.Filesystem().IsSymlink(c.ctx, &filesystem.IsSymlinkRequest{Path: p}))
}

func (c *caller) exists(p string) error {
	return ignore(c.Filesystem().PathExists(c.ctx, &filesystem.PathExistsRequest{Path: p}))
}

func (c *caller) valid(p string) error {
	return ignore(c.Filesystem().PathValid(c.ctx, &filesystem.PathValidRequest{Path: p}))
}

func (c *caller) mapShare(local string) error {
	return ignore(c.SMB().NewSMBGlobalMapping(c.ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: share, LocalPath: local, Username: "csi", Password: "csi"}))
}

func (c *caller) unmap() error {
	return ignore(c.SMB().RemoveSMBGlobalMapping(c.ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: share}))
}

func (c *caller) addPortal() error {
	return ignore(c.ISCSI().AddTargetPortal(c.ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal}))
}

func (c *caller) removePortal() error {
	return ignore(c.ISCSI().RemoveTargetPortal(c.ctx, &iscsi.RemoveTargetPortalRequest{TargetPortal: portal}))
}

func (c *caller) connect() error {
	return ignore(c.ISCSI().ConnectTarget(c.ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: target}))
}

func (c *caller) disconnect() error {
	return ignore(c.ISCSI().DisconnectTarget(c.ctx, &iscsi.DisconnectTargetRequest{TargetPortal: portal, IQN: target}))
}

func (c *caller) discover() error {
	return ignore(c.ISCSI().DiscoverTargetPortal(c.ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal}))
}

func (c *caller) disks() error {
	return ignore(c.ISCSI().GetTargetDisks(c.ctx, &iscsi.GetTargetDisksRequest{TargetPortal: portal, IQN: target}))
}

func (c *caller) start(name string) error {
	return ignore(c.System().StartService(c.ctx, &system.StartServiceRequest{Name: name}))
}

func (c *caller) stop(name string) error {
	return ignore(c.System().StopService(c.ctx, &system.StopServiceRequest{Name: name, Force: true}))
}

func (c *caller) formattedYet() error {
	return ignore(c.Volume().IsVolumeFormatted(c.ctx, &volume.IsVolumeFormattedRequest{VolumeID: c.id}))
}

func (c *caller) mountedAt(p string) error {
	return ignore(c.Volume().GetVolumeIDFromTargetPath(c.ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: p}))
}

func (c *caller) closest(p string) error {
	return ignore(c.Volume().GetClosestVolumeIDFromTargetPath(c.ctx, &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: p}))
}

func (c *caller) list(partition uint32) error {
	return ignore(c.Volume().ListVolumesOnDisk(c.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: 1, PartitionNumber: partition}))
}

// Each of these functions prepares a volume up to a step.

// attach attaches the disk 1, with a volume if content is "gpt".
func (c *caller) attach(content, fileSystem string) {
	d := simnode.Disk{ID: "data", Size: gib, Content: content, Offline: new(bool), ReadOnly: new(bool)}
	if content != "" {
		d.Partitions = []simnode.Partition{{FileSystem: fileSystem}}
	}
	info, err := c.n.AttachDisk(d)
	c.must(err, c.mkdir(at))
	list, err := c.Volume().ListVolumesOnDisk(c.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: 1})
	c.must(err)
	if info.Number != 1 || len(list.VolumeIDs) != len(d.Partitions) {
		c.Fatalf("disk %d has %d volumes", info.Number, len(list.VolumeIDs))
	}
	if len(list.VolumeIDs) > 0 {
		c.id = list.VolumeIDs[0]
	}
}

func (c *caller) blank() { c.attach("", "") }

func (c *caller) partitioned() { c.attach("gpt", "") }

func (c *caller) formatted() { c.attach("gpt", "NTFS") }

func (c *caller) mounted() {
	c.formatted()
	c.must(c.mount())
}

func (c *caller) filled() {
	c.mounted()
	c.must(c.mkdir(at+`\a\b`), c.mkdir(at+`\c`), c.link(at+`\a`, at+`\c\link`), c.link(at+`\a`, dir+`\into`))
}

func (c *caller) linked() {
	c.mounted()
	c.must(c.link(at, dir+`\to`))
}

func (c *caller) grown() {
	c.formatted()
	c.must(c.n.GrowDisk(1, 3*gib))
}

// op is an operation under test.
type op struct {
	name  string
	setup func(*caller)
	do    func(*caller) error
	once  bool // fails when it is repeated
	// left are the errors of the repeated request if it cannot continue from where
	// the change stopped it.
	left []error
}

func nothing(*caller) {}

var diskOps = append([]op{
	{name: "PartitionDisk", setup: (*caller).blank, do: (*caller).partition},
	{name: "PartitionDisk again", setup: (*caller).partitioned, do: (*caller).partition},
	{name: "SetDiskState offline", setup: (*caller).mounted, do: func(c *caller) error { return c.online(false) }},
	{name: "SetDiskState online", setup: func(c *caller) { c.mounted(); c.must(c.online(false)) }, do: func(c *caller) error { return c.online(true) }},
	{name: "SetDiskReadOnly", setup: (*caller).mounted, do: func(c *caller) error { return c.readOnly(true) }},
	{name: "SetDiskReadOnly writable", setup: func(c *caller) { c.mounted(); c.must(c.readOnly(true)) }, do: func(c *caller) error { return c.readOnly(false) }},
	{name: "GetDiskReadOnly", setup: (*caller).mounted, do: func(c *caller) error {
		return ignore(c.Disk().GetDiskReadOnly(c.ctx, &disk.GetDiskReadOnlyRequest{DiskNumber: 1}))
	}},
	{name: "GetDiskState", setup: (*caller).mounted, do: func(c *caller) error {
		return ignore(c.Disk().GetDiskState(c.ctx, &disk.GetDiskStateRequest{DiskNumber: 1}))
	}},
	{name: "GetDiskStats", setup: (*caller).mounted, do: func(c *caller) error {
		return ignore(c.Disk().GetDiskStats(c.ctx, &disk.GetDiskStatsRequest{DiskNumber: 1}))
	}},
	{name: "ListDiskIDs", setup: (*caller).mounted, do: func(c *caller) error { return ignore(c.Disk().ListDiskIDs(c.ctx, &disk.ListDiskIDsRequest{})) }},
	{name: "ListDiskLocations", setup: (*caller).mounted, do: func(c *caller) error {
		return ignore(c.Disk().ListDiskLocations(c.ctx, &disk.ListDiskLocationsRequest{}))
	}},
	{name: "Rescan", setup: (*caller).grown, do: func(c *caller) error { return ignore(c.Disk().Rescan(c.ctx, &disk.RescanRequest{})) }},
	{name: "FormatVolume", setup: (*caller).partitioned, do: (*caller).format},
	{name: "FormatVolume again", setup: (*caller).formatted, do: (*caller).format},
	{name: "IsVolumeFormatted", setup: (*caller).formatted, do: (*caller).formattedYet},
	{name: "IsVolumeFormatted of an unformatted volume", setup: (*caller).partitioned, do: (*caller).formattedYet},
	{name: "ResizeVolume", setup: (*caller).grown, do: func(c *caller) error { return c.resize(2 * gib) }},
	{name: "ResizeVolume to the end of the disk", setup: (*caller).grown, do: func(c *caller) error { return c.resize(0) }},
	{name: "ResizeVolume again", setup: func(c *caller) { c.grown(); c.must(c.resize(2 * gib)) }, do: func(c *caller) error { return c.resize(2 * gib) }},
	{name: "GetVolumeStats", setup: (*caller).formatted, do: func(c *caller) error {
		return ignore(c.Volume().GetVolumeStats(c.ctx, &volume.GetVolumeStatsRequest{VolumeID: c.id}))
	}},
	{name: "WriteVolumeCache", setup: (*caller).mounted, do: func(c *caller) error {
		return ignore(c.Volume().WriteVolumeCache(c.ctx, &volume.WriteVolumeCacheRequest{VolumeID: c.id}))
	}},
	{name: "ListVolumesOnDisk", setup: (*caller).mounted, do: func(c *caller) error { return c.list(0) }},
	{name: "ListVolumesOnDisk of a partition", setup: (*caller).mounted, do: func(c *caller) error { return c.list(2) }},
	{name: "GetDiskNumberFromVolumeID", setup: (*caller).mounted, do: func(c *caller) error {
		return ignore(c.Volume().GetDiskNumberFromVolumeID(c.ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: c.id}))
	}},
}, pathOps...)

// pathOps work through a mount point.
var pathOps = []op{
	{name: "MountVolume", setup: (*caller).formatted, do: (*caller).mount},
	{name: "MountVolume again", setup: (*caller).mounted, do: (*caller).mount},
	{name: "UnmountVolume", setup: (*caller).mounted, do: (*caller).unmount},
	{name: "UnmountVolume again", setup: (*caller).formatted, do: (*caller).unmount},
	{name: "GetVolumeIDFromTargetPath", setup: (*caller).mounted, do: func(c *caller) error { return c.mountedAt(at) }},
	{name: "GetVolumeIDFromTargetPath of a link", setup: (*caller).linked, do: func(c *caller) error { return c.mountedAt(dir + `\to`) }},
	{name: "GetClosestVolumeIDFromTargetPath", setup: (*caller).mounted, do: func(c *caller) error { return c.closest(at) }},
	{name: "GetClosestVolumeIDFromTargetPath within", setup: (*caller).filled, do: func(c *caller) error { return c.closest(at + `\a\b`) }},
	{name: "PathExists within", setup: (*caller).filled, do: func(c *caller) error { return c.exists(at + `\a\b`) }},
	{name: "PathExists", setup: (*caller).filled, do: func(c *caller) error { return c.exists(at) }},
	{name: "PathValid within", setup: (*caller).filled, do: func(c *caller) error { return c.valid(at + `\a\b`) }},
	{name: "IsSymlink", setup: (*caller).filled, do: func(c *caller) error { return c.isLink(at) }},
	{name: "IsSymlink within", setup: (*caller).filled, do: func(c *caller) error { return c.isLink(at + `\c\link`) }},
	{name: "IsSymlink of a link to within", setup: (*caller).filled, do: func(c *caller) error { return c.isLink(dir + `\into`) }},
	{name: "Mkdir within", setup: (*caller).filled, do: func(c *caller) error { return c.mkdir(at + `\x\y`) }},
	{name: "Rmdir within", setup: (*caller).filled, do: func(c *caller) error { return c.rmdir(at+`\a`, true) }},
	{name: "Rmdir of a link to within", setup: (*caller).filled, do: func(c *caller) error { return c.rmdir(dir+`\into`, false) }, once: true},
	{name: "Rmdir", setup: (*caller).filled, do: func(c *caller) error { return c.rmdir(at, false) }, once: true},
	{name: "RmdirContents within", setup: (*caller).filled, do: func(c *caller) error { return c.empty(at + `\a`) }},
	{name: "CreateSymlink within", setup: (*caller).filled, do: func(c *caller) error { return c.link(at+`\a`, at+`\l`) },
		left: []error{occupied}}, // by a directory that was going to become the link
	{name: "CreateSymlink to within", setup: (*caller).filled, do: func(c *caller) error { return c.link(at+`\a`, dir+`\l`) },
		left: []error{occupied}}, // by a link to a missing path
}

func tree(c *caller) {
	c.must(c.mkdir(dir+`\a\b`), c.mkdir(dir+`\a\c\d`), c.link(dir+`\a`, dir+`\link`), c.n.MakeFile(dir+`\a\file`))
}

var treeOps = []op{
	{name: "Mkdir", setup: func(c *caller) { c.must(c.mkdir(dir)) }, do: func(c *caller) error { return c.mkdir(dir + `\a\b\c`) }},
	{name: "Mkdir again", setup: func(c *caller) { c.must(c.mkdir(dir + `\a\b`)) }, do: func(c *caller) error { return c.mkdir(dir + `\a\b`) }},
	{name: "Rmdir of a tree", setup: tree, do: func(c *caller) error { return c.rmdir(dir+`\a`, true) }},
	{name: "Rmdir", setup: tree, do: func(c *caller) error { return c.rmdir(dir+`\a\b`, false) }, once: true},
	{name: "Rmdir of a link", setup: tree, do: func(c *caller) error { return c.rmdir(dir+`\link`, false) }, once: true},
	{name: "RmdirContents", setup: tree, do: func(c *caller) error { return c.empty(dir + `\a`) }},
	{name: "PathExists", setup: tree, do: func(c *caller) error { return c.exists(dir + `\a\b`) }},
	{name: "PathExists through a link", setup: tree, do: func(c *caller) error { return c.exists(dir + `\link\b`) }},
	{name: "PathValid", setup: tree, do: func(c *caller) error { return c.valid(dir + `\a\b`) }},
	{name: "IsSymlink", setup: tree, do: func(c *caller) error { return c.isLink(dir + `\link`) }},
	{name: "IsSymlink of a directory", setup: tree, do: func(c *caller) error { return c.isLink(dir + `\a`) }},
	{name: "CreateSymlink", setup: tree, do: func(c *caller) error { return c.link(dir+`\a\b`, dir+`\a\l`) }},
	{name: "CreateSymlink again", setup: tree, do: func(c *caller) error { return c.link(dir+`\a`, dir+`\link`) }},
	{name: "MountVolume", setup: (*caller).formatted, do: (*caller).mount},
	{name: "UnmountVolume", setup: (*caller).mounted, do: (*caller).unmount},
}

// linked maps a share with a link.
func linked(c *caller) { c.must(c.mkdir(staging), c.mapShare(staged)) }

var shareOps = []op{
	{name: "NewSMBGlobalMapping", setup: nothing, do: func(c *caller) error { return c.mapShare("") }},
	{name: "NewSMBGlobalMapping with a link", setup: func(c *caller) { c.must(c.mkdir(staging)) }, do: func(c *caller) error { return c.mapShare(staged) }},
	{name: "NewSMBGlobalMapping again", setup: linked, do: func(c *caller) error { return c.mapShare(staged) }},
	{name: "NewSMBGlobalMapping by a new process", setup: func(c *caller) { linked(c); c.restart() }, do: func(c *caller) error { return c.mapShare(staged) }},
	{name: "NewSMBGlobalMapping of a broken mapping", setup: func(c *caller) { linked(c); c.must(c.n.SetSMBMappingStatus(share, "disconnected")) },
		do: func(c *caller) error { return c.mapShare(staged) }},
	{name: "RemoveSMBGlobalMapping", setup: func(c *caller) { c.must(c.mapShare("")) }, do: (*caller).unmap},
	{name: "RemoveSMBGlobalMapping of a mapping in use", setup: linked, do: (*caller).unmap},
	{name: "RemoveSMBGlobalMapping without a mapping", setup: nothing, do: (*caller).unmap},
	{name: "PathValid", setup: linked, do: func(c *caller) error { return c.valid(staged) }},
	{name: "PathValid of the share", setup: linked, do: func(c *caller) error { return c.valid(share) }},
	{name: "PathExists", setup: linked, do: func(c *caller) error { return c.exists(staged) }},
	{name: "IsSymlink", setup: linked, do: func(c *caller) error { return c.isLink(staged) }},
	{name: "Rmdir", setup: linked, do: func(c *caller) error { return c.rmdir(staged, false) }, once: true},
}

func registered(c *caller) { c.must(c.addPortal()) }

func connected(c *caller) { c.must(c.addPortal(), c.connect()) }

var targetOps = []op{
	{name: "AddTargetPortal", setup: nothing, do: (*caller).addPortal},
	{name: "AddTargetPortal again", setup: registered, do: (*caller).addPortal},
	{name: "DiscoverTargetPortal", setup: registered, do: (*caller).discover},
	{name: "ListTargetPortals", setup: registered, do: func(c *caller) error {
		return ignore(c.ISCSI().ListTargetPortals(c.ctx, &iscsi.ListTargetPortalsRequest{}))
	}},
	{name: "RemoveTargetPortal", setup: registered, do: (*caller).removePortal, once: true},
	{name: "ConnectTarget", setup: registered, do: (*caller).connect},
	{name: "ConnectTarget again", setup: connected, do: (*caller).connect},
	{name: "GetTargetDisks", setup: connected, do: (*caller).disks},
	{name: "DisconnectTarget", setup: connected, do: (*caller).disconnect},
	{name: "DisconnectTarget again", setup: registered, do: (*caller).disconnect},
	{name: "SetMutualChapSecret", setup: nothing, do: func(c *caller) error {
		return ignore(c.ISCSI().SetMutualChapSecret(c.ctx, &iscsi.SetMutualChapSecretRequest{MutualChapSecret: "0123456789ab"}))
	}},
}

func started(c *caller) { c.must(c.start("Top")) }

var serviceOps = []op{
	{name: "GetService", setup: nothing, do: func(c *caller) error {
		return ignore(c.System().GetService(c.ctx, &system.GetServiceRequest{Name: "Top"}))
	}},
	{name: "StartService", setup: nothing, do: func(c *caller) error { return c.start("Top") }},
	{name: "StartService again", setup: started, do: func(c *caller) error { return c.start("Top") }},
	{name: "StopService", setup: started, do: func(c *caller) error { return c.stop("Base") }},
	{name: "StopService again", setup: nothing, do: func(c *caller) error { return c.stop("Base") }},
}
