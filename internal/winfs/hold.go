package winfs

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Held is a directory that stays where it is until Close, for the Win32
// functions that take a path (SetVolumeMountPoint, DeleteVolumeMountPoint).
type Held struct {
	// Path is its path without links on the way and without trailing backslash:
	// `C:\var\lib\kubelet\…`, or `\\?\…` where that is too long for Win32.
	Path string
	// Link is what the directory itself is, if it is a link or mount point.
	Link *Link

	o *op
	e entry
}

// Close lets go of the directory.
func (h *Held) Close() { h.e.close() }

// HoldParent finds the directory at path, a link on the way followed, one at path
// itself not, checks that it may be changed, and keeps the directory above
// it from being renamed or removed until Close. What stands at path itself may
// still be swapped by whoever may write there: enough for DeleteVolumeMountPoint,
// which does nothing to what is not a mount point.
func HoldParent(ctx context.Context, n *node.Node, path string) (*Held, error) {
	return hold(ctx, n, path, look, shareAll)
}

// HoldDirectory is HoldParent that keeps the directory at path in place too, for
// SetVolumeMountPoint. The function it is held for must ask for no right to delete
// it.
func HoldDirectory(ctx context.Context, n *node.Node, path string) (*Held, error) {
	return hold(ctx, n, path, list, shareKeep)
}

func hold(ctx context.Context, n *node.Node, path string, access, share uint32) (*Held, error) {
	var held *Held
	err := run(ctx, n, "hold", path, func(o *op, p winpath.Path) error {
		var err error
		held, err = o.hold(p, access, share)
		return err
	})
	return held, err
}

func (o *op) hold(p winpath.Path, access, share uint32) (*Held, error) {
	e, err := o.entryIn(p, list, shareKeep, access, share, changing)
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
		return nil, hosterr.Text(hosterr.ErrFailedPrecondition, "is on no volume that has a name")
	}
	held.Path = p.String()
	// 248 is what Win32 functions take for a directory without `\\?\`.
	if len(held.Path) > 247 {
		held.Path = p.Long()
	}
	return held, nil
}

// MountedVolume tells which volume is mounted at path. A volume mount point names
// it even if the volume is gone or cannot be read; a symbolic link or junction stands for the
// volume on which its end lies, or would lie. mounted is false for what is neither.
func MountedVolume(ctx context.Context, n *node.Node, path string) (volume string, mounted bool, err error) {
	err = run(ctx, n, "find the volume mounted at", path, func(o *op, p winpath.Path) (err error) {
		volume, mounted, err = o.volumeOf(p)
		if !mounted {
			volume = ""
		}
		return err
	})
	return volume, mounted, err
}

// VolumeOf is the volume on which path lies, `\\?\Volume{…}\`, links followed.
// Something must stand at path. For a mount point it is the volume mounted
// there, even if that is gone or cannot be read: never the volume below the mount point, which a
// caller might go on to grow.
func VolumeOf(ctx context.Context, n *node.Node, path string) (string, error) {
	var volume string
	err := run(ctx, n, "find the volume of", path, func(o *op, p winpath.Path) (err error) {
		volume, _, err = o.volumeOf(p)
		return err
	})
	return volume, err
}

// volumeOf is the volume of the end of p, or of the deepest part of where a link
// at p leads that exists.
func (o *op) volumeOf(p winpath.Path) (volume string, linked bool, err error) {
	e, err := o.entry(p, look, shareAll, reading)
	if err != nil {
		return "", false, err
	}
	link, linked, err := o.link(e.h)
	e.close()
	if err != nil {
		return "", false, err
	}
	volume, s, err := o.volumeAt(p)
	_, windows := win32.Code(err)
	switch {
	case windows && link.Volume != "" && o.ctx.Err() == nil:
		// The volume is gone, has no file system or a damaged one: it has to be
		// named all the same, or nobody could unmount it.
		return link.Volume, true, nil
	case err != nil:
		return "", false, err
	case link.Volume != "" && winpath.Fold(s.at.Root().String()) != winpath.Fold(link.Volume):
		return "", false, hosterr.Text(hosterr.ErrUnavailable, "volumes are mounted and unmounted there at this moment: %w", win32.ERROR_CANT_RESOLVE_FILENAME)
	case !linked && len(s.rest) > 0:
		return "", false, win32.ERROR_FILE_NOT_FOUND // it went away, perhaps with the volume on which it was
	}
	return volume, linked, nil
}

// volumeAt is the volume on which p lies, links followed, and how far the walk
// came. The spot's handle is closed.
func (o *op) volumeAt(p winpath.Path) (string, spot, error) {
	s, err := o.walk(p, look, shareAll, plain, reading)
	if err != nil {
		return "", spot{}, err
	}
	defer o.close(s.h)
	if err := o.allow(s.h, s.rest, reading); err != nil {
		return "", spot{}, err
	}
	at, ok, err := o.finalPath(s.h, win32.VOLUME_NAME_GUID)
	if err != nil {
		return "", spot{}, err
	}
	if !ok {
		return "", spot{}, hosterr.Text(hosterr.ErrFailedPrecondition, "leads to %s, which is on no volume of this node", hosterr.Quote(s.at.String()))
	}
	return at.Root().String(), s, nil
}
