package winfs

import (
	"context"
	"errors"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// MkdirAll makes the directory at path and all missing ones above it, links on
// the way followed. A directory that is there is success, a file is
// hosterr.ErrAlreadyExists. A link that leads nowhere is an error: its target is not
// made.
func MkdirAll(ctx context.Context, n *node.Node, path string) error {
	return run(ctx, n, "make directory", path, func(o *op, p winpath.Path) error {
		var err error
		// Each round begins with a new check; another comes only if somebody
		// removed or replaced a directory under our hands.
		for range 8 {
			if err = o.mkdirAll(p); !win32.IsCode(err, win32.ERROR_REPARSE_POINT_ENCOUNTERED, win32.ERROR_FILE_NOT_FOUND) {
				break
			}
		}
		return err
	})
}

func (o *op) mkdirAll(p winpath.Path) error {
	s, err := o.walk(p, look, shareAll, plain, creating)
	if err != nil {
		return err
	}
	dir := s.h
	defer func() { o.close(dir) }()
	if err := o.allow(dir, s.rest, creating); err != nil {
		return err
	}
	if len(s.rest) == 0 {
		info, err := o.info(dir)
		if err == nil && !info.IsDir() {
			err = hosterr.Text(hosterr.ErrAlreadyExists, "a file is there: %w", win32.ERROR_ALREADY_EXISTS)
		}
		return err
	}
	if s.nowhere {
		return hosterr.Text(hosterr.ErrFailedPrecondition, "a link on the way leads to %s, which does not exist", hosterr.Quote(s.at.Join(s.rest...).String()))
	}
	for _, name := range s.rest {
		if err := o.ctx.Err(); err != nil {
			return err
		}
		h, err := o.n.API.NtCreateFile(dir, name, traverse, noLinks, shareAll, win32.FILE_OPEN_IF, plain|win32.FILE_DIRECTORY_FILE)
		if win32.IsCode(err, win32.ERROR_DIRECTORY, win32.ERROR_ALREADY_EXISTS) {
			return hosterr.Text(hosterr.ErrAlreadyExists, "a file is there: %w", err)
		}
		if err != nil {
			return err
		}
		o.close(dir)
		dir = h
	}
	return nil
}

// Symlink makes a symbolic link at path that leads to source: a link to a
// directory if source is one at this moment, else a link to a file. A trailing
// backslash of source is kept in the link. source must be allowed like any path
// that is looked at; a share's root counts as a directory and is not contacted.
//
// The directory of path must exist. The very same link at path is success, so
// that a caller may repeat itself after a lost answer; anything else there is
// hosterr.ErrAlreadyExists.
func Symlink(ctx context.Context, n *node.Node, source, path string) error {
	return run(ctx, n, "create symlink", path, func(o *op, p winpath.Path) error {
		src, err := parse(source)
		if err != nil {
			return hosterr.Wrap("source", hosterr.Quote(source), err)
		}
		toDir, err := o.leadsToDir(src)
		if err != nil {
			return hosterr.Wrap("source", hosterr.Quote(source), err)
		}
		return o.symlinkTo(p, src, endsInSeparator(source), toDir)
	})
}

// SymlinkOf is Symlink for a caller that says of which kind the link shall be.
// A share is not contacted.
func SymlinkOf(ctx context.Context, n *node.Node, source, path string, toDir bool) error {
	return run(ctx, n, "create symlink", path, func(o *op, p winpath.Path) error {
		src, err := parse(source)
		if err != nil {
			return hosterr.Wrap("source", hosterr.Quote(source), err)
		}
		if !src.IsUNC() { // it must be allowed, as any path that is looked at
			if _, err := o.leadsToDir(src); err != nil {
				return hosterr.Wrap("source", hosterr.Quote(source), err)
			}
		}
		return o.symlinkTo(p, src, endsInSeparator(source), toDir)
	})
}

func endsInSeparator(path string) bool {
	return strings.HasSuffix(path, `\`) || strings.HasSuffix(path, "/")
}

// symlinkTo makes p a link to src, its text with a backslash at the end if slash.
func (o *op) symlinkTo(p, src winpath.Path, slash, toDir bool) error {
	link := win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: src.NT(), Print: src.String()}
	if slash && !src.IsRoot() {
		link.Substitute += `\`
		link.Print += `\`
	}
	return o.symlink(p, src, link, toDir)
}

// leadsToDir tells whether a directory stands at the end of p.
func (o *op) leadsToDir(p winpath.Path) (bool, error) {
	if p.IsUNC() && p.IsRoot() {
		return true, nil
	}
	h, err := o.follow(p, reading)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer o.close(h)
	info, err := o.info(h)
	return info.IsDir(), err
}

func (o *op) symlink(p, src winpath.Path, link win32.Reparse, toDir bool) error {
	if p.IsRoot() {
		return hosterr.Text(hosterr.ErrAlreadyExists, "is the root of a volume")
	}
	dir, _, err := o.parent(p, traverse, shareAll, creating)
	if err != nil {
		return err
	}
	defer o.close(dir)
	if err := o.allow(dir, []string{p.Base()}, creating); err != nil {
		return err
	}
	options := uint32(itself | win32.FILE_NON_DIRECTORY_FILE)
	if toDir {
		options = itself | win32.FILE_DIRECTORY_FILE
	}
	if err := o.ctx.Err(); err != nil {
		return err
	}
	// Shared with nobody until it is a link, so that nobody sees it half made.
	h, err := o.n.API.NtCreateFile(dir, p.Base(), win32.DELETE|win32.FILE_WRITE_ATTRIBUTES|look, noLinks, 0, win32.FILE_CREATE, options)
	if win32.IsCode(err, win32.ERROR_ALREADY_EXISTS, win32.ERROR_REPARSE_POINT_ENCOUNTERED) {
		return o.sameLink(dir, p.Base(), src, toDir)
	}
	if err != nil {
		return err
	}
	defer o.close(h)
	o.begun = true
	if _, err = o.n.API.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, link.Encode(), nil); err != nil {
		return errors.Join(err, o.markDeleted(h))
	}
	return nil
}

// inTheWay says what stands where a symbolic link is wanted. It may be what the
// call below left whose process died before the file or directory became the link:
// Windows makes one in two calls. Nobody can tell that from what somebody wants,
// so it is not touched.
func inTheWay(info Info, link bool) error {
	what := "a file"
	switch {
	case link:
		what = "a mount point or another link"
	case info.IsDir():
		what = "a directory"
	}
	err := hosterr.Text(hosterr.ErrAlreadyExists, "%s that is no symbolic link is there: %w", what, win32.ERROR_ALREADY_EXISTS)
	if link {
		return err
	}
	return hosterr.WithHint("make the link", "", err,
		"if it is empty and nobody needs it, remove it and try again: a CSI Proxy that was stopped at the wrong moment leaves such a one")
}

// sameLink is nil if name in dir is already the link that is wanted.
func (o *op) sameLink(dir win32.Handle, name string, src winpath.Path, toDir bool) error {
	h, err := o.open(dir, name, look, shareAll, itself)
	if err != nil {
		return err
	}
	defer o.close(h)
	link, ok, err := o.link(h)
	if err != nil {
		return err
	}
	info, err := o.info(h)
	if err != nil {
		return err
	}
	if !ok || link.Tag != win32.IO_REPARSE_TAG_SYMLINK {
		return inTheWay(info, ok)
	}
	to, err := winpath.FromNT(link.Substitute)
	if link.Relative || err != nil || !to.Equal(src) {
		return hosterr.Text(hosterr.ErrAlreadyExists, "a link to %s is there: %w", hosterr.Quote(link.Substitute), win32.ERROR_ALREADY_EXISTS)
	}
	if info.IsDir() != toDir {
		return hosterr.Text(hosterr.ErrAlreadyExists, "a link to %s is there, of the other kind (file or directory): %w", hosterr.Quote(link.Substitute), win32.ERROR_ALREADY_EXISTS)
	}
	return nil
}
