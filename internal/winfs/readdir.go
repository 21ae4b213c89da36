package winfs

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// Entry is an entry of a directory.
type Entry struct {
	Name string
	Info
}

// ReadDir returns the entries of the directory at path, in the order of the file
// system. It follows links.
func ReadDir(ctx context.Context, n *node.Node, path string) ([]Entry, error) {
	return readDir(ctx, n, path, func(o *op, p winpath.Path) (win32.Handle, error) {
		s, err := o.walk(p, list, shareAll, plain, reading)
		if err != nil {
			return 0, err
		}
		if err := o.allow(s.h, s.rest, reading); err != nil {
			o.close(s.h)
			return 0, err
		}
		if len(s.rest) > 0 {
			o.close(s.h)
			return 0, win32.ERROR_FILE_NOT_FOUND
		}
		return s.h, nil
	})
}

// ReadDirBelow is like ReadDir for the directory with the relative path below in the
// directory at path. It follows links in path, and fails with
// ERROR_REPARSE_POINT_ENCOUNTERED if there is one in below.
func ReadDirBelow(ctx context.Context, n *node.Node, path, below string) ([]Entry, error) {
	if below == "" {
		return ReadDir(ctx, n, path)
	}
	return readDir(ctx, n, path, func(o *op, p winpath.Path) (win32.Handle, error) {
		s, err := o.walk(p, traverse, shareAll, plain|win32.FILE_DIRECTORY_FILE, reading)
		if err != nil {
			return 0, err
		}
		defer o.close(s.h)
		if len(s.rest) > 0 {
			return 0, win32.ERROR_FILE_NOT_FOUND
		}
		h, err := o.open(s.h, below, list, shareAll, plain)
		if err != nil {
			return 0, err
		}
		if err := o.allow(h, nil, reading); err != nil {
			o.close(h)
			return 0, err
		}
		return h, nil
	})
}

// readDir lists the directory that open opens.
func readDir(ctx context.Context, n *node.Node, path string, open func(*op, winpath.Path) (win32.Handle, error)) ([]Entry, error) {
	var found []Entry
	err := run(ctx, n, "list directory", path, func(o *op, p winpath.Path) error {
		h, err := open(o, p)
		if err != nil {
			return err
		}
		defer o.close(h)
		found = nil // from an earlier attempt
		return o.entries(h, func(e win32.DirEntry) error {
			found = append(found, Entry{e.Name, Info{Attributes: e.Attributes, ReparseTag: e.ReparseTag}})
			return nil
		})
	})
	return found, err
}
