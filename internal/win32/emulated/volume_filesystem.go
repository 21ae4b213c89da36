package emulated

import (
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// detect reads the boot sector and updates fs, fsid and tree. The bytes alone
// decide which file system the volume has, whatever wrote them.
func (v *volume) detect(t *kernel.Tx) {
	var b [bootsector.Size]byte
	var fs bootsector.FileSystem
	ok := false
	if _, err := v.ReadAt(b[:], 0); err == nil {
		fs, ok = bootsector.Recognize(b[:])
	}
	// A file system does not mount if it claims more than the volume's size, or a
	// sector size other than the disk's (general knowledge).
	if !ok || fs.BytesPerSector != v.sector() || fs.Sectors > v.length()/uint64(fs.BytesPerSector) {
		v.forget()
		return
	}
	if v.tree != nil && fs.Serial == v.fs.Serial && fs.Kind == v.fs.Kind {
		v.fs = fs
		return
	}
	var record [4]byte // the first one of the master file table
	if fs.Kind == bootsector.NTFS {
		if _, err := v.ReadAt(record[:], int64(fs.MFT)); err != nil || string(record[:]) != "FILE" {
			v.forget()
			v.corrupt = true
			return
		}
	}
	v.forget()
	v.fs = fs
	v.fsid = fmt.Sprintf("%s-%x-%x", v.Disk, v.extents[0].off, fs.Serial)
	if v.tree = v.n.trees[v.fsid]; v.tree != nil {
		return
	}
	// The file system was not created here: the node does not know its files, so
	// it starts empty.
	v.tree = filetree.New(v.files(t))
	fsid := v.fsid
	v.n.trees[fsid] = v.tree
	t.OnRollback(func() {
		delete(v.n.trees, fsid)
		v.forget()
	})
}

// forget makes the next use of the volume detect its file system.
func (v *volume) forget() {
	v.fs, v.fsid, v.tree, v.corrupt = bootsector.FileSystem{}, "", nil, false
}

// mounted reports whether v has a file system that Windows recognizes.
func (v *volume) mounted(t *kernel.Tx) bool {
	v.detect(t)
	return v.tree != nil
}

// ready returns the error for using the file system of a volume that is removed,
// offline or locked.
func (v *volume) ready() error {
	switch {
	case v.gone:
		// Source: document, "Handling an IRP_MN_SURPRISE_REMOVAL Request", new requests fail;
		// the number is inference.
		return win32.ERROR_NO_SUCH_DEVICE
	case v.offline:
		// Source: document, IOCTL_VOLUME_OFFLINE; Windows printed 21 (rufus issues 386, 2630).
		return win32.ERROR_NOT_READY
	case v.formatting != nil:
		return win32.ERROR_ACCESS_DENIED // Source: code, fastfat create.c, of a locked volume
	}
	return nil
}

// metadata returns the size of a new file system's own data in bytes.
func (v *volume) metadata() uint64 {
	return min(16<<20, uint64(v.fs.BytesPerCluster)*v.fs.Clusters/16)
}

// free returns the free space of the file system in bytes.
func (v *volume) free() uint64 {
	c := uint64(v.fs.BytesPerCluster)
	used := v.metadata() + allocated(v.tree.Root(), c)
	total := v.fs.Clusters * c
	return (total - min(used, total)) / c * c
}

// allocated returns the space used by the files in dir, in bytes.
func allocated(dir *filetree.Entry, cluster uint64) uint64 {
	n := uint64(0)
	for e, at, ok := dir.Next(filetree.Cursor{}); ok; e, at, ok = dir.Next(at) {
		n += (uint64(e.Size()) + cluster - 1) / cluster * cluster
		if e.IsDir() {
			n += allocated(e, cluster)
		}
	}
	return n
}

// files returns the receiver for changes of v's file tree. Its keys are below the
// file system's own prefix.
func (v *volume) files(t *kernel.Tx) fileChanges { return fileChanges{t, filePrefix(v.fsid), v} }

// fileChanges implements filetree.Changes.
type fileChanges struct {
	tx     *kernel.Tx
	prefix string
	vol    *volume // nil if nothing is cached
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
