package winfs

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// LinkToShare makes a directory link at path that leads to source, which is a
// share or a directory on one, as [Symlink] does. The share is not contacted:
// the link is one to a directory whatever is there. It ends in a backslash,
// without which container runtimes do not resolve a link to a share's root
// (published).
func LinkToShare(ctx context.Context, n *node.Node, source, path string) error {
	return run(ctx, n, "create symlink", path, func(o *op, p winpath.Path) error {
		src, err := parseShare(source)
		if err != nil {
			return hosterr.Wrap("source", hosterr.Quote(source), err)
		}
		link := win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: src.NT(), Print: src.String()}
		if !src.IsRoot() {
			link.Substitute += `\`
			link.Print += `\`
		}
		return o.symlink(p, src, link, true)
	})
}

// CheckLinkToShare tells whether [LinkToShare] would find the link made already,
// and fails as it would if something else is there, the directory above is
// missing, or the place is not allowed. Nothing is changed.
func CheckLinkToShare(ctx context.Context, n *node.Node, source, path string) (there bool, err error) {
	err = run(ctx, n, "create symlink", path, func(o *op, p winpath.Path) error {
		src, err := parseShare(source)
		if err != nil {
			return hosterr.Wrap("source", hosterr.Quote(source), err)
		}
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
		err = o.sameLink(dir, p.Base(), src, true)
		if win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND) {
			return nil
		}
		there = err == nil
		return err
	})
	return there, err
}

func parseShare(source string) (winpath.Path, error) {
	src, err := parse(source)
	if err == nil && !src.IsUNC() {
		err = hosterr.Text(hosterr.ErrInvalid, "not a path on a share")
	}
	return src, err
}

// Entry is a name in a directory.
type Entry struct {
	Name string
	Info
}

// ReadDir lists the directory at path, links followed, in the order of the
// file system.
func ReadDir(ctx context.Context, n *node.Node, path string) ([]Entry, error) {
	var found []Entry
	err := run(ctx, n, "list directory", path, func(o *op, p winpath.Path) error {
		s, err := o.walk(p, list, shareAll, plain, reading)
		if err != nil {
			return err
		}
		defer o.close(s.h)
		if err := o.allow(s.h, s.rest, reading); err != nil {
			return err
		}
		if len(s.rest) > 0 {
			return win32.ERROR_FILE_NOT_FOUND
		}
		found = nil // of an earlier look
		return o.entries(s.h, func(e win32.DirEntry) error {
			found = append(found, Entry{e.Name, Info{Attributes: e.Attributes, ReparseTag: e.ReparseTag}})
			return nil
		})
	})
	return found, err
}
