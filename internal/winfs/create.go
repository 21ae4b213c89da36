package winfs

import (
	"context"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// MkdirAll creates the directory at path and all missing parents. It follows links.
// It succeeds if the directory exists, and fails with hosterr.ErrAlreadyExists if a
// file does. It does not create the missing target of a link; that is an error.
func MkdirAll(ctx context.Context, n *node.Node, path string) error {
	return run(ctx, n, "create directory", path, func(o *op, p winpath.Path) error {
		var err error
		// Repeat with all checks if another process removed or replaced a directory
		// at the same time.
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
			err = hosterr.Text(hosterr.ErrAlreadyExists, "a file exists there: %w", win32.ERROR_ALREADY_EXISTS)
		}
		return err
	}
	if s.targetMissing {
		return hosterr.Text(hosterr.ErrFailedPrecondition, "a link in the path leads to %s, which does not exist", hosterr.Quote(s.at.Join(s.rest...).String()))
	}
	for _, name := range s.rest {
		if err := o.ctx.Err(); err != nil {
			return err
		}
		h, err := o.n.API.NtCreateFile(dir, name, traverse, noLinks, shareAll, win32.FILE_OPEN_IF, plain|win32.FILE_DIRECTORY_FILE)
		if win32.IsCode(err, win32.ERROR_DIRECTORY, win32.ERROR_ALREADY_EXISTS) {
			return hosterr.Text(hosterr.ErrAlreadyExists, "a file exists there: %w", err)
		}
		if err != nil {
			return err
		}
		o.close(dir)
		dir = h
	}
	return nil
}

// Symlink creates a symbolic link at path that points to source: a link to a directory
// if source is a directory now, otherwise a link to a file. The link keeps a trailing
// backslash of source. Reading source must be allowed. The root of a share counts as a
// directory, and its server is not contacted.
//
// The directory of path must exist. If path is the same link already, Symlink succeeds,
// so that a caller can repeat it after a lost response, also after source has disappeared: a
// link to a missing source is the same link, of whichever kind. If anything else exists at
// path, it fails with hosterr.ErrAlreadyExists.
func Symlink(ctx context.Context, n *node.Node, source, path string) error {
	return makeLink(ctx, n, source, path, (*op).kindOf)
}

// SymlinkOf is like Symlink, but the caller chooses the kind of the link. If source is
// on a share, its server is not contacted.
func SymlinkOf(ctx context.Context, n *node.Node, source, path string, isDir bool) error {
	return makeLink(ctx, n, source, path, func(o *op, src winpath.Path) (kind linkKind, err error) {
		if !src.IsUNC() { // check that reading it is allowed
			_, err = o.kindOf(src)
		}
		if isDir {
			kind = toDir
		}
		return kind, err
	})
}

// makeLink creates a link to source at path, of the kind that kindOf returns.
func makeLink(ctx context.Context, n *node.Node, source, path string, kindOf func(*op, winpath.Path) (linkKind, error)) error {
	return run(ctx, n, "create symlink", path, func(o *op, p winpath.Path) error {
		var kind linkKind
		src, err := parse(source)
		if err == nil {
			kind, err = kindOf(o, src)
		}
		if err != nil {
			return hosterr.Wrap("source", hosterr.Quote(source), err)
		}
		link := win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: src.NT(), Print: src.String()}
		if strings.HasSuffix(strings.ReplaceAll(source, "/", `\`), `\`) && !src.IsRoot() {
			link.Substitute += `\`
			link.Print += `\`
		}
		return o.symlink(p, src, link, kind)
	})
}

// linkKind is what a new symbolic link leads to.
type linkKind int

const (
	toFile    linkKind = iota
	toDir              // needs a link of another kind
	toMissing          // gets a link to a file
)

// kindOf returns what a link to p leads to, after following links.
func (o *op) kindOf(p winpath.Path) (linkKind, error) {
	if p.IsUNC() && p.IsRoot() {
		return toDir, nil
	}
	h, err := o.follow(p, linking)
	if isMissing(err) {
		return toMissing, nil
	}
	if err != nil {
		return toMissing, err
	}
	defer o.close(h)
	info, err := o.info(h)
	if info.IsDir() {
		return toDir, err
	}
	return toFile, err
}

// placeFor opens the directory in which p would be created, unless that is not allowed.
func (o *op) placeFor(p winpath.Path) (dir win32.Handle, err error) {
	if p.IsRoot() {
		return 0, hosterr.Text(hosterr.ErrAlreadyExists, "is the root of a volume")
	}
	dir, _, err = o.parent(p, traverse, shareAll, creating)
	if err != nil {
		return 0, err
	}
	if err := o.allow(dir, []string{p.Base()}, creating); err != nil {
		o.close(dir)
		return 0, err
	}
	return dir, nil
}

func (o *op) symlink(p, src winpath.Path, link win32.Reparse, kind linkKind) error {
	dir, err := o.placeFor(p)
	if err != nil {
		return err
	}
	defer o.close(dir)
	options := uint32(openReparse | win32.FILE_NON_DIRECTORY_FILE)
	if kind == toDir {
		options = openReparse | win32.FILE_DIRECTORY_FILE
	}
	if err := o.ctx.Err(); err != nil {
		return err
	}
	// Without sharing, so that no other process sees it before it is a link.
	h, err := o.n.API.NtCreateFile(dir, p.Base(), win32.DELETE|win32.FILE_WRITE_ATTRIBUTES|look, noLinks, 0, win32.FILE_CREATE, options)
	if win32.IsCode(err, win32.ERROR_ALREADY_EXISTS, win32.ERROR_REPARSE_POINT_ENCOUNTERED) {
		return o.sameLink(dir, p.Base(), src, kind)
	}
	if err != nil {
		return err
	}
	defer o.close(h)
	o.modified = true
	// LocalSystem has the privilege enabled, other administrators only hold it.
	err = o.n.API.WithPrivilege(win32.SE_CREATE_SYMBOLIC_LINK_NAME, func(api win32.API) error {
		_, err := api.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, link.Encode(), nil)
		return err
	})
	if err == nil {
		return nil
	}
	if win32.IsCode(err, win32.ERROR_PRIVILEGE_NOT_HELD) {
		err = hosterr.WithHint("create the link", "", typed(err),
			"the account of CSI Proxy needs the right to create symbolic links ("+win32.SE_CREATE_SYMBOLIC_LINK_NAME+"); LocalSystem and administrators have it")
	}
	if left := o.discard(h); left != nil {
		err = fmt.Errorf("%w; the empty file or directory that was to become the link is left, because it cannot be removed: %w", err, left)
	}
	return err
}

// discard deletes what an operation has created and cannot finish. It tries several times,
// because it would be in the way of the next request.
func (o *op) discard(h win32.Handle) (err error) {
	const tries = 3
	for range tries {
		if err = o.markDeleted(h); err == nil {
			break
		}
	}
	return err
}

// conflict returns the error for something that exists in the place of a symbolic link.
// Windows creates a link in two calls, so a process that died between them leaves an
// empty file or directory, and so does one that cannot remove it again. That cannot be
// distinguished from one that is in use, so it is not removed.
func conflict(info Info, link bool) error {
	what := "a file"
	switch {
	case link:
		what = "a mount point or another link"
	case info.IsDir():
		what = "a directory"
	}
	err := hosterr.Text(hosterr.ErrAlreadyExists, "%s that is not a symbolic link exists there: %w", what, win32.ERROR_ALREADY_EXISTS)
	if link {
		return err
	}
	return hosterr.WithHint("create the link", "", err,
		"if it is empty and not in use, remove it and try again: a CSI Proxy that was killed while it created a link leaves one")
}

// sameLink returns nil if name in dir is the wanted link already.
func (o *op) sameLink(dir win32.Handle, name string, src winpath.Path, kind linkKind) error {
	h, err := o.open(dir, name, look, shareAll, openReparse)
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
		return conflict(info, ok)
	}
	to, err := winpath.FromNT(link.Substitute)
	if link.Relative || err != nil || !to.Equal(src) {
		return hosterr.Text(hosterr.ErrAlreadyExists, "a link to %s exists there: %w", hosterr.Quote(link.Substitute), win32.ERROR_ALREADY_EXISTS)
	}
	if kind != toMissing && info.IsDir() != (kind == toDir) {
		return hosterr.Text(hosterr.ErrAlreadyExists, "a link to %s of the other kind (file or directory) exists there: %w", hosterr.Quote(link.Substitute), win32.ERROR_ALREADY_EXISTS)
	}
	return nil
}
