package operations_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

const (
	dir       = kubelet + `\plugins\operations`
	at        = dir + `\mount`
	staging   = kubelet + `\plugins\kubernetes.io\csi\smb.csi.k8s.io\1`
	staged    = staging + `\globalmount`
	server    = "files.example.com"
	share     = `\\` + server + `\data`
	target    = "iqn.2025-01.com.example:data"
	initiator = "MSiSCSI"
)

var portal = &iscsi.TargetPortal{TargetAddress: "192.0.2.10", TargetPort: 3260}

// operation is a request. It is made on a node of its own, after setup.
type operation struct {
	name   string // begins with the method
	about  part
	setup  func(*caller) error
	do     func(*caller) error
	once   bool                   // fails when it is repeated
	config func(*nodespec.Config) // of the node, may be nil
}

// part is what of a node an operation is about.
type part int

const (
	disks    part = 1 << iota // a disk or its volume
	paths                     // a path through a mount point
	trees                     // directories, files and links
	shares                    // an SMB share
	targets                   // an iSCSI target
	programs                  // a Windows service
)

// of returns the operations about a part. With names, only those.
func of(about part, names ...string) []operation {
	return slices.DeleteFunc(operations(), func(o operation) bool {
		return o.about&about == 0 || len(names) > 0 && !slices.Contains(names, o.name)
	})
}

// operations is the table of operations: each method, in each situation in which it does
// something else.
func operations() []operation {
	return []operation{
		{name: "PartitionDisk", about: disks, setup: blank, do: (*caller).partition},
		{name: "PartitionDisk again", about: disks, setup: partitioned, do: (*caller).partition},
		{name: "PartitionDisk of an offline disk, to which Windows adds a reserved partition", config: func(c *nodespec.Config) {
			c.SANPolicy, c.VolumeArrivalDelay = nodespec.SANOfflineAll, late
			c.World = behavior.In("", behavior.Windows{NewGPT: behavior.NewGPTMSR})
		}, setup: blankAsFound, do: (*caller).partition},
		{name: "SetDiskState offline", about: disks, setup: mounted, do: offline},
		{name: "SetDiskState offline of a blank disk", setup: blank, do: offline},
		{name: "SetDiskState online", about: disks, setup: after(mounted, offline), do: online},
		{name: "SetDiskState online, and its volume is late", config: func(c *nodespec.Config) { c.VolumeArrivalDelay = late }, setup: after(mounted, offline), do: online},
		{name: "SetDiskState online again", setup: mounted, do: online},
		{name: "SetDiskState online of a clone", setup: cloned, do: online},
		{name: "SetDiskReadOnly", about: disks, setup: mounted, do: readOnly},
		{name: "SetDiskReadOnly writable", about: disks, setup: after(mounted, readOnly), do: func(c *caller) error { return c.setReadOnly(false) }},
		{name: "GetDiskReadOnly", about: disks, setup: mounted, do: func(c *caller) error {
			return c.answer(c.disk.GetDiskReadOnly(c.ctx, &disk.GetDiskReadOnlyRequest{DiskNumber: c.m.number}))
		}},
		{name: "GetDiskState", about: disks, setup: mounted, do: func(c *caller) error {
			return c.answer(c.disk.GetDiskState(c.ctx, &disk.GetDiskStateRequest{DiskNumber: c.m.number}))
		}},
		{name: "GetDiskStats", about: disks, setup: mounted, do: func(c *caller) error {
			return c.answer(c.disk.GetDiskStats(c.ctx, &disk.GetDiskStatsRequest{DiskNumber: c.m.number}))
		}},
		{name: "ListDiskIDs", about: disks, setup: mounted, do: func(c *caller) error { return c.answer(c.disk.ListDiskIDs(c.ctx, &disk.ListDiskIDsRequest{})) }},
		{name: "ListDiskLocations", about: disks, setup: mounted, do: func(c *caller) error {
			return c.answer(c.disk.ListDiskLocations(c.ctx, &disk.ListDiskLocationsRequest{}))
		}},
		{name: "Rescan", about: disks, setup: grown, do: (*caller).rescan},
		{name: "Rescan while a disk waits", config: func(c *nodespec.Config) { c.Attach = nodespec.AttachRescan },
			setup: after(grown, func(c *caller) error { return ignore(c.m.Attach(nodespec.Disk{ID: "waits", Size: gib})) }),
			do: func(c *caller) error {
				defer c.m.wait(time.Second) // it arrives after the scan
				return c.rescan()
			}},

		{name: "FormatVolume", about: disks, config: func(c *nodespec.Config) { c.FormatDuration = nodespec.Duration(time.Second) }, setup: partitioned, do: (*caller).format},
		{name: "FormatVolume for users", config: func(c *nodespec.Config) { c.UsersModify = true }, setup: partitioned, do: (*caller).format},
		{name: "FormatVolume again", about: disks, setup: formatted, do: (*caller).format},
		{name: "IsVolumeFormatted", about: disks, setup: formatted, do: (*caller).isFormatted},
		{name: "IsVolumeFormatted of an unformatted volume", about: disks, setup: partitioned, do: (*caller).isFormatted},
		{name: "ResizeVolume", about: disks, setup: grown, do: resize},
		{name: "ResizeVolume to the end of the disk", about: disks, setup: grown, do: func(c *caller) error { return c.resize(0) }},
		{name: "ResizeVolume when Windows needs the table rewritten first", config: func(c *nodespec.Config) { c.World = behavior.In("", behavior.Windows{GPTEnd: behavior.GPTEndStays}) }, setup: grown, do: func(c *caller) error { return c.resize(0) }},
		{name: "ResizeVolume again", about: disks, setup: after(grown, resize), do: resize},
		{name: "GetVolumeStats", about: disks, setup: formatted, do: func(c *caller) error {
			return c.answer(c.volume.GetVolumeStats(c.ctx, &volume.GetVolumeStatsRequest{VolumeID: c.m.volume}))
		}},
		{name: "WriteVolumeCache", about: disks, setup: mounted, do: func(c *caller) error {
			return ignore(c.volume.WriteVolumeCache(c.ctx, &volume.WriteVolumeCacheRequest{VolumeID: c.m.volume}))
		}},
		{name: "ListVolumesOnDisk", about: disks, setup: mounted, do: func(c *caller) error { return c.list(0) }},
		{name: "ListVolumesOnDisk of a blank disk", setup: blank, do: func(c *caller) error { return c.list(0) }},
		{name: "ListVolumesOnDisk of a partition", about: disks, setup: mounted, do: func(c *caller) error { return c.list(2) }},
		{name: "GetDiskNumberFromVolumeID", about: disks, setup: mounted, do: func(c *caller) error {
			return c.answer(c.volume.GetDiskNumberFromVolumeID(c.ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: c.m.volume}))
		}},

		{name: "MountVolume", about: disks | paths | trees, setup: formatted, do: (*caller).mount},
		{name: "MountVolume again", about: disks | paths, setup: mounted, do: (*caller).mount},
		{name: "UnmountVolume", about: disks | paths | trees, setup: mounted, do: (*caller).unmount},
		{name: "UnmountVolume of a removed disk", setup: after(mounted, func(c *caller) error { return c.m.Detach(c.m.number) }), do: (*caller).unmount},
		{name: "UnmountVolume again", about: disks | paths, setup: formatted, do: (*caller).unmount},
		{name: "GetVolumeIDFromTargetPath", about: disks | paths, setup: mounted, do: func(c *caller) error { return c.mountedAt(at) }},
		{name: "GetVolumeIDFromTargetPath of a link", about: disks | paths, setup: after(mounted, func(c *caller) error { return c.link(at, dir+`\to`) }), do: func(c *caller) error { return c.mountedAt(dir + `\to`) }},
		{name: "GetClosestVolumeIDFromTargetPath", about: disks | paths, setup: mounted, do: func(c *caller) error { return c.closest(at) }},
		{name: "GetClosestVolumeIDFromTargetPath within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.closest(at + `\a\b`) }},
		{name: "GetPathKind", about: disks | paths, setup: mounted, do: func(c *caller) error { return c.kindOf(at) }},
		{name: "GetPathKind of a link", about: disks | paths, setup: after(mounted, func(c *caller) error { return c.link(at, dir+`\to`) }), do: func(c *caller) error { return c.kindOf(dir + `\to`) }},
		{name: "GetPathStats", about: disks | paths, setup: filled, do: func(c *caller) error {
			return c.answer(c.volume.GetPathStats(c.ctx, &volume.GetPathStatsRequest{Path: at + `\a\b`}))
		}},
		{name: "PathExists within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.exists(at + `\a\b`) }},
		{name: "PathExists of a mount point", about: disks | paths, setup: filled, do: func(c *caller) error { return c.exists(at) }},
		{name: "PathValid within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.valid(at + `\a\b`) }},
		{name: "IsSymlink of a mount point", about: disks | paths, setup: filled, do: func(c *caller) error { return c.isLink(at) }},
		{name: "IsSymlink within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.isLink(at + `\c\link`) }},
		{name: "IsSymlink of a link to within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.isLink(dir + `\into`) }},
		{name: "Mkdir within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.mkdir(at + `\x\y`) }},
		{name: "Rmdir within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.rmdir(at+`\a`, true) }},
		{name: "Rmdir of a link to within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.rmdir(dir+`\into`, false) }, once: true},
		{name: "Rmdir of a mount point", about: disks | paths, setup: filled, do: func(c *caller) error { return c.rmdir(at, false) }, once: true},
		{name: "RmdirContents within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.empty(at + `\a`) }},
		{name: "CreateSymlink within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.link(at+`\a`, at+`\l`) }},
		{name: "CreateSymlink to within", about: disks | paths, setup: filled, do: func(c *caller) error { return c.link(at+`\a`, dir+`\l`) }},

		{name: "Mkdir", about: trees, setup: func(c *caller) error { return c.mkdir(dir) }, do: func(c *caller) error { return c.mkdir(dir + `\a\b\c`) }},
		{name: "Mkdir again", about: trees, setup: func(c *caller) error { return c.mkdir(dir + `\a\b`) }, do: func(c *caller) error { return c.mkdir(dir + `\a\b`) }},
		{name: "Rmdir of a tree", about: trees, setup: tree, do: func(c *caller) error { return c.rmdir(dir+`\a`, true) }},
		{name: "Rmdir", about: trees, setup: tree, do: func(c *caller) error { return c.rmdir(dir+`\a\b`, false) }, once: true},
		{name: "Rmdir of a link", about: trees, setup: tree, do: func(c *caller) error { return c.rmdir(dir+`\link`, false) }, once: true},
		{name: "RmdirContents", about: trees, setup: tree, do: func(c *caller) error { return c.empty(dir + `\a`) }},
		{name: "PathExists", about: trees, setup: tree, do: func(c *caller) error { return c.exists(dir + `\a\b`) }},
		{name: "PathExists through a link", about: trees, setup: tree, do: func(c *caller) error { return c.exists(dir + `\link\b`) }},
		{name: "PathValid", about: trees, setup: tree, do: func(c *caller) error { return c.valid(dir + `\a\b`) }},
		{name: "IsSymlink", about: trees, setup: tree, do: func(c *caller) error { return c.isLink(dir + `\link`) }},
		{name: "IsSymlink of a directory", about: trees, setup: tree, do: func(c *caller) error { return c.isLink(dir + `\a`) }},
		{name: "CreateSymlink", about: trees, setup: tree, do: func(c *caller) error { return c.link(dir+`\a\b`, dir+`\a\l`) }},
		{name: "CreateSymlink to nothing", setup: tree, do: func(c *caller) error { return c.link(dir+`\nothing`, dir+`\a\l`) }},
		{name: "CreateSymlink again", about: trees, setup: tree, do: func(c *caller) error { return c.link(dir+`\a`, dir+`\link`) }},

		{name: "NewSMBGlobalMapping", about: shares, do: func(c *caller) error { return c.mapShare("") }},
		{name: "NewSMBGlobalMapping with a link", about: shares, setup: func(c *caller) error { return c.mkdir(staging) }, do: stage},
		{name: "NewSMBGlobalMapping again", about: shares, setup: linked, do: stage},
		{name: "NewSMBGlobalMapping by a new process", about: shares, setup: after(linked, (*caller).restart), do: stage},
		{name: "NewSMBGlobalMapping of a broken mapping", about: shares,
			setup: after(linked, func(c *caller) error { return c.m.SetSMBMappingStatus(share, "disconnected") }), do: stage},
		{name: "UpdateSMBGlobalMapping", about: shares, setup: linked, do: (*caller).newPassword},
		{name: "UpdateSMBGlobalMapping of a broken mapping", about: shares,
			setup: after(linked, func(c *caller) error { return c.m.SetSMBMappingStatus(share, "disconnected") }), do: (*caller).newPassword},
		{name: "GetSMBGlobalMapping", about: shares, setup: linked, do: func(c *caller) error {
			return c.answer(c.smb.GetSMBGlobalMapping(c.ctx, &smb.GetSMBGlobalMappingRequest{RemotePath: share, LocalPaths: []string{staging + `\globalmount`}}))
		}},
		{name: "RemoveSMBGlobalMapping", about: shares, setup: func(c *caller) error { return c.mapShare("") }, do: (*caller).unmap},
		{name: "RemoveSMBGlobalMapping of a mapping in use", about: shares, setup: linked, do: (*caller).unmap},
		{name: "RemoveSMBGlobalMapping without a mapping", about: shares, do: (*caller).unmap},
		{name: "PathValid of a link to a share", about: shares, setup: linked, do: func(c *caller) error { return c.valid(staged) }},
		{name: "PathValid of a share", about: shares, setup: linked, do: func(c *caller) error { return c.valid(share) }},
		{name: "PathExists of a link to a share", about: shares, setup: linked, do: func(c *caller) error { return c.exists(staged) }},
		{name: "IsSymlink of a link to a share", about: shares, setup: linked, do: func(c *caller) error { return c.isLink(staged) }},
		{name: "Rmdir of a link to a share", about: shares, setup: linked, do: func(c *caller) error { return c.rmdir(staged, false) }, once: true},

		{name: "AddTargetPortal", about: targets, do: (*caller).addPortal},
		{name: "AddTargetPortal again", about: targets, setup: (*caller).addPortal, do: (*caller).addPortal},
		{name: "DiscoverTargetPortal", about: targets, setup: (*caller).addPortal, do: func(c *caller) error {
			return c.answer(c.iscsi.DiscoverTargetPortal(c.ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal}))
		}},
		{name: "ListTargetPortals", about: targets, setup: (*caller).addPortal, do: func(c *caller) error {
			return c.answer(c.iscsi.ListTargetPortals(c.ctx, &iscsi.ListTargetPortalsRequest{}))
		}},
		{name: "RemoveTargetPortal", about: targets, setup: (*caller).addPortal, do: (*caller).removePortal, once: true},
		{name: "ConnectTarget", about: targets, setup: (*caller).addPortal, do: (*caller).connect},
		{name: "ConnectTarget, and its disks are late", config: luns(false), setup: (*caller).addPortal, do: (*caller).connect},
		{name: "ConnectTarget again", about: targets, setup: connected, do: (*caller).connect},
		{name: "GetTargetDisks", about: targets, setup: connected, do: func(c *caller) error {
			return c.answer(c.iscsi.GetTargetDisks(c.ctx, &iscsi.GetTargetDisksRequest{TargetPortal: portal, IQN: target}))
		}},
		{name: "DisconnectTarget", about: targets, setup: connected, do: (*caller).disconnect},
		{name: "DisconnectTarget with a persistent login", config: luns(true), setup: connected, do: (*caller).disconnect},
		{name: "DisconnectTarget again", about: targets, setup: (*caller).addPortal, do: (*caller).disconnect},
		{name: "SetMutualChapSecret", about: targets, do: func(c *caller) error {
			return ignore(c.iscsi.SetMutualChapSecret(c.ctx, &iscsi.SetMutualChapSecretRequest{MutualChapSecret: "0123456789ab"}))
		}},

		{name: "GetService", about: programs, do: func(c *caller) error {
			return c.answer(c.system.GetService(c.ctx, &system.GetServiceRequest{Name: "Top"}))
		}},
		{name: "StartService", about: programs, do: func(c *caller) error { return c.startService("Top") }},
		{name: "StartService again", about: programs, setup: started, do: started},
		{name: "StopService", about: programs, setup: started, do: func(c *caller) error { return c.stopService("Base") }},
		{name: "StopService again", about: programs, do: func(c *caller) error { return c.stopService("Base") }},
		{name: "GetBIOSSerialNumber", do: func(c *caller) error {
			return c.answer(c.system.GetBIOSSerialNumber(c.ctx, &system.GetBIOSSerialNumberRequest{}))
		}},
	}
}

// late is how long a volume or disk that is late takes to arrive.
const late = nodespec.Duration(300 * time.Millisecond)

// after returns a setup with further steps.
func after(setup func(*caller) error, steps ...func(*caller) error) func(*caller) error {
	return func(c *caller) error {
		for _, step := range append([]func(*caller) error{setup}, steps...) {
			if err := step(c); err != nil {
				return err
			}
		}
		return nil
	}
}

// These are the setups of operations about disks.
func blankAsFound(c *caller) error { return c.attach(nodespec.Disk{}) }
func blank(c *caller) error        { return c.attach(nodespec.Disk{Offline: new(bool)}) }
func partitioned(c *caller) error  { return c.attach(volumeOf("")) }
func formatted(c *caller) error    { return c.attach(volumeOf("NTFS")) }
func mounted(c *caller) error      { return after(formatted, (*caller).mount)(c) }
func grown(c *caller) error {
	return after(formatted, func(c *caller) error { return c.m.Grow(c.m.number, 3*gib) })(c)
}

func filled(c *caller) error {
	return errors.Join(mounted(c), c.mkdir(at+`\a\b`), c.mkdir(at+`\c`), c.link(at+`\a`, at+`\c\link`), c.link(at+`\a`, dir+`\into`))
}

// cloned attaches a read-only disk with the identity of another one, which is online.
func cloned(c *caller) error {
	if err := formatted(c); err != nil {
		return err
	}
	ends, err := c.m.ends(c.m.number, gib)
	if err != nil {
		return err
	}
	return c.attach(nodespec.Disk{ID: "clone", Bytes: ends, ReadOnly: ptr(true)})
}

// These are the setups of the others.
func tree(c *caller) error {
	return errors.Join(c.mkdir(dir+`\a\b`), c.mkdir(dir+`\a\c\d`), c.link(dir+`\a`, dir+`\link`), c.m.file(dir+`\a\file`, 0), c.m.file(dir+`\a\c\d\read only`, win32.FILE_ATTRIBUTE_READONLY))
}

func linked(c *caller) error    { return errors.Join(c.mkdir(staging), stage(c)) }
func connected(c *caller) error { return errors.Join(c.addPortal(), c.connect()) }
func started(c *caller) error   { return c.startService("Top") }

// luns configures a target with two disks that are late.
func luns(persistent bool) func(*nodespec.Config) {
	return func(c *nodespec.Config) {
		c.ISCSI.Targets = []nodespec.ISCSITarget{{
			IQN: target, Portals: []nodespec.ISCSIPortal{{Address: portal.TargetAddress}}, ArrivalDelay: late, Persistent: persistent,
			LUNs: []nodespec.LUN{{Disk: nodespec.Disk{Size: gib}}, {Disk: nodespec.Disk{Size: gib}}},
		}}
	}
}

func volumeOf(fileSystem string) nodespec.Disk {
	return nodespec.Disk{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: fileSystem}}, Offline: new(bool), ReadOnly: new(bool)}
}

func ptr[T any](v T) *T { return &v }

// attach attaches the disk that operations are about, and makes the directory to mount it.
func (c *caller) attach(d nodespec.Disk) error {
	d.Size = gib
	if d.ID == "" {
		d.ID = "data"
	}
	var err error
	if c.m.number, err = c.m.Attach(d); err == nil {
		err = c.m.AwaitDisk(c.m.number)
	}
	if err != nil {
		return err
	}
	if len(d.Partitions) > 0 {
		if err := c.find(); err != nil {
			return err
		}
	}
	return c.mkdir(at)
}

// answer keeps the response of a method that looks.
func (c *caller) answer(out any, err error) error {
	text, failed := json.Marshal(out)
	c.said = string(text)
	return errors.Join(ignore(out, err), failed)
}

// ignore drops the response of a method after checking that there is one.
func ignore[T any](answer T, err error) error {
	if err == nil && reflect.ValueOf(answer).IsZero() {
		return errors.New("success without a response")
	}
	return err
}

// find waits for the only volume of the disk, and stores its ID.
func (c *caller) find() error {
	for range 100 {
		list, err := c.volume.ListVolumesOnDisk(c.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: c.m.number})
		if err != nil {
			return err
		}
		if len(list.VolumeIDs) == 1 {
			c.m.volume = list.VolumeIDs[0]
			return nil
		}
		c.m.wait(10 * time.Millisecond)
	}
	return fmt.Errorf("disk %d has not one volume", c.m.number)
}

func (c *caller) partition() error {
	return ignore(c.disk.PartitionDisk(c.ctx, &disk.PartitionDiskRequest{DiskNumber: c.m.number}))
}

func (c *caller) setOnline(online bool) error {
	return ignore(c.disk.SetDiskState(c.ctx, &disk.SetDiskStateRequest{DiskNumber: c.m.number, IsOnline: online}))
}

func online(c *caller) error  { return c.setOnline(true) }
func offline(c *caller) error { return c.setOnline(false) }

func (c *caller) setReadOnly(readOnly bool) error {
	return ignore(c.disk.SetDiskReadOnly(c.ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: c.m.number, IsReadOnly: readOnly}))
}

func readOnly(c *caller) error { return c.setReadOnly(true) }

func (c *caller) rescan() error { return ignore(c.disk.Rescan(c.ctx, &disk.RescanRequest{})) }

func (c *caller) format() error {
	return ignore(c.volume.FormatVolume(c.ctx, &volume.FormatVolumeRequest{VolumeID: c.m.volume}))
}

func (c *caller) isFormatted() error {
	return c.answer(c.volume.IsVolumeFormatted(c.ctx, &volume.IsVolumeFormattedRequest{VolumeID: c.m.volume}))
}

func (c *caller) mount() error {
	return ignore(c.volume.MountVolume(c.ctx, &volume.MountVolumeRequest{VolumeID: c.m.volume, TargetPath: at}))
}

func (c *caller) unmount() error {
	return ignore(c.volume.UnmountVolume(c.ctx, &volume.UnmountVolumeRequest{VolumeID: c.m.volume, TargetPath: at}))
}

func (c *caller) resize(n int64) error {
	return ignore(c.volume.ResizeVolume(c.ctx, &volume.ResizeVolumeRequest{VolumeID: c.m.volume, SizeBytes: n}))
}

func resize(c *caller) error { return c.resize(2 * gib) }

func (c *caller) mountedAt(p string) error {
	return c.answer(c.volume.GetVolumeIDFromTargetPath(c.ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: p}))
}

func (c *caller) closest(p string) error {
	return c.answer(c.volume.GetClosestVolumeIDFromTargetPath(c.ctx, &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: p}))
}

func (c *caller) kindOf(p string) error {
	return c.answer(c.volume.GetPathKind(c.ctx, &volume.GetPathKindRequest{Path: p}))
}

func (c *caller) list(partition uint32) error {
	return c.answer(c.volume.ListVolumesOnDisk(c.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: c.m.number, PartitionNumber: partition}))
}

func (c *caller) mkdir(p string) error {
	return ignore(c.filesystem.Mkdir(c.ctx, &filesystem.MkdirRequest{Path: p}))
}

func (c *caller) rmdir(p string, force bool) error {
	return ignore(c.filesystem.Rmdir(c.ctx, &filesystem.RmdirRequest{Path: p, Force: force}))
}

func (c *caller) empty(p string) error {
	return ignore(c.filesystem.RmdirContents(c.ctx, &filesystem.RmdirContentsRequest{Path: p}))
}

func (c *caller) link(to, p string) error {
	return ignore(c.filesystem.CreateSymlink(c.ctx, &filesystem.CreateSymlinkRequest{SourcePath: to, TargetPath: p}))
}

func (c *caller) isLink(p string) error {
	return c.answer(c.filesystem.IsSymlink(c.ctx, &filesystem.IsSymlinkRequest{Path: p}))
}

func (c *caller) exists(p string) error {
	return c.answer(c.filesystem.PathExists(c.ctx, &filesystem.PathExistsRequest{Path: p}))
}

func (c *caller) valid(p string) error {
	return c.answer(c.filesystem.PathValid(c.ctx, &filesystem.PathValidRequest{Path: p}))
}

func (c *caller) mapShare(local string) error {
	return ignore(c.smb.NewSMBGlobalMapping(c.ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: share, LocalPath: local, Username: "csi", Password: "csi"}))
}

func stage(c *caller) error { return c.mapShare(staged) }

func (c *caller) newPassword() error {
	return ignore(c.smb.UpdateSMBGlobalMapping(c.ctx, &smb.UpdateSMBGlobalMappingRequest{RemotePath: share, Username: "csi", Password: "csi"}))
}

func (c *caller) unmap() error {
	return ignore(c.smb.RemoveSMBGlobalMapping(c.ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: share}))
}

func (c *caller) addPortal() error {
	return ignore(c.iscsi.AddTargetPortal(c.ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal}))
}

func (c *caller) removePortal() error {
	return ignore(c.iscsi.RemoveTargetPortal(c.ctx, &iscsi.RemoveTargetPortalRequest{TargetPortal: portal}))
}

func (c *caller) connect() error {
	return ignore(c.iscsi.ConnectTarget(c.ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: target}))
}

func (c *caller) disconnect() error {
	return ignore(c.iscsi.DisconnectTarget(c.ctx, &iscsi.DisconnectTargetRequest{TargetPortal: portal, IQN: target}))
}

func (c *caller) startService(name string) error {
	return ignore(c.system.StartService(c.ctx, &system.StartServiceRequest{Name: name}))
}

func (c *caller) stopService(name string) error {
	return ignore(c.system.StopService(c.ctx, &system.StopServiceRequest{Name: name, Force: true}))
}
