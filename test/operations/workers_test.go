package operations_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// worker is a driver that uses a part of the node alone, and keeps track of what it
// has done there.
type worker interface {
	// next returns the next request.
	next(*rand.Rand) *request
	// check compares the node with what the worker knows.
	check(*view) error
	// save saves what the worker knows and returns a function that restores it.
	save() func()
	// partlyDone reports whether a request stopped after one of its steps.
	partlyDone(*view, *request) bool
	// images returns the disk images whose partition table must be valid.
	images(v *view, pending *request) []string
}

// request is a request that changes the node.
type request struct {
	name  string
	do    func(context.Context, *clients) error
	apply func() // updates what the worker knows
	once  bool   // fails when it is repeated
}

// view is the node after a kill.
type view struct {
	*clients
	ctx  context.Context
	node nodespec.State
}

func (v *view) exists(path string) (bool, error) {
	out, err := v.filesystem.PathExists(v.ctx, &filesystem.PathExistsRequest{Path: path})
	return err == nil && out.Exists, err
}

// isLink reports whether path is a link whose target exists.
func (v *view) isLink(path string) (bool, error) {
	out, err := v.filesystem.IsSymlink(v.ctx, &filesystem.IsSymlinkRequest{Path: path})
	return err == nil && out.IsSymlink, err
}

// same returns an error if got is not want.
func same[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

func workers() []worker {
	var all []worker
	for i := range diskWorkers {
		all = append(all, &diskWorker{n: i})
	}
	for i := range treeWorkers {
		all = append(all, &treeWorker{base: fmt.Sprintf(`%s\plugins\tree%d`, kubelet, i), paths: map[string]bool{}})
	}
	for i := range shareWorkers {
		all = append(all, &shareWorker{remote: fmt.Sprintf(`\\files%d.example.com\data`, i), dir: fmt.Sprintf(`%s\plugins\kubernetes.io\csi\smb%d`, kubelet, i)})
	}
	for i := range iscsiWorkers {
		all = append(all, &targetWorker{iqn: fmt.Sprintf("iqn.2003-01.org.example:%d", i), portal: &iscsi.TargetPortal{TargetAddress: fmt.Sprintf("10.0.0.%d", i+1), TargetPort: 3260}})
	}
	return append(all, &serviceWorker{})
}

// noImages is for workers without disks.
type noImages struct{}

func (noImages) images(*view, *request) []string { return nil }

// diskWorker takes one disk after the other through its life.
type diskWorker struct {
	n int
	diskKnown
}

type diskKnown struct {
	life, step                                  int
	attached, offline, parted, ntfs, dir, mount bool
	number                                      uint32
	volume                                      string
	size, length, fs                            uint64 // size of the disk, and the disk sizes that the volume and the file system were made for
	entries                                     int
}

func (w *diskWorker) save() func() {
	k := w.diskKnown
	return func() { w.diskKnown = k }
}

func (w *diskWorker) id() string     { return fmt.Sprintf("worker-%d-%d", w.n, w.life) }
func (w *diskWorker) target() string { return fmt.Sprintf(`%s\plugins\disk%d`, kubelet, w.n) }

func (w *diskWorker) next(*rand.Rand) *request {
	var number uint32
	var id string
	steps := []request{
		{name: "attach", once: true, do: func(ctx context.Context, c *clients) error {
			out, err := c.control.AttachDisk(ctx, nodespec.Disk{Size: 128 * mib, ID: w.id(), Serial: w.id()})
			number = out.Number
			return err
		}, apply: func() { w.attached, w.number, w.size, w.offline = true, number, 128*mib, true }}, // the SAN policy
		{name: "Rescan", do: w.await, apply: func() {}},
		{name: "SetDiskState online", do: w.setOnline(true), apply: func() { w.offline = false }},
		{name: "PartitionDisk", do: func(ctx context.Context, c *clients) error {
			return ignore(c.disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: w.number}))
		}, apply: func() { w.parted, w.length = true, w.size }},
		{name: "ListVolumesOnDisk", do: func(ctx context.Context, c *clients) error {
			out, err := c.volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: w.number})
			if err == nil && len(out.VolumeIDs) != 1 {
				return fmt.Errorf("the partitioned disk has the volumes %q, want one", out.VolumeIDs)
			}
			if err == nil {
				id = out.VolumeIDs[0]
			}
			return err
		}, apply: func() { w.volume = id }},
		{name: "FormatVolume", do: func(ctx context.Context, c *clients) error {
			return ignore(c.volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: w.volume}))
		}, apply: func() { w.ntfs, w.fs = true, w.length }},
		{name: "Mkdir", do: w.mkdir(""), apply: func() { w.dir = true }},
		{name: "MountVolume", do: w.mountVolume, apply: func() { w.mount = true }},
		{name: "Mkdir", do: w.mkdir(`\a`), apply: func() { w.entries++ }},
		{name: "Mkdir", do: w.mkdir(`\b`), apply: func() { w.entries++ }},
		{name: "grow", once: true, do: func(ctx context.Context, c *clients) error {
			return c.control.GrowDisk(ctx, w.number, 256*mib)
		}, apply: func() { w.size = 256 * mib }},
		{name: "ResizeVolume", do: func(ctx context.Context, c *clients) error {
			return ignore(c.volume.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: w.volume}))
		}, apply: func() { w.length, w.fs = w.size, w.size }},
		{name: "UnmountVolume", do: w.unmountVolume, apply: func() { w.mount = false }},
		{name: "SetDiskState offline", do: w.setOnline(false), apply: func() { w.offline = true }},
		{name: "SetDiskState online", do: w.setOnline(true), apply: func() { w.offline = false }},
		{name: "MountVolume", do: w.mountVolume, apply: func() { w.mount = true }},
		{name: "UnmountVolume", do: w.unmountVolume, apply: func() { w.mount = false }},
		{name: "Rmdir", once: true, do: func(ctx context.Context, c *clients) error {
			return ignore(c.filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: w.target()}))
		}, apply: func() { w.dir = false }},
		{name: "detach", once: true, do: func(ctx context.Context, c *clients) error {
			return c.control.DetachDisk(ctx, w.number)
		}, apply: func() { w.diskKnown = diskKnown{life: w.life, step: w.step} }},
	}
	if w.step == len(steps) {
		w.diskKnown = diskKnown{life: w.life + 1}
	}
	q := steps[w.step]
	apply := q.apply
	q.apply = func() { apply(); w.step++ }
	return &q
}

// await rescans until the disk is listed.
func (w *diskWorker) await(ctx context.Context, c *clients) error {
	for {
		if err := ignore(c.disk.Rescan(ctx, &disk.RescanRequest{})); err != nil {
			return err
		}
		ids, err := c.disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
		if err != nil || ids.DiskIDs[w.number] != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func (w *diskWorker) mkdir(name string) func(context.Context, *clients) error {
	return func(ctx context.Context, c *clients) error {
		return ignore(c.filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: w.target() + name}))
	}
}

func (w *diskWorker) mountVolume(ctx context.Context, c *clients) error {
	return ignore(c.volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: w.volume, TargetPath: w.target()}))
}

func (w *diskWorker) unmountVolume(ctx context.Context, c *clients) error {
	return ignore(c.volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: w.volume, TargetPath: w.target()}))
}

func (w *diskWorker) setOnline(online bool) func(context.Context, *clients) error {
	return func(ctx context.Context, c *clients) error {
		return ignore(c.disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: w.number, IsOnline: online}))
	}
}

// find returns the worker's disk and its volumes, or nil.
func (w *diskWorker) find(v *view) (d *nodespec.DiskInfo, volumes []nodespec.VolumeInfo) {
	for _, d := range v.node.Disks {
		if d.ID != w.id() {
			continue
		}
		for _, x := range v.node.Volumes {
			if x.Disks[0] == d.Number {
				volumes = append(volumes, x)
			}
		}
		return &d, volumes
	}
	return nil, nil
}

// about reports whether n is a size that fits into room bytes with little unused space.
func about(n, room uint64) bool { return n <= room && n+34*mib > room }

func (w *diskWorker) check(v *view) error {
	d, volumes := w.find(v)
	err := same(w.id()+" is attached", d != nil, w.attached)
	there, existsErr := v.exists(w.target())
	if err = errors.Join(err, existsErr, same(w.target()+" exists", there, w.dir)); err != nil || d == nil {
		return err
	}
	// The worker does not know the number if the attach call got no response.
	if w.number == 0 {
		w.number = d.Number
	}
	style := "RAW"
	if w.parted {
		style = "GPT"
	}
	count := 0
	if w.parted && !w.offline {
		count = 1
	}
	err = errors.Join(same("number of "+w.id(), d.Number, w.number), same("bytes of "+w.id(), uint64(d.Size), w.size), same("table of "+w.id(), d.Style, style),
		same(w.id()+" is online", d.Online, !w.offline), same("volumes of "+w.id(), len(volumes), count))
	if err != nil || count == 0 {
		return err
	}
	x := volumes[0]
	if w.volume != "" {
		err = same("volume of "+w.id(), x.ID, w.volume)
	}
	ntfs, mounts := "", 0
	if w.ntfs {
		ntfs = "NTFS"
	}
	if w.mount {
		mounts = 1
	}
	err = errors.Join(err, same("the volume arrived", x.Arrived, true), same("file system of "+w.id(), x.FileSystem, ntfs), same("mounts of "+w.id(), len(x.MountedAt), mounts))
	if !about(uint64(x.Size), w.length) {
		err = errors.Join(err, fmt.Errorf("the volume of %s has %d bytes, want those of %d", w.id(), x.Size, w.length))
	}
	if err != nil || !w.ntfs {
		return err
	}
	stats, err := v.clients.volume.GetVolumeStats(v.ctx, &volume.GetVolumeStatsRequest{VolumeID: x.ID})
	if err == nil && !about(uint64(stats.TotalBytes), w.fs) {
		err = fmt.Errorf("the file system of %s has %d bytes, want those of %d", w.id(), stats.TotalBytes, w.fs)
	}
	return errors.Join(err, same("files of "+w.id(), x.Entries, 1+w.entries))
}

func (w *diskWorker) partlyDone(v *view, q *request) bool {
	d, volumes := w.find(v)
	switch {
	case d == nil:
		return false
	case q.name == "PartitionDisk":
		return d.Style == "GPT" && len(volumes) == 0 // a table without a partition
	case q.name == "ResizeVolume":
		return len(volumes) == 1 && about(uint64(volumes[0].Size), w.size) // the partition grew, but not the file system
	}
	return false
}

// images returns the disk's image, unless the disk has grown since its table was written.
func (w *diskWorker) images(v *view, pending *request) []string {
	d, _ := w.find(v)
	if d == nil || d.Style != "GPT" || w.size != w.length || pending != nil && (pending.name == "grow" || pending.name == "ResizeVolume") {
		return nil
	}
	return []string{d.Image}
}

// treeWorker makes and removes directories and links.
type treeWorker struct {
	noImages
	base  string
	paths map[string]bool // names below base that exist
	left  bool            // an unfinished link is left at \link
}

var treeNames = []string{"", `\a`, `\a\b`, `\a\b\c`, `\d`, `\link`}

func (w *treeWorker) save() func() {
	paths := maps.Clone(w.paths)
	return func() { w.paths = paths }
}

func (w *treeWorker) next(r *rand.Rand) *request {
	rmdir := func(name string, force bool) *request {
		q := &request{name: "Rmdir", once: !force, do: func(ctx context.Context, c *clients) error {
			return ignore(c.filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: w.base + name, Force: force}))
		}, apply: func() { w.gone(name) }}
		if force {
			q.name = "Rmdir with force"
		}
		return q
	}
	mkdir := func(names ...string) *request {
		return &request{name: "Mkdir", do: func(ctx context.Context, c *clients) error {
			return ignore(c.filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: w.base + names[len(names)-1]}))
		}, apply: func() {
			for _, n := range names {
				w.paths[n] = true
			}
		}}
	}
	switch n := r.IntN(10); {
	case !w.paths[""] || n < 2:
		return mkdir("", `\a`, `\a\b`, `\a\b\c`)
	case !w.paths[`\d`]:
		return mkdir("", `\d`)
	case !w.paths[`\link`]:
		return &request{name: "CreateSymlink", do: func(ctx context.Context, c *clients) error {
			if w.left {
				if err := rmdir(`\link`, true).do(ctx, c); err != nil {
					return err
				}
			}
			return ignore(c.filesystem.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: w.base + `\d`, TargetPath: w.base + `\link`}))
		}, apply: func() { w.paths[`\link`] = true }}
	case n < 5:
		return rmdir(`\link`, false)
	case n < 7:
		return rmdir(`\a`, true)
	case n < 9:
		return &request{name: "RmdirContents", do: func(ctx context.Context, c *clients) error {
			return ignore(c.filesystem.RmdirContents(ctx, &filesystem.RmdirContentsRequest{Path: w.base}))
		}, apply: func() { w.gone(`\`) }}
	}
	return rmdir("", true)
}

// gone removes the names with a prefix from paths.
func (w *treeWorker) gone(prefix string) {
	for name := range w.paths {
		if strings.HasPrefix(name, prefix) {
			delete(w.paths, name)
		}
	}
}

// found returns the names that exist.
func (w *treeWorker) found(v *view) (map[string]bool, error) {
	found := map[string]bool{}
	w.left = false
	for _, name := range treeNames {
		there, err := v.exists(w.base + name)
		if err != nil {
			return nil, err
		}
		if there {
			found[name] = true
		}
	}
	if found[`\link`] && found[`\d`] {
		link, err := v.isLink(w.base + `\link`)
		if err != nil {
			return nil, err
		}
		w.left = !link
	}
	return found, nil
}

func (w *treeWorker) check(v *view) error {
	found, err := w.found(v)
	if err != nil {
		return err
	}
	err = same(w.base+`\link is unfinished`, w.left, false)
	for _, name := range treeNames {
		err = errors.Join(err, same(w.base+name+" exists", found[name], w.paths[name]))
	}
	return err
}

// partlyDone accepts any state between those before and after, and an unfinished link.
func (w *treeWorker) partlyDone(v *view, q *request) bool {
	found, err := w.found(v)
	if err != nil {
		return false
	}
	before := maps.Clone(w.paths)
	defer w.save()()
	q.apply()
	after := w.paths
	for _, name := range treeNames {
		if before[name] == after[name] && found[name] != before[name] {
			return false
		}
	}
	return !w.left || q.name == "CreateSymlink"
}

// shareWorker maps a share and links to it.
type shareWorker struct {
	noImages
	remote, dir string
	shareKnown
}

type shareKnown struct {
	step               int
	made, mapped, link bool
	left               bool
}

func (w *shareWorker) save() func() {
	k := w.shareKnown
	return func() { w.shareKnown = k }
}

func (w *shareWorker) at() string { return w.dir + `\globalmount` }

func (w *shareWorker) next(*rand.Rand) *request {
	mapping := func(ctx context.Context, c *clients) error {
		if w.left {
			if err := ignore(c.filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: w.at(), Force: true})); err != nil {
				return err
			}
		}
		return ignore(c.smb.NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: w.remote, LocalPath: w.at(), Username: "csi", Password: "csi"}))
	}
	steps := []request{
		{name: "Mkdir", do: func(ctx context.Context, c *clients) error {
			return ignore(c.filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: w.dir}))
		}, apply: func() { w.made = true }},
		{name: "NewSmbGlobalMapping", do: mapping, apply: func() { w.mapped, w.link, w.left = true, true, false }},
		{name: "NewSmbGlobalMapping", do: mapping, apply: func() { w.left = false }},
		{name: "Rmdir", once: true, do: func(ctx context.Context, c *clients) error {
			return ignore(c.filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: w.at()}))
		}, apply: func() { w.link = false }},
		{name: "RemoveSmbGlobalMapping", do: func(ctx context.Context, c *clients) error {
			return ignore(c.smb.RemoveSMBGlobalMapping(ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: w.remote}))
		}, apply: func() { w.mapped, w.step = false, 0 }}, // keeps the directory
	}
	q := steps[w.step]
	apply := q.apply
	q.apply = func() { apply(); w.step++ }
	return &q
}

func (w *shareWorker) found(v *view) (mapped, link, left bool, err error) {
	mapped = slices.ContainsFunc(v.node.SMBMappings, func(m nodespec.SMBMappingInfo) bool {
		return strings.EqualFold(m.Remote, w.remote) && m.Status == "ok" && m.User == "csi"
	})
	there, err := v.exists(w.at())
	if err == nil && there && mapped {
		link, err = v.isLink(w.at())
		return mapped, link, !link, err
	}
	return mapped, there, false, err
}

func (w *shareWorker) check(v *view) error {
	mapped, link, left, err := w.found(v)
	made, existsErr := v.exists(w.dir)
	return errors.Join(err, existsErr, same(w.remote+" is mapped", mapped, w.mapped), same(w.at()+" is a link", link, w.link), same(w.at()+" is unfinished", left, false),
		same(w.dir+" exists", made, w.made))
}

// partlyDone accepts a mapping without its link.
func (w *shareWorker) partlyDone(v *view, q *request) bool {
	mapped, link, left, err := w.found(v)
	w.left = left
	return err == nil && q.name == "NewSmbGlobalMapping" && mapped && !link
}

// targetWorker connects to a target and disconnects from it.
type targetWorker struct {
	noImages
	iqn    string
	portal *iscsi.TargetPortal
	targetKnown
}

type targetKnown struct {
	step                  int
	registered, connected bool
}

func (w *targetWorker) save() func() {
	k := w.targetKnown
	return func() { w.targetKnown = k }
}

func (w *targetWorker) next(*rand.Rand) *request {
	steps := []request{
		{name: "AddTargetPortal", do: func(ctx context.Context, c *clients) error {
			return ignore(c.iscsi.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: w.portal}))
		}, apply: func() { w.registered = true }},
		{name: "ConnectTarget", do: func(ctx context.Context, c *clients) error {
			return ignore(c.iscsi.ConnectTarget(ctx, &iscsi.ConnectTargetRequest{TargetPortal: w.portal, IQN: w.iqn}))
		}, apply: func() { w.connected = true }},
		{name: "DisconnectTarget", do: func(ctx context.Context, c *clients) error {
			return ignore(c.iscsi.DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: w.portal, IQN: w.iqn}))
		}, apply: func() { w.connected = false }},
		{name: "RemoveTargetPortal", once: true, do: func(ctx context.Context, c *clients) error {
			return ignore(c.iscsi.RemoveTargetPortal(ctx, &iscsi.RemoveTargetPortalRequest{TargetPortal: w.portal}))
		}, apply: func() { w.targetKnown = targetKnown{step: -1} }},
	}
	q := steps[w.step]
	apply := q.apply
	q.apply = func() { apply(); w.step++ }
	return &q
}

func (w *targetWorker) check(v *view) error {
	portal := fmt.Sprintf("%s:%d", w.portal.TargetAddress, w.portal.TargetPort)
	err := same(portal+" is registered", slices.ContainsFunc(v.node.ISCSIPortals, func(p nodespec.ISCSIPortal) bool { return p.String() == portal }), w.registered)
	for _, t := range v.node.ISCSITargets {
		if t.IQN != w.iqn {
			continue
		}
		disks := 0
		if w.connected {
			disks = 2
		}
		return errors.Join(err, same(w.iqn+" is connected", t.Session != "", w.connected), same("disks of "+w.iqn, len(t.Disks), disks))
	}
	return errors.Join(err, errors.New("the node has no target "+w.iqn))
}

func (w *targetWorker) partlyDone(*view, *request) bool { return false }

// serviceWorker starts a service and stops it.
type serviceWorker struct {
	noImages
	runs bool
}

func (w *serviceWorker) save() func() {
	runs := w.runs
	return func() { w.runs = runs }
}

func (w *serviceWorker) next(*rand.Rand) *request {
	if w.runs {
		return &request{name: "StopService", do: func(ctx context.Context, c *clients) error {
			return ignore(c.system.StopService(ctx, &system.StopServiceRequest{Name: "Worker"}))
		}, apply: func() { w.runs = false }}
	}
	return &request{name: "StartService", do: func(ctx context.Context, c *clients) error {
		return ignore(c.system.StartService(ctx, &system.StartServiceRequest{Name: "Worker"}))
	}, apply: func() { w.runs = true }}
}

func (w *serviceWorker) check(v *view) error {
	status := "stopped"
	if w.runs {
		status = "running"
	}
	for _, s := range v.node.Services {
		if s.Name == "Worker" {
			return same("the service", s.Status, status)
		}
	}
	return errors.New("the node has no service Worker")
}

func (w *serviceWorker) partlyDone(*view, *request) bool { return false }
