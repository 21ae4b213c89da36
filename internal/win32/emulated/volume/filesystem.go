package volume

import (
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// detect reads the boot sector and updates fs, fsid and tree. The bytes alone
// decide which file system the volume has, whatever wrote them.
func (v *Volume) detect(t *kernel.Tx) {
	var b [bootsector.Size]byte
	var fs bootsector.FileSystem
	ok := false
	if _, err := v.ReadAt(b[:], 0); err == nil {
		fs, ok = bootsector.Recognize(b[:])
	}
	// A file system does not mount if it claims more than the volume's size, or a
	// sector size other than the disk's (general knowledge).
	if !ok || fs.BytesPerSector != v.sector() || fs.Sectors > v.Size()/uint64(fs.BytesPerSector) {
		v.forget()
		return
	}
	if v.Tree != nil && fs.Serial == v.FS.Serial && fs.Kind == v.FS.Kind {
		v.FS = fs
		return
	}
	var record [4]byte // the first one of the master file table
	if fs.Kind == bootsector.NTFS {
		if _, err := v.ReadAt(record[:], int64(fs.MFT)); err != nil || string(record[:]) != "FILE" {
			v.forget()
			v.Corrupt = true
			return
		}
	}
	v.forget()
	v.FS = fs
	v.FSID = fmt.Sprintf("%s-%x-%x", v.Disk, v.Ranges[0].Off, fs.Serial)
	if v.Tree = v.n.Trees[v.FSID]; v.Tree != nil {
		return
	}
	// The file system was not created here: the node does not know its files, so
	// it starts empty.
	v.Tree = filetree.New(v.Changes(t))
	fsid := v.FSID
	v.n.Trees[fsid] = v.Tree
	t.OnRollback(func() {
		delete(v.n.Trees, fsid)
		v.forget()
	})
}

// forget makes the next use of the volume detect its file system.
func (v *Volume) forget() {
	v.FS, v.FSID, v.Tree, v.Corrupt = bootsector.FileSystem{}, "", nil, false
}

// Mounted reports whether v has a file system that Windows recognizes.
func (v *Volume) Mounted(t *kernel.Tx) bool {
	v.detect(t)
	return v.Tree != nil
}

// Ready returns the error for using the file system of a volume that is removed,
// offline or locked.
func (v *Volume) Ready() error {
	switch {
	case v.Gone:
		// Source: document, "Handling an IRP_MN_SURPRISE_REMOVAL Request", new requests fail;
		// the number is inference.
		return win32.ERROR_NO_SUCH_DEVICE
	case v.OfflineNow:
		// Source: document, IOCTL_VOLUME_OFFLINE; Windows printed 21 (rufus issues 386, 2630).
		return win32.ERROR_NOT_READY
	case v.formatting != nil:
		return win32.ERROR_ACCESS_DENIED // Source: code, fastfat create.c, of a locked volume
	}
	return nil
}

// metadata returns the size of a new file system's own data in bytes.
func (v *Volume) metadata() uint64 {
	return min(16<<20, uint64(v.FS.BytesPerCluster)*v.FS.Clusters/16)
}

// Free returns the free space of the file system in bytes.
func (v *Volume) Free() uint64 {
	c := uint64(v.FS.BytesPerCluster)
	used := v.metadata() + Allocated(v.Tree.Root(), c)
	total := v.FS.Clusters * c
	return (total - min(used, total)) / c * c
}

// Allocated returns the space used by the files in dir, in bytes.
func Allocated(dir *filetree.Entry, cluster uint64) uint64 {
	n := uint64(0)
	for e, at, ok := dir.Next(filetree.Cursor{}); ok; e, at, ok = dir.Next(at) {
		n += (uint64(e.Size()) + cluster - 1) / cluster * cluster
		if e.IsDir() {
			n += Allocated(e, cluster)
		}
	}
	return n
}

// Changes returns the receiver for changes of v's file tree. Its keys are below the
// file system's own prefix.
func (v *Volume) Changes(t *kernel.Tx) fileChanges { return fileChanges{t, filePrefix(v.FSID), v} }

// fileChanges implements filetree.Changes.
type fileChanges struct {
	tx     *kernel.Tx
	prefix string
	vol    *Volume // nil if nothing is cached
}

func (c fileChanges) Put(key string, v any) {
	c.vol.cache(c.tx, c.prefix+key)
	c.tx.Put(c.prefix+key, v)
}

func (c fileChanges) Delete(key string) {
	c.vol.cache(c.tx, c.prefix+key)
	c.tx.Delete(c.prefix + key)
}

func filePrefix(fsid string) string { return "file/" + fsid + "/" }

// RootSecurity returns the access control list of the root directory of a volume: that which
// Windows gives a new NTFS (docs/develop/contract/volumes.md#format), unless SetSecurity has
// replaced it.
func RootSecurity(root *filetree.Entry) []byte {
	if set := root.Security(); set != nil {
		return set
	}
	const both = win32.OBJECT_INHERIT_ACE | win32.CONTAINER_INHERIT_ACE
	const read = 0x001200A9       // FILE_GENERIC_READ | FILE_GENERIC_EXECUTE
	const fileAppendData = 0x0004 // also FILE_ADD_SUBDIRECTORY
	system, administrators := win32.SID{Authority: 5, Sub: []uint32{18}}, win32.SID{Authority: 5, Sub: []uint32{32, 544}}
	users, creator, everyone := win32.SID{Authority: 5, Sub: []uint32{32, 545}}, win32.SID{Authority: 3, Sub: []uint32{0}}, win32.SID{Authority: 1, Sub: []uint32{0}}
	return win32.EncodeDACL([]win32.ACE{
		{Flags: both, Mask: win32.FILE_ALL_ACCESS, SID: administrators},
		{Flags: both, Mask: win32.FILE_ALL_ACCESS, SID: system},
		{Flags: both | win32.INHERIT_ONLY_ACE, Mask: kernel.GenericAll, SID: creator},
		{Flags: both, Mask: read, SID: users},
		{Flags: win32.CONTAINER_INHERIT_ACE, Mask: fileAppendData, SID: users},
		{Flags: win32.CONTAINER_INHERIT_ACE | win32.INHERIT_ONLY_ACE, Mask: kernel.FileWriteData, SID: users},
		{Mask: read, SID: everyone},
	})
}

// OfShare returns what stands for a share, which has files but no device. fsid is that of
// its files.
func (n *Volumes) OfShare(share winpath.Share, remote, fsid string) *Volume {
	return &Volume{n: n, Share: share, Remote: remote, FSID: fsid, Tree: n.Trees[fsid]}
}

// MakeTree makes an empty file tree.
func (n *Volumes) MakeTree(t *kernel.Tx, fsid string) {
	v := &Volume{n: n, FSID: fsid}
	tree := filetree.New(v.Changes(t))
	t.OnCommit(func() { n.Trees[fsid] = tree })
}

// DropTree deletes a file tree.
func (n *Volumes) DropTree(t *kernel.Tx, fsid string) {
	t.DeletePrefix(filePrefix(fsid))
	t.OnCommit(func() { delete(n.Trees, fsid) })
}

// Leave makes the handles on a volume such that they can only be closed.
func (v *Volume) Leave(t *kernel.Tx) {
	t.DeletePrefix(closingPrefix(v.FSID))
	t.OnCommit(func() {
		v.Gone = true
		v.Tree.Dismount()
	})
}

// MakeDirectory creates a directory, with its parents.
func (v *Volume) MakeDirectory(t *kernel.Tx, path string) error {
	at := v.Tree.Root()
	for _, part := range strings.Split(strings.Trim(path, `\`), `\`) {
		next := at.Lookup(part)
		if next == nil {
			var err error
			if next, err = v.Tree.Create(v.Changes(t), at, part, win32.FILE_ATTRIBUTE_DIRECTORY); err != nil {
				return err
			}
		}
		at = next
	}
	return nil
}

// Exclusive reports whether a format or the holder of a lock has the volume for itself.
func (v *Volume) Exclusive() bool { return v.formatting != nil || v.locked }

// Flushed notes that everything on the volume is on its disk.
func (v *Volume) Flushed() { v.unflushed = nil }

// Kernel returns that of the node.
func (v *Volume) Kernel() *kernel.Kernel { return v.n.Kernel }
