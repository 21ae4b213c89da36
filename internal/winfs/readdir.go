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
		found = nil // from an earlier attempt
		return o.entries(s.h, func(e win32.DirEntry) error {
			found = append(found, Entry{e.Name, Info{Attributes: e.Attributes, ReparseTag: e.ReparseTag}})
			return nil
		})
	})
	return found, err
}
