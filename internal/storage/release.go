package storage

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// lockLimit is how long Release tries to lock a volume, as WSL does.
const lockLimit = 5 * time.Second

// Release flushes, locks and dismounts the volumes of a disk that is about to go offline.
// Windows takes a disk offline even while it is in use, and what is in the cache is lost.
// The volumes stay locked until the caller calls done. Their formats are forgotten.
//
// A volume that is mounted in a folder or has a drive letter, and stays in use, is an
// error. Other programs may open a volume that is mounted nowhere, such as scanners; it
// is only flushed.
func Release(ctx context.Context, n *node.Node, disk uint32) (done func(), err error) {
	all, err := OnDisk(ctx, n, disk, 0, false)
	if err != nil {
		return nil, err
	}
	var held []*Volume
	done = func() {
		for _, v := range held {
			v.Close()
		}
	}
	for _, at := range all {
		v, err := release(ctx, n, at.ID)
		if v != nil {
			held = append(held, v)
		}
		if err != nil {
			done()
			return nil, err
		}
	}
	FormatsEnd(n, disk)
	return done, nil
}

// release returns the locked volume, or nil if it is gone or cannot be locked.
func release(ctx context.Context, n *node.Node, id string) (*Volume, error) {
	v, err := OpenVolume(ctx, n, id, ReadWrite)
	if errors.Is(err, hosterr.ErrNotFound) || noCache(err) {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, hosterr.Wrap("open volume", hosterr.Quote(id), err)
	}
	err = v.Flush(ctx)
	if err == nil || noCache(err) {
		err = v.lock(ctx)
	}
	if err == nil || noCache(err) {
		return v, nil
	}
	defer v.Close()
	if ended := ctx.Err(); ended != nil {
		return nil, ended
	}
	if !win32.IsCode(err, win32.ERROR_ACCESS_DENIED) {
		return nil, hosterr.Wrap("lock volume", hosterr.Quote(id), err)
	}
	mounts, failed := n.API.VolumePathNames(id)
	if failed != nil {
		return nil, hosterr.Wrap("list the mount points of volume", hosterr.Quote(id), failed)
	}
	if len(mounts) > 0 {
		return nil, hosterr.WithHint("lock volume", hosterr.Quote(id),
			hosterr.Text(hosterr.ErrFailedPrecondition, "it is in use, and mounted at %s; the disk stays online", strings.Join(mounts, ", ")),
			"unmount it, or end the programs that use it, and try again")
	}
	n.Log.Warn("Taking a disk offline while its volume is in use", "volume", id)
	return nil, hosterr.Wrap("flush volume", hosterr.Quote(id), v.Flush(ctx))
}

// Folder is a folder at which the mount manager has a volume.
type Folder struct {
	Path   string
	Volume string // `\\?\Volume{…}\`
}

// Folders returns the folders of the volumes of a disk. Drive letters do not count: Windows
// may have assigned them by itself. The mount manager keeps a folder whose volume was
// unmounted while its disk was away.
func Folders(ctx context.Context, n *node.Node, disk uint32) (folders []Folder, err error) {
	all, err := OnDisk(ctx, n, disk, 0, false)
	if err != nil {
		return nil, err
	}
	for _, at := range all {
		some, err := MountFolders(n, at.ID)
		if err != nil {
			return nil, err
		}
		for _, folder := range some {
			folders = append(folders, Folder{folder, at.ID})
		}
	}
	return folders, nil
}

// MountFolders returns the folders in which a volume is mounted, and none for a volume that
// is gone.
func MountFolders(n *node.Node, id string) (folders []string, err error) {
	mounts, err := n.API.VolumePathNames(id)
	if err != nil && !win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND) {
		return nil, hosterr.Wrap("list the mount points of volume", hosterr.Quote(id), err)
	}
	for _, m := range mounts {
		if len(m) > len(`C:\`) {
			folders = append(folders, m)
		}
	}
	return folders, nil
}

// noCache reports whether err is that of a volume that has nothing to flush or lock: it is
// offline, write-protected, or without a file system that knows the call.
func noCache(err error) bool {
	return win32.IsCode(err, win32.ERROR_WRITE_PROTECT, win32.ERROR_NOT_READY, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED)
}

// lock locks and dismounts the volume. ERROR_ACCESS_DENIED means that it stays in use.
func (v *Volume) lock(ctx context.Context) error {
	once := device{node: v.node, h: v.h, noRetry: true}
	err := node.Poll(ctx, v.node.Clock, tryFor(lockLimit), func() (bool, error) {
		_, err := once.control(ctx, win32.FSCTL_LOCK_VOLUME, nil, nil)
		return !win32.IsCode(err, win32.ERROR_ACCESS_DENIED), err
	})
	if err != nil {
		return err
	}
	_, err = v.control(ctx, win32.FSCTL_DISMOUNT_VOLUME, nil, nil)
	return err
}
