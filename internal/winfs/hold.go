package winfs

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Held is an open directory whose parent cannot be moved until Close. It is for Win32
// functions that take a path (SetVolumeMountPoint, DeleteVolumeMountPoint).
type Held struct {
	// Path is its path with links resolved and without trailing backslash:
	// `C:\var\lib\kubelet\…`, or `\\?\…` if that is too long for Win32.
	Path string
	// Link is set if the directory itself is a link or mount point.
	Link *Link

	o *op
	e entry
}

// Close releases the directory.
func (h *Held) Close() { h.e.close() }

// Mounted returns the volume that is mounted on the directory now, even if another
// directory has taken its path. It is "" if there is none.
func (h *Held) Mounted() (string, error) {
	link, _, err := h.o.link(h.e.h)
	return link.Volume, err
}

// Unmount removes the mount point, and leaves an empty directory. It succeeds if another
// program has unmounted the volume or removed the directory.
//
// DeleteVolumeMountPoint may fail for a volume that does not exist any more. Then the
// mount point is removed like any other link. What the mount manager has recorded of it stays,
// until the volume is mounted there again and unmounted, or an administrator runs mountvol /R.
func (h *Held) Unmount() error {
	err := h.o.n.API.DeleteMountPoint(h.Path + `\`)
	if !win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_INVALID_PARAMETER, win32.ERROR_NOT_A_REPARSE_POINT, win32.ERROR_ACCESS_DENIED) {
		return err
	}
	if h.Link == nil {
		return err
	}
	volume, linkErr := h.Mounted()
	switch {
	case linkErr != nil:
		return err
	case volume == "":
		return nil
	case volume != h.Link.Volume:
		return err // another volume is mounted now
	}
	if _, live := h.o.n.API.VolumeNameForMountPoint(volume); live == nil {
		return err
	}
	if linkErr := h.unlink(); linkErr != nil && !win32.IsCode(linkErr, win32.ERROR_NOT_A_REPARSE_POINT) {
		return errors.Join(err, linkErr)
	}
	return nil
}

// unlink removes the reparse point of a mount point of h's volume.
func (h *Held) unlink() error {
	if err := h.o.ctx.Err(); err != nil {
		return err
	}
	e, err := h.o.open(h.e.dir, h.e.at.Base(), win32.FILE_WRITE_ATTRIBUTES|look, shareAll, openReparse)
	if err != nil {
		return err
	}
	defer h.o.close(e)
	link, _, err := h.o.link(e)
	if err != nil {
		return err
	}
	if link.Volume != h.Link.Volume {
		return win32.ERROR_NOT_A_REPARSE_POINT // it was replaced
	}
	// A REPARSE_DATA_BUFFER without data.
	header := binary.LittleEndian.AppendUint32(nil, win32.IO_REPARSE_TAG_MOUNT_POINT)
	_, err = h.o.n.API.DeviceIoControl(e, win32.FSCTL_DELETE_REPARSE_POINT, append(header, 0, 0, 0, 0), nil)
	return err
}

// Hold opens the directory at path and checks that it may be changed. It follows links
// in the directory part of path, but not a link at path itself. Until Close, the parent
// cannot be renamed or removed. The directory at path itself can still be replaced by
// other processes, because the functions that Held is for open it themselves, perhaps
// without sharing, so no handle may be open that takes part in sharing. That is safe for
// DeleteVolumeMountPoint, which affects only mount points. After SetVolumeMountPoint the
// caller asks [Held.Mounted].
func Hold(ctx context.Context, n *node.Node, path string) (*Held, error) {
	var held *Held
	err := run(ctx, n, "open directory", path, func(o *op, p winpath.Path) (err error) {
		held, err = o.hold(p)
		return err
	})
	return held, err
}

func (o *op) hold(p winpath.Path) (*Held, error) {
	e, err := o.entryIn(p, list, shareKeep, look, changing)
	if err != nil {
		return nil, err
	}
	held, err := o.held(e)
	if err != nil {
		e.close()
		return nil, err
	}
	return held, nil
}

func (o *op) held(e entry) (*Held, error) {
	info, err := o.info(e.h)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, hosterr.Text(hosterr.ErrFailedPrecondition, "is not a directory: %w", win32.ERROR_DIRECTORY)
	}
	held := &Held{o: o, e: e}
	link, ok, err := o.link(e.h)
	if err != nil {
		return nil, err
	}
	if ok {
		held.Link = &link
	}
	p, named, err := o.finalPath(e.h, win32.VOLUME_NAME_DOS)
	if err == nil && !named {
		p, named, err = o.finalPath(e.h, win32.VOLUME_NAME_GUID)
	}
	if err != nil {
		return nil, err
	}
	if !named {
		return nil, hosterr.Text(hosterr.ErrFailedPrecondition, "is not on a volume that has a name")
	}
	held.Path = p.String()
	// Win32 functions accept at most 248 characters for a directory without `\\?\`.
	if len(held.Path) > 247 {
		held.Path = p.Long()
	}
	return held, nil
}

// MountedVolume returns the volume that is mounted at path: path is a mount point, or a
// symbolic link or junction that finally leads to the root of a volume. Everything else is not
// mounted, also a link that leads below the root of a volume: what is done to the volume would
// be done to all that others have there. A volume that does not exist any more, or cannot be
// read, is mounted where its mount point is left. No share is contacted.
func MountedVolume(ctx context.Context, n *node.Node, path string) (volume string, mounted bool, err error) {
	err = run(ctx, n, "find the volume mounted at", path, func(o *op, p winpath.Path) (err error) {
		volume, mounted, err = o.mountedAt(p, 0)
		return err
	})
	return volume, mounted, err
}

// mountedAt is MountedVolume of p, which a number of links led to.
func (o *op) mountedAt(p winpath.Path, hops int) (volume string, mounted bool, err error) {
	if p.IsUNC() && hops > 0 {
		return "", false, nil
	}
	e, err := o.entry(p, look, reading)
	if err != nil {
		return "", false, err
	}
	defer e.close()
	link, linked, err := o.link(e.h)
	if err != nil || !linked && hops == 0 {
		return "", false, err
	}
	return o.mountedOn(e, link, linked, hops)
}

// mountedOn is mountedAt of what is open. linked reports whether that is link.
func (o *op) mountedOn(e entry, link Link, linked bool, hops int) (volume string, mounted bool, err error) {
	switch {
	case !linked:
		at, ok, err := o.finalPath(e.h, win32.VOLUME_NAME_GUID)
		if err != nil || !ok || !at.IsRoot() {
			return "", false, err
		}
		return at.String(), true, nil
	case hops == MaxLinks:
		return "", false, tooFar("the link "+hosterr.Quote(e.at.String()), MaxLinks, "links")
	}
	target, err := link.from(e.at.Dir())
	if err != nil {
		return "", false, err
	}
	volume, mounted, err = o.mountedAt(target, hops+1)
	switch _, windows := win32.Code(err); {
	case err == nil:
		return volume, mounted, nil
	case windows && link.Volume != "" && o.ctx.Err() == nil:
		// The volume does not exist, or has no file system or a damaged one. Return
		// it nevertheless, or it could not be unmounted.
		return link.Volume, true, nil
	case hops == 0 && isMissing(err):
		return "", false, nil // the link leads nowhere
	}
	return "", false, err
}

// VolumeOf returns the volume of path, `\\?\Volume{…}\`. It follows links. path must
// exist. For a mount point it returns the mounted volume, even if that does not exist
// or cannot be read. It never returns the volume that contains the mount point, because
// a caller might grow it.
func VolumeOf(ctx context.Context, n *node.Node, path string) (string, error) {
	var volume string
	err := run(ctx, n, "find the volume of", path, func(o *op, p winpath.Path) (err error) {
		volume, err = o.volumeOf(p)
		return err
	})
	return volume, err
}

// volumeOf returns the volume of p or, if p is a link whose target does not exist, of
// the deepest existing parent of the target.
func (o *op) volumeOf(p winpath.Path) (volume string, err error) {
	e, err := o.entry(p, look, reading)
	if err != nil {
		return "", err
	}
	defer e.close()
	link, linked, err := o.link(e.h)
	if err != nil {
		return "", err
	}
	switch {
	case !linked && link.Tag == 0:
		return o.volumeOn(e.h, e.at)
	case !linked:
		// Only the driver of the reparse point knows where it leads.
		h, err := o.follow(p, reading)
		if err != nil {
			return "", err
		}
		defer o.close(h)
		return o.volumeOn(h, p)
	}
	volume, mounted, err := o.mountedOn(e, link, true, 0)
	if err != nil || mounted {
		return volume, err
	}
	target, err := link.from(e.at.Dir())
	if err != nil {
		return "", err
	}
	return o.volumeAt(target)
}

// volumeAt returns the volume of the target of a link, with further links followed.
func (o *op) volumeAt(target winpath.Path) (string, error) {
	s, err := o.walkOn(target, 1, look, shareAll, plain, reading)
	if err != nil {
		return "", err
	}
	defer o.close(s.h)
	if err := o.allow(s.h, s.rest, reading); err != nil {
		return "", err
	}
	return o.volumeOn(s.h, s.at)
}

// volumeOn returns the volume of h, which was opened at a path.
func (o *op) volumeOn(h win32.Handle, at winpath.Path) (string, error) {
	p, ok, err := o.finalPath(h, win32.VOLUME_NAME_GUID)
	if err != nil {
		return "", err
	}
	if ok {
		return p.Root().String(), nil
	}
	err = hosterr.Text(hosterr.ErrFailedPrecondition, "leads to %s, which is not on a volume of this node", hosterr.Quote(at.String()))
	if dos, named, failed := o.finalPath(h, win32.VOLUME_NAME_DOS); failed == nil && named && dos.IsUNC() {
		info, failed := o.info(h)
		if failed != nil {
			return "", failed
		}
		if !info.IsDir() {
			dos = dos.Dir()
		}
		err = &onShareError{err, dos}
	}
	return "", err
}

// onShareError is the error of volumeOn for what is on a share.
type onShareError struct {
	error
	dir winpath.Path // on the share
}

func (e *onShareError) Unwrap() error { return e.error }

// Holder is [VolumeOf] that also returns, instead of a volume, the directory on a share that path
// leads to, with a backslash at its end.
func Holder(ctx context.Context, n *node.Node, path string) (volume, share string, err error) {
	err = run(ctx, n, "find the volume of", path, func(o *op, p winpath.Path) (err error) {
		volume, err = o.volumeOf(p)
		var on *onShareError
		if errors.As(err, &on) {
			share, err = strings.TrimSuffix(on.dir.Long(), `\`)+`\`, nil
		}
		return err
	})
	return volume, share, err
}
