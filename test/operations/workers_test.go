package operations_test

import (
	"context"
	"errors"
	"fmt"
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

// worker is a driver that uses a part of the node alone. It takes its steps again and again.
type worker struct {
	steps []step
	look  func(*view) (string, error) // what is there: words with "; " between them
	image func(*view) string          // of a disk whose partition table must be valid, or "". May be nil
	again func()                      // before the first step is taken again. May be nil

	at      int    // the step that is next
	have    string // what is there before it
	pending bool   // its request was made, and got no response
}

// step is a request that changes the node.
type step struct {
	name   string
	do     func(context.Context, *clients) error
	once   bool     // fails when it is repeated
	after  string   // what is there when it is done
	partly []string // what may be there when it stopped between two of its parts
	mixed  bool     // or any mix of what is there before and after
}

// done notes that the step is done.
func (w *worker) done() {
	w.have, w.pending = w.steps[w.at].after, false
	if w.at++; w.at == len(w.steps) {
		if w.at = 0; w.again != nil {
			w.again()
		}
	}
}

// partlyDone reports whether the step may have stopped where there is what was found.
func (w *worker) partlyDone(found string) bool {
	s := w.steps[w.at]
	if !s.mixed {
		return slices.Contains(s.partly, found)
	}
	before, after, words := strings.Split(w.have, "; "), strings.Split(s.after, "; "), strings.Split(found, "; ")
	for _, word := range slices.Concat(before, after, words) {
		if was, is := slices.Contains(before, word), slices.Contains(after, word); was == is && slices.Contains(words, word) != was {
			return false
		}
	}
	return true
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

func workers() []*worker {
	var all []*worker
	for i := range diskWorkers {
		all = append(all, diskWorker(i))
	}
	for i := range treeWorkers {
		all = append(all, treeWorker(fmt.Sprintf(`%s\plugins\tree%d`, kubelet, i)))
	}
	for i := range shareWorkers {
		all = append(all, shareWorker(fmt.Sprintf(`\\files%d.example.com\data`, i), fmt.Sprintf(`%s\plugins\kubernetes.io\csi\smb%d`, kubelet, i)))
	}
	for i := range iscsiWorkers {
		all = append(all, targetWorker(fmt.Sprintf("iqn.2003-01.org.example:%d", i), &iscsi.TargetPortal{TargetAddress: fmt.Sprintf("10.0.0.%d", i+1), TargetPort: 3260}))
	}
	return append(all, serviceWorker())
}

func makeDir(path string) func(context.Context, *clients) error {
	return func(ctx context.Context, c *clients) error {
		return ignore(c.filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: path}))
	}
}

func removeDir(path string, force bool) func(context.Context, *clients) error {
	return func(ctx context.Context, c *clients) error {
		return ignore(c.filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: path, Force: force}))
	}
}

// diskWorker takes one disk after the other through its life.
func diskWorker(n int) *worker {
	target := fmt.Sprintf(`%s\plugins\disk%d`, kubelet, n)
	life, number, id := 0, uint32(0), ""
	serial := func() string { return fmt.Sprintf("worker-%d-%d", n, life) }
	find := func(v *view) *nodespec.DiskInfo {
		if i := slices.IndexFunc(v.node.Disks, func(d nodespec.DiskInfo) bool { return d.ID == serial() }); i >= 0 {
			return &v.node.Disks[i]
		}
		return nil
	}
	setOnline := func(online bool) func(context.Context, *clients) error {
		return func(ctx context.Context, c *clients) error {
			return ignore(c.disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: online}))
		}
	}
	mount := func(ctx context.Context, c *clients) error {
		return ignore(c.volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: target}))
	}
	unmount := func(ctx context.Context, c *clients) error {
		return ignore(c.volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: target}))
	}
	const (
		small   = "online; disk of 128 MiB; GPT; volume of 128 MiB"
		ntfs    = small + "; NTFS of 128 MiB; "
		bigger  = "online; disk of 256 MiB; GPT; volume of 128 MiB; NTFS of 128 MiB; "
		half    = "online; disk of 256 MiB; GPT; volume of 256 MiB; NTFS of 128 MiB; "
		large   = "online; disk of 256 MiB; GPT; volume of 256 MiB; NTFS of 256 MiB; "
		mounted = "; mounted; directory"
	)
	w := &worker{again: func() { life, number, id = life+1, 0, "" }}
	w.steps = []step{
		{name: "attach", once: true, after: "offline; disk of 128 MiB; RAW", do: func(ctx context.Context, c *clients) error { // offline by the SAN policy
			out, err := c.control.AttachDisk(ctx, nodespec.Disk{Size: 128 * mib, ID: serial(), Serial: serial()})
			number = out.Number
			return err
		}},
		{name: "Rescan", after: "offline; disk of 128 MiB; RAW", do: func(ctx context.Context, c *clients) error {
			for { // until the disk is listed
				if err := ignore(c.disk.Rescan(ctx, &disk.RescanRequest{})); err != nil {
					return err
				}
				ids, err := c.disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
				if err != nil || ids.DiskIDs[number] != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
		}},
		{name: "SetDiskState online", after: "online; disk of 128 MiB; RAW", do: setOnline(true)},
		{name: "PartitionDisk", after: small, partly: []string{"online; disk of 128 MiB; GPT"}, do: func(ctx context.Context, c *clients) error {
			return ignore(c.disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}))
		}},
		{name: "ListVolumesOnDisk", after: small, do: func(ctx context.Context, c *clients) error {
			out, err := c.volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
			if err == nil && len(out.VolumeIDs) != 1 {
				return fmt.Errorf("the partitioned disk has the volumes %q, want one", out.VolumeIDs)
			}
			if err == nil {
				id = out.VolumeIDs[0]
			}
			return err
		}},
		{name: "FormatVolume", after: ntfs + "1 entries", do: func(ctx context.Context, c *clients) error {
			return ignore(c.volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id}))
		}},
		{name: "Mkdir", after: ntfs + "1 entries; directory", do: makeDir(target)},
		{name: "MountVolume", after: ntfs + "1 entries" + mounted, do: mount},
		{name: "Mkdir", after: ntfs + "2 entries" + mounted, do: makeDir(target + `\a`)},
		{name: "Mkdir", after: ntfs + "3 entries" + mounted, do: makeDir(target + `\b`)},
		{name: "grow", once: true, after: bigger + "3 entries" + mounted, do: func(ctx context.Context, c *clients) error {
			return c.control.GrowDisk(ctx, number, 256*mib)
		}},
		{name: "ResizeVolume", after: large + "3 entries" + mounted, partly: []string{half + "3 entries" + mounted}, do: func(ctx context.Context, c *clients) error {
			return ignore(c.volume.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: id}))
		}},
		{name: "UnmountVolume", after: large + "3 entries; directory", do: unmount},
		{name: "SetDiskState offline", after: "offline; disk of 256 MiB; GPT; directory", do: setOnline(false)},
		{name: "SetDiskState online", after: large + "3 entries; directory", do: setOnline(true)},
		{name: "MountVolume", after: large + "3 entries" + mounted, do: mount},
		{name: "UnmountVolume", after: large + "3 entries; directory", do: unmount},
		{name: "Rmdir", once: true, after: large + "3 entries", do: removeDir(target, false)},
		{name: "detach", once: true, do: func(ctx context.Context, c *clients) error { return c.control.DetachDisk(ctx, number) }},
	}
	// made returns for which size something was made that has a little less.
	made := func(n uint64) string {
		for _, size := range []uint64{128, 256} {
			if n <= size*mib && n+34*mib > size*mib {
				return fmt.Sprintf("%d MiB", size)
			}
		}
		return fmt.Sprintf("%d bytes", n)
	}
	w.look = func(v *view) (string, error) {
		var words []string
		if d := find(v); d != nil {
			if number == 0 {
				number = d.Number // the attach got no response
			}
			state := "offline"
			if d.Online {
				state = "online"
			}
			words = append(words, state, fmt.Sprintf("disk of %d MiB", d.Size/mib), d.Style)
			if d.Number != number {
				words = append(words, fmt.Sprintf("number %d instead of %d", d.Number, number))
			}
			for _, x := range v.node.Volumes {
				if x.Disks[0] != d.Number {
					continue
				}
				words = append(words, "volume of "+made(uint64(x.Size)))
				if id != "" && x.ID != id || !x.Arrived {
					words = append(words, fmt.Sprintf("%s instead of %s, arrived %t", x.ID, id, x.Arrived))
				}
				if x.FileSystem != "" {
					stats, err := v.clients.volume.GetVolumeStats(v.ctx, &volume.GetVolumeStatsRequest{VolumeID: x.ID})
					if err != nil {
						return "", err
					}
					words = append(words, x.FileSystem+" of "+made(uint64(stats.TotalBytes)), fmt.Sprintf("%d entries", x.Entries))
				}
				for range x.MountedAt {
					words = append(words, "mounted")
				}
			}
		}
		there, err := v.exists(target)
		if there {
			words = append(words, "directory")
		}
		return strings.Join(words, "; "), err
	}
	w.image = func(v *view) string {
		next := w.steps[w.at].name
		if d := find(v); d != nil && d.Style == "GPT" && next != "ResizeVolume" && !(next == "grow" && w.pending) {
			return d.Image
		}
		return "" // the disk may have grown since its table was written
	}
	return w
}

// treeWorker makes and removes directories and links.
func treeWorker(base string) *worker {
	names := []string{"", `\a`, `\a\b`, `\a\b\c`, `\d`, `\link`}
	state := func(names ...string) string { return "tree" + strings.Join(names, "; tree") }
	left := false // an unfinished link is at \link
	symlink := func(ctx context.Context, c *clients) error {
		if left {
			if err := removeDir(base+`\link`, true)(ctx, c); err != nil {
				return err
			}
		}
		return ignore(c.filesystem.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: base + `\d`, TargetPath: base + `\link`}))
	}
	full, unlinked := state(names...), state(names[:5]...)
	w := &worker{steps: []step{
		{name: "Mkdir", after: state(names[:4]...), mixed: true, do: makeDir(base + `\a\b\c`)},
		{name: "Mkdir", after: unlinked, do: makeDir(base + `\d`)},
		{name: "CreateSymlink", after: full, partly: []string{full + " unfinished"}, do: symlink},
		{name: "Rmdir", once: true, after: unlinked, do: removeDir(base+`\link`, false)},
		{name: "CreateSymlink", after: full, partly: []string{full + " unfinished"}, do: symlink},
		{name: "Rmdir with force", after: state("", `\d`, `\link`), mixed: true, do: removeDir(base+`\a`, true)},
		{name: "Mkdir", after: full, mixed: true, do: makeDir(base + `\a\b\c`)},
		{name: "RmdirContents", after: state(""), mixed: true, do: func(ctx context.Context, c *clients) error {
			return ignore(c.filesystem.RmdirContents(ctx, &filesystem.RmdirContentsRequest{Path: base}))
		}},
		{name: "Mkdir", after: state("", `\a`), do: makeDir(base + `\a`)},
		{name: "Rmdir with force", mixed: true, do: removeDir(base, true)},
	}}
	w.look = func(v *view) (string, error) {
		var words []string
		left = false
		for _, name := range names {
			there, err := v.exists(base + name)
			if err != nil {
				return "", err
			}
			if !there {
				continue
			}
			if name == `\link` && slices.Contains(words, `tree\d`) {
				link, err := v.isLink(base + name)
				if err != nil {
					return "", err
				}
				if left = !link; left {
					name += " unfinished"
				}
			}
			words = append(words, "tree"+name)
		}
		return strings.Join(words, "; "), nil
	}
	return w
}

// shareWorker maps a share and links to it.
func shareWorker(remote, dir string) *worker {
	at := dir + `\globalmount`
	left := false
	mapping := func(ctx context.Context, c *clients) error {
		if left {
			if err := removeDir(at, true)(ctx, c); err != nil {
				return err
			}
		}
		return ignore(c.smb.NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: remote, LocalPath: at, Username: "csi", Password: "csi"}))
	}
	const made, mapped = "directory; mapped", "directory; mapped; link"
	partly := []string{made, made + "; unfinished link"}
	return &worker{steps: []step{
		{name: "Mkdir", after: "directory", do: makeDir(dir)},
		{name: "NewSmbGlobalMapping", after: mapped, partly: partly, do: mapping},
		{name: "NewSmbGlobalMapping", after: mapped, partly: partly, do: mapping},
		{name: "Rmdir", once: true, after: made, do: removeDir(at, false)},
		{name: "RemoveSmbGlobalMapping", after: "directory", do: func(ctx context.Context, c *clients) error {
			return ignore(c.smb.RemoveSMBGlobalMapping(ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: remote}))
		}},
	}, look: func(v *view) (string, error) {
		var words []string
		made, err := v.exists(dir)
		if made {
			words = append(words, "directory")
		}
		for _, m := range v.node.SMBMappings {
			if strings.EqualFold(m.Remote, remote) && m.Status == "ok" && m.User == "csi" {
				words = append(words, "mapped")
			}
		}
		there, failed := v.exists(at)
		if err != nil || failed != nil || !there {
			left = false
			return strings.Join(words, "; "), errors.Join(err, failed)
		}
		link := true
		if slices.Contains(words, "mapped") {
			link, err = v.isLink(at)
		}
		if left = !link; left {
			words = append(words, "unfinished link")
		} else {
			words = append(words, "link")
		}
		return strings.Join(words, "; "), err
	}}
}

// targetWorker connects to a target and disconnects from it.
func targetWorker(iqn string, portal *iscsi.TargetPortal) *worker {
	return &worker{steps: []step{
		{name: "AddTargetPortal", after: "portal", do: func(ctx context.Context, c *clients) error {
			return ignore(c.iscsi.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal}))
		}},
		{name: "ConnectTarget", after: "portal; session; 2 disks", do: func(ctx context.Context, c *clients) error {
			return ignore(c.iscsi.ConnectTarget(ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: iqn}))
		}},
		{name: "DisconnectTarget", after: "portal", do: func(ctx context.Context, c *clients) error {
			return ignore(c.iscsi.DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: portal, IQN: iqn}))
		}},
		{name: "RemoveTargetPortal", once: true, do: func(ctx context.Context, c *clients) error {
			return ignore(c.iscsi.RemoveTargetPortal(ctx, &iscsi.RemoveTargetPortalRequest{TargetPortal: portal}))
		}},
	}, look: func(v *view) (string, error) {
		var words []string
		for _, p := range v.node.ISCSIPortals {
			if p.String() == fmt.Sprintf("%s:%d", portal.TargetAddress, portal.TargetPort) {
				words = append(words, "portal")
			}
		}
		for _, t := range v.node.ISCSITargets {
			if t.IQN == iqn && t.Session != "" {
				words = append(words, "session", fmt.Sprintf("%d disks", len(t.Disks)))
			}
		}
		return strings.Join(words, "; "), nil
	}}
}

// serviceWorker starts a service and stops it.
func serviceWorker() *worker {
	return &worker{have: "stopped", steps: []step{
		{name: "StartService", after: "running", do: func(ctx context.Context, c *clients) error {
			return ignore(c.system.StartService(ctx, &system.StartServiceRequest{Name: "Worker"}))
		}},
		{name: "StopService", after: "stopped", do: func(ctx context.Context, c *clients) error {
			return ignore(c.system.StopService(ctx, &system.StopServiceRequest{Name: "Worker"}))
		}},
	}, look: func(v *view) (string, error) {
		for _, s := range v.node.Services {
			if s.Name == "Worker" {
				return s.Status, nil
			}
		}
		return "no service", nil
	}}
}
