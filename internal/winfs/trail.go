package winfs

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Hop is a link or mount point on the way of a path.
type Hop struct {
	Link
	Path   string // its path, with the links before it resolved
	Target string // where it leads
}

// Trail is the way of a path.
type Trail struct {
	Hops []Hop
	// At is the deepest that exists, with links resolved. If Err is set, it is what could
	// not be opened. A share is not contacted: At is then the path on the share.
	At winpath.Path
	// Missing are the names below At that do not exist.
	Missing []string
	// Err is why the path could not be followed further.
	Err error
}

// Follow returns the links and mount points on the way of a path. It fails only if the path
// is invalid. It is for administrators: it does not check the working directories.
func Follow(ctx context.Context, n *node.Node, path string) (Trail, error) {
	p, err := parse(path)
	if err != nil {
		return Trail{}, hosterr.Wrap("follow", hosterr.Quote(path), err)
	}
	o := &op{ctx: ctx, n: n, waiting: maxWaiting}
	defer o.closeRoot()
	t, h := o.trail(p)
	if h != 0 {
		o.close(h)
	}
	return t, nil
}

// trail is Follow of p. It also returns the deepest that exists, open, or 0 if that is on a
// share or cannot be opened.
func (o *op) trail(p winpath.Path) (t Trail, h win32.Handle) {
	for {
		t.At = p
		if p.IsUNC() {
			return t, 0
		}
		s, link, err := o.descend(p, look, shareAll, plain)
		if err != nil {
			t.Err = err
			return t, 0
		}
		if link == nil {
			t.At, t.Missing = s.at, s.rest
			return t, s.h
		}
		target, err := link.from(s.at.Dir())
		if err != nil {
			t.At, t.Err = s.at, err
			return t, 0
		}
		t.Hops = append(t.Hops, Hop{*link, s.at.String(), target.String()})
		if len(t.Hops) > MaxLinks {
			t.Err = win32.ERROR_CANT_RESOLVE_FILENAME
			return t, 0
		}
		p = target.Join(s.rest...)
	}
}
