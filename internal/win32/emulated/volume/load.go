package volume

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Load reads what is stored of volumes and their files.
func (n *Volumes) Load() error {
	for _, k := range n.Store.Keys("volume/") {
		var r Record
		if err := n.Store.Read(k, &r); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		n.known[r.identity()] = r
		if len(r.Extents) > 0 {
			n.spanned = append(n.spanned, r)
		}
	}
	return errors.Join(n.loadMounts(), n.loadTrees())
}

// Settle makes every volume arrive at once, as they have all arrived when a node
// starts. WMI knows them too.
func (n *Volumes) Settle() {
	for _, v := range n.List {
		v.arrives, v.cached = n.Now(), n.Now()
	}
}

// Resume does what was under way when the last process ended: it deletes the files that
// were marked for that, and goes on with formats.
func (n *Volumes) Resume() error {
	if err := n.Transact(n.finishDeletions); err != nil {
		return n.Cause(err)
	}
	return n.loadFormats()
}

// loadTrees loads the file trees from their records.
func (n *Volumes) loadTrees() error {
	records := map[string]map[string][]byte{}
	for _, k := range n.Store.Keys("file/") {
		fsid, key, ok := strings.Cut(strings.TrimPrefix(k, "file/"), "/")
		if !ok {
			return fmt.Errorf("%s: not the key of a file", k)
		}
		if records[fsid] == nil {
			records[fsid] = map[string][]byte{}
		}
		records[fsid][key], _ = n.Store.Get(k)
	}
	for fsid, r := range records {
		tree, err := filetree.Load(r)
		if err != nil {
			return fmt.Errorf("file system %s: %w", fsid, err)
		}
		n.Trees[fsid] = tree
	}
	return nil
}

// closingPrefix returns the prefix of the keys of a file system's files that are
// marked for deletion.
func closingPrefix(fsid string) string { return "closing/" + fsid + "/" }

func ClosingKey(fsid string, id filetree.ID) string {
	return closingPrefix(fsid) + strconv.FormatUint(uint64(id), 10)
}

// finishDeletions deletes the files marked for deletion, as Windows does when the
// process with the handles ends.
func (n *Volumes) finishDeletions(t *kernel.Tx) error {
	for _, k := range n.Store.Keys("closing/") {
		fsid, number, _ := strings.Cut(strings.TrimPrefix(k, "closing/"), "/")
		id, err := strconv.ParseUint(number, 10, 64)
		tree := n.Trees[fsid]
		if err != nil || tree == nil {
			return fmt.Errorf("%s: no such file", k)
		}
		tree.Remove(fileChanges{tx: t, prefix: filePrefix(fsid)}, filetree.ID(id))
		t.Delete(k)
	}
	return nil
}

// GrowAll gives every volume the length that its partition has now, as a restart of Windows does.
func (n *Volumes) GrowAll(t *kernel.Tx) {
	for _, v := range n.List {
		v.grow(t)
	}
}

// Restart gives every volume the state that it has after a restart of Windows.
func (n *Volumes) Restart() {
	for _, v := range n.List {
		v.OfflineNow, v.unflushed = v.Offline, nil // an orderly restart flushes
	}
	n.Settle()
}

// Show returns the volumes, and the folders at which they are mounted, sorted.
func (n *Volumes) Show() (volumes []nodespec.VolumeInfo, mounts []nodespec.MountInfo, err error) {
	err = n.Transact(func(t *kernel.Tx) error {
		for _, v := range n.List {
			info := nodespec.VolumeInfo{
				ID: v.Name(), Offset: nodespec.Size(v.Ranges[0].Off), Size: nodespec.Size(v.Size()), Arrived: v.visible(), MountedAt: n.pathNames(v.guid()),
			}
			for _, e := range v.Ranges {
				info.Disks = append(info.Disks, e.Disk.Number)
			}
			if v.Mounted(t) {
				info.FileSystem, info.Entries = string(v.FS.Kind), v.Tree.Len()
				info.RootSecurity = RootSecurity(v.Tree.Root())
			}
			volumes = append(volumes, info)
		}
		return nil
	})
	for _, m := range n.mounts {
		mounts = append(mounts, nodespec.MountInfo{Host: NameOf(win32.GUID(m.Host)), Path: m.Path, Volume: NameOf(win32.GUID(m.Volume))})
	}
	slices.SortFunc(mounts, func(a, b nodespec.MountInfo) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Path, b.Path))
	})
	return volumes, mounts, err
}

func NameOf(guid win32.GUID) string { return `\\?\Volume` + guid.String() + `\` }

// Interfaces implements [win32.Devices].
//
// Source: document, CM_Get_Device_Interface_ListW.
func (n *Volumes) Interfaces() (is []win32.Interface, err error) {
	err = n.Do(func(*kernel.Tx) error {
		for _, d := range n.disks.List {
			is = append(is, win32.Interface{Path: d.InterfacePath()})
		}
		return nil
	})
	return is, err
}

// PageFiles is the value that lists the page files of a running Windows.
const PageFiles = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\ExistingPageFiles`

// Registry returns a value of the registry, or nil.
func (n *Volumes) Registry(path string) []string {
	for p, text := range n.Config.Registry {
		if strings.EqualFold(p, path) {
			return slices.Clone(text)
		}
	}
	switch {
	case strings.EqualFold(path, PageFiles):
		return []string{`\??\C:\pagefile.sys`}
	case strings.EqualFold(path, systemPartition):
		return n.systemPartition()
	}
	return nil
}

// systemPartition is the value with the device of the partition from which Windows starts. It is
// that of installed systems; tools of Windows' setup read it.
const systemPartition = `SYSTEM\Setup\SystemPartition`

func (n *Volumes) systemPartition() []string {
	for _, v := range n.List {
		if d := v.Ranges[0].Disk; d.System && v.Ranges[0].Off == d.Table.Partitions[0].Offset && v.visible() {
			return []string{v.NTDevice()}
		}
	}
	return nil
}

// ownVolume reports whether v is the volume of Windows or has a page file.
func (n *Volumes) ownVolume(v *Volume) bool {
	for _, root := range n.pathNames(v.guid()) {
		for _, file := range append(n.Registry(PageFiles), `\??\C:\Windows`) {
			if len(root) == len(`C:\`) && strings.HasPrefix(strings.ToUpper(strings.TrimPrefix(file, `\??\`)), strings.ToUpper(root)) {
				return true
			}
		}
	}
	return false
}
