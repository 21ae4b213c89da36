package kill_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Names that the scenarios use.
const (
	dir    = kubelet + `\plugins\kill`
	staged = kubelet + `\plugins\kubernetes.io\csi\smb.csi.k8s.io\1\globalmount`
	share  = `\\files.example.com\data`
	target = "iqn.2025-01.com.example:data"
)

var portal = &iscsi.TargetPortal{TargetAddress: "192.0.2.10", TargetPort: 3260}

// ignore drops the response of a method.
func ignore[T any](_ T, err error) error { return err }

func (p *process) mkdir(ctx context.Context, path string) error {
	return ignore(p.filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: path}))
}

func (p *process) rmdir(ctx context.Context, path string, force bool) error {
	return ignore(p.filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: path, Force: force}))
}

func (p *process) link(ctx context.Context, to, at string) error {
	return ignore(p.filesystem.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: to, TargetPath: at}))
}

func (p *process) partition(ctx context.Context) error {
	return ignore(p.disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: 1}))
}

func (p *process) format(ctx context.Context) error {
	return ignore(p.volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: p.m.volume}))
}

func (p *process) mount(ctx context.Context) error {
	return ignore(p.volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: p.m.volume, TargetPath: dir + `\mount`}))
}

func (p *process) unmount(ctx context.Context) error {
	return ignore(p.volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: p.m.volume, TargetPath: dir + `\mount`}))
}

func resize(size int64) func(context.Context, *process) error {
	return func(ctx context.Context, p *process) error {
		return ignore(p.volume.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: p.m.volume, SizeBytes: size}))
	}
}

func (p *process) online(ctx context.Context, online bool) error {
	return ignore(p.disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: 1, IsOnline: online}))
}

func (p *process) readOnly(ctx context.Context, readOnly bool) error {
	return ignore(p.disk.SetDiskReadOnly(ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: 1, IsReadOnly: readOnly}))
}

func (p *process) mapShare(ctx context.Context, at string) error {
	return ignore(p.smb.NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: share, LocalPath: at, Username: "csi", Password: "csi"}))
}

func (p *process) unmapShare(ctx context.Context) error {
	return ignore(p.smb.RemoveSMBGlobalMapping(ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: share}))
}

func (p *process) addPortal(ctx context.Context) error {
	return ignore(p.iscsi.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal}))
}

func (p *process) connect(ctx context.Context) error {
	return ignore(p.iscsi.ConnectTarget(ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: target}))
}

func (p *process) disconnect(ctx context.Context) error {
	return ignore(p.iscsi.DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: portal, IQN: target}))
}

// steps calls functions in order until one fails.
func steps(do ...func(context.Context) error) error {
	for i, f := range do {
		if err := f(context.Background()); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// find stores the ID of the only volume of disk 1.
func (m *machine) find(context.Context) error {
	info, err := m.Show()
	if err != nil {
		return err
	}
	for _, v := range info.Volumes {
		if v.Disks[0] == 1 {
			m.volume = v.ID
			return nil
		}
	}
	return errors.New("disk 1 has no volume")
}

func (p *process) workDir(ctx context.Context) error { return p.mkdir(ctx, dir+`\mount`) }

// partitioned, formatted and mounted prepare a volume up to that step.
func partitioned(m *machine, p *process) error {
	return steps(p.partition, m.find, p.workDir)
}

func formatted(m *machine, p *process) error {
	return errors.Join(partitioned(m, p), steps(p.format))
}

func mounted(m *machine, p *process) error {
	return errors.Join(formatted(m, p), steps(p.mount))
}

func grown(m *machine, p *process) error {
	return errors.Join(formatted(m, p), m.Grow(1, 3*gib))
}

// initiator configures a node whose iSCSI service runs.
func initiator(c *nodespec.Config) {
	c.Services = []nodespec.Service{{Name: "MSiSCSI", StartType: "auto"}}
	c.ISCSI.Targets = []nodespec.ISCSITarget{{
		IQN: target, Portals: []nodespec.ISCSIPortal{{Address: "192.0.2.10"}}, ArrivalDelay: nodespec.Duration(300 * time.Millisecond),
		LUNs: []nodespec.LUN{{Disk: nodespec.Disk{Size: gib}}, {Disk: nodespec.Disk{Size: gib}}},
	}}
}

func persistent(c *nodespec.Config) {
	initiator(c)
	c.ISCSI.Targets[0].Persistent = true
}

func scenarios() []scenario {
	return []scenario{
		{name: "partition", tables: true,
			request: func(ctx context.Context, p *process) error { return p.partition(ctx) }},
		{name: "partition an offline disk when Windows adds a reserved partition", tables: true, arrives: true,
			config: func(c *nodespec.Config) {
				c.SANPolicy, c.NewGPT, c.VolumeArrivalDelay = "offlineAll", "msr", nodespec.Duration(300*time.Millisecond)
			},
			request: func(ctx context.Context, p *process) error { return p.partition(ctx) }},
		{name: "format", tables: true, half: halfAFormat,
			config:  func(c *nodespec.Config) { c.FormatDuration = nodespec.Duration(time.Second) },
			setup:   partitioned,
			request: func(ctx context.Context, p *process) error { return p.format(ctx) },
			blocked: []blocked{remains("The disk structure is corrupted and unreadable."), remains("it contains data (NTFS) and was not changed"),
				remains("it contains data (unknown content at byte 16842754) and was not changed")}},
		{name: "format for users", tables: true, config: func(c *nodespec.Config) { c.UsersModify = true },
			setup:   partitioned,
			request: func(ctx context.Context, p *process) error { return p.format(ctx) }},
		{name: "resize", tables: true, grown: true, setup: grown, request: resize(2 * gib)},
		{name: "resize to the end of the disk", tables: true, grown: true, setup: grown, request: resize(0)},
		{name: "resize when Windows needs the table rewritten first", tables: true, grown: true,
			config: func(c *nodespec.Config) { c.GPTEnd = "stays" }, setup: grown, request: resize(0)},
		{name: "mount", setup: formatted,
			request: func(ctx context.Context, p *process) error { return p.mount(ctx) }},
		{name: "unmount", setup: mounted,
			request: func(ctx context.Context, p *process) error { return p.unmount(ctx) }},
		{name: "unmount a removed volume",
			setup:   func(m *machine, p *process) error { return errors.Join(mounted(m, p), m.Detach(1)) },
			request: func(ctx context.Context, p *process) error { return p.unmount(ctx) }},
		{name: "set a disk offline", tables: true, setup: mounted,
			request: func(ctx context.Context, p *process) error { return p.online(ctx, false) }},
		{name: "set a disk online", tables: true, arrives: true,
			config: func(c *nodespec.Config) { c.VolumeArrivalDelay = nodespec.Duration(300 * time.Millisecond) },
			setup: func(m *machine, p *process) error {
				return errors.Join(mounted(m, p), steps(func(ctx context.Context) error { return p.online(ctx, false) }))
			},
			request: func(ctx context.Context, p *process) error { return p.online(ctx, true) }},

		{name: "make a disk read-only", tables: true, setup: mounted,
			request: func(ctx context.Context, p *process) error { return p.readOnly(ctx, true) }},
		{name: "make a disk writable", tables: true,
			setup: func(m *machine, p *process) error {
				return errors.Join(mounted(m, p), steps(func(ctx context.Context) error { return p.readOnly(ctx, true) }))
			},
			request: func(ctx context.Context, p *process) error { return p.readOnly(ctx, false) }},
		{name: "rescan", setup: func(m *machine, p *process) error {
			return errors.Join(grown(m, p), ignore(m.Attach(nodespec.Disk{ID: "waits", Size: gib})))
		}, request: func(ctx context.Context, p *process) error {
			err := ignore(p.disk.Rescan(ctx, &disk.RescanRequest{}))
			p.m.clock.Advance(time.Second) // the disk arrives after the scan
			return err
		}},

		{name: "map a share with a link", setup: func(_ *machine, p *process) error {
			return p.mkdir(context.Background(), staged[:len(staged)-len(`\globalmount`)])
		},
			request: func(ctx context.Context, p *process) error { return p.mapShare(ctx, staged) },
			blocked: []blocked{leftover("a directory", staged)}},
		{name: "map a share", request: func(ctx context.Context, p *process) error { return p.mapShare(ctx, "") }},
		{name: "map a share again after its mapping broke",
			setup: func(m *machine, p *process) error {
				return errors.Join(p.mapShare(context.Background(), ""), m.SetSMBMappingStatus(share, "disconnected"))
			},
			request: func(ctx context.Context, p *process) error { return p.mapShare(ctx, "") }},
		{name: "remove a mapping", setup: func(_ *machine, p *process) error { return p.mapShare(context.Background(), "") },
			request: func(ctx context.Context, p *process) error { return p.unmapShare(ctx) }},

		{name: "add a target portal", config: initiator,
			request: func(ctx context.Context, p *process) error { return p.addPortal(ctx) }},
		{name: "connect a target", config: initiator, arrives: true,
			setup:   func(_ *machine, p *process) error { return p.addPortal(context.Background()) },
			request: func(ctx context.Context, p *process) error { return p.connect(ctx) }},
		{name: "disconnect a target", config: initiator,
			setup:   func(_ *machine, p *process) error { return steps(p.addPortal, p.connect) },
			request: func(ctx context.Context, p *process) error { return p.disconnect(ctx) }},
		{name: "disconnect a target with a persistent login", config: persistent, arrives: true,
			setup:   func(_ *machine, p *process) error { return steps(p.addPortal, p.connect) },
			request: func(ctx context.Context, p *process) error { return p.disconnect(ctx) }},
		{name: "remove a target portal", config: initiator,
			setup: func(_ *machine, p *process) error { return p.addPortal(context.Background()) },
			request: func(ctx context.Context, p *process) error {
				return ignore(p.iscsi.RemoveTargetPortal(ctx, &iscsi.RemoveTargetPortalRequest{TargetPortal: portal}))
			},
			blocked: []blocked{{kind: hosterr.ErrNotFound, text: "target portal 192.0.2.10:3260 is not registered: not found", why: "the portal was removed already"}}},

		{name: "make directories", request: func(ctx context.Context, p *process) error { return p.mkdir(ctx, dir+`\a\b\c`) }},
		{name: "remove a tree", setup: tree,
			request: func(ctx context.Context, p *process) error { return p.rmdir(ctx, dir, true) }},
		{name: "empty a directory", setup: tree,
			request: func(ctx context.Context, p *process) error {
				return ignore(p.filesystem.RmdirContents(ctx, &filesystem.RmdirContentsRequest{Path: dir}))
			}},
		{name: "remove a mount point", setup: mounted,
			request: func(ctx context.Context, p *process) error { return p.rmdir(ctx, dir+`\mount`, false) },
			blocked: []blocked{{kind: hosterr.ErrNotFound, text: "The system cannot find the file specified.", why: "the directory was removed already, and without force a missing directory is an error"}}},
		{name: "make a symbolic link", setup: func(_ *machine, p *process) error { return p.workDir(context.Background()) },
			request: func(ctx context.Context, p *process) error { return p.link(ctx, dir+`\mount`, dir+`\link`) },
			blocked: []blocked{leftover("a directory", dir+`\link`)}},
		{name: "make a symbolic link without a target", setup: func(_ *machine, p *process) error { return p.workDir(context.Background()) },
			request: func(ctx context.Context, p *process) error { return p.link(ctx, dir+`\nothing`, dir+`\link`) },
			blocked: []blocked{leftover("a file", dir+`\link`)}},

		{name: "start a service and its dependencies", config: func(c *nodespec.Config) {
			c.Services = []nodespec.Service{{Name: "Base", StartDelay: nodespec.Duration(time.Second)}, {Name: "Top", DependsOn: []string{"Base"}, StartDelay: nodespec.Duration(time.Second)}}
		}, arrives: true, request: func(ctx context.Context, p *process) error {
			return ignore(p.system.StartService(ctx, &system.StartServiceRequest{Name: "Top"}))
		}},
		{name: "stop a service and its dependents", config: func(c *nodespec.Config) {
			c.Services = []nodespec.Service{{Name: "Base", State: "running", StopDelay: nodespec.Duration(time.Second)}, {Name: "Top", State: "running", DependsOn: []string{"Base"}, StopDelay: nodespec.Duration(time.Second)}}
		}, arrives: true, request: func(ctx context.Context, p *process) error {
			return ignore(p.system.StopService(ctx, &system.StopServiceRequest{Name: "Base", Force: true}))
		}},
	}
}

// leftover is the error after a process died between making a file or directory
// and making it a link. Windows has no single call for both.
func leftover(what, path string) blocked {
	return blocked{
		kind: hosterr.ErrAlreadyExists, text: what + " that is not a symbolic link exists there: Cannot create a file when that file already exists.",
		why:   "an empty file or directory was left that was going to become the link; it could also belong to another program, so it is not touched",
		clear: func(ctx context.Context, p *process) error { return p.rmdir(ctx, path, false) },
	}
}

// remains is the error for what a format leaves that was cut off by the end of Windows, or of its
// process: the same bytes could be data that is damaged.
func remains(text string) blocked {
	return blocked{kind: hosterr.ErrFailedPrecondition, text: text, why: "a format that was cut off has left a part of an NTFS",
		clear: func(ctx context.Context, p *process) error {
			ids, err := p.disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
			if err != nil {
				return err
			}
			if _, err := p.disk.(*disk.Disk).Clear(ctx, 1, diskapi.Clearing{Identity: ids.DiskIDs[1].SerialNumber}); err != nil {
				return err
			}
			return errors.Join(p.partition(ctx), p.m.find(ctx))
		}}
}

// tree fills dir with files, directories and links for a removal.
func tree(m *machine, p *process) error {
	err := steps(
		func(ctx context.Context) error { return p.mkdir(ctx, dir+`\a\b`) },
		func(ctx context.Context) error { return p.mkdir(ctx, dir+`\c`) },
		func(ctx context.Context) error { return p.link(ctx, dir+`\a`, dir+`\c\link`) },
	)
	return errors.Join(err, m.file(dir+`\a\file`, 0), m.file(dir+`\a\b\read only`, win32.FILE_ATTRIBUTE_READONLY))
}
