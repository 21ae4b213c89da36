package volume

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// lock is FSCTL_LOCK_VOLUME. It fails with ERROR_ACCESS_DENIED while a file of the volume
// or another handle with access to its data is open, and flushes the volume (Microsoft:
// FSCTL_LOCK_VOLUME; code: WSL disk.cpp).
func (v *Volume) lock(h *kernel.DeviceHandle) error {
	if v.OfflineNow {
		// Source: document, winioctl.h and IOCTL_VOLUME_OFFLINE.
		return win32.ERROR_NOT_READY
	}
	if v.n.ownVolume(v) {
		return win32.ERROR_ACCESS_DENIED // Source: document, FSCTL_LOCK_VOLUME; the number is inference
	}
	if v.n.InUse(v, h) {
		return win32.ERROR_ACCESS_DENIED // Source: code, WSL disk.cpp: 5 while the volume is in use
	}
	if v.Exclusive() {
		return win32.ERROR_ACCESS_DENIED // Source: document, FSCTL_LOCK_VOLUME; the number is inference
	}
	v.locked, v.unflushed = true, nil
	h.OnClose = func() { v.locked = false }
	return nil
}

// dismount is FSCTL_DISMOUNT_VOLUME, which works even while files are open: their handles
// can only be closed. The next use mounts the file system again (Microsoft:
// FSCTL_DISMOUNT_VOLUME). The cache is not flushed; that is inference.
func (v *Volume) dismount(t *kernel.Tx) error {
	if v.OfflineNow {
		// Source: document, winioctl.h and IOCTL_VOLUME_OFFLINE.
		return win32.ERROR_NOT_READY
	}
	if v.n.ownVolume(v) {
		// Source: inference, by FSCTL_LOCK_VOLUME, which fails for such a volume.
		return win32.ERROR_ACCESS_DENIED
	}
	if v.FSID == "" {
		return nil
	}
	t.DeletePrefix(closingPrefix(v.FSID)) // its open files will not be closed
	t.OnCommit(func() {
		v.Tree.Dismount()
		v.Dismounts++
	})
	return nil
}

// cache notes that the record of a file changes and has not been flushed. The root
// directory of a new file system is not cached, nor are the files of a share.
func (v *Volume) cache(t *kernel.Tx, key string) {
	if v == nil || len(v.Ranges) == 0 || strings.HasSuffix(key, "/"+strconv.Itoa(int(filetree.RootID))) {
		return
	}
	if _, noted := v.unflushed[key]; noted {
		return
	}
	old, _ := v.n.Store.Get(key)
	t.OnCommit(func() {
		if v.unflushed == nil {
			v.unflushed = map[string][]byte{}
		}
		if _, noted := v.unflushed[key]; !noted {
			v.unflushed[key] = old
		}
	})
}

// loseCache makes the files of v what they were at the last flush. A disk that goes
// offline takes what is in the cache with it (docs/develop/contract/disks.md#online-offline-read-only).
func (n *Volumes) loseCache(t *kernel.Tx, v *Volume) {
	if len(v.unflushed) == 0 {
		return
	}
	n.Log.Warn("Lost what was written since the last flush", "volume", v.Name(), "files", len(v.unflushed))
	prefix := filePrefix(v.FSID)
	records := map[string][]byte{}
	for _, k := range n.Store.Keys(prefix) {
		records[k], _ = n.Store.Get(k)
	}
	for k, old := range v.unflushed {
		if old == nil {
			t.Delete(k)
			delete(records, k)
			continue
		}
		t.Put(k, json.RawMessage(old))
		records[k] = old
	}
	files := make(map[string][]byte, len(records))
	for k, r := range records {
		files[strings.TrimPrefix(k, prefix)] = r
	}
	tree, err := filetree.Load(files)
	if err != nil {
		t.Err = err
		return
	}
	t.OnCommit(func() { n.Trees[v.FSID] = tree })
}
