package winfs

import (
	"context"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// The limits of a search for links.
const (
	// MaxBelow is the number of entries that one search looks at.
	MaxBelow = 100_000
	// belowLevels is how deep links of volumes are: in
	// pods\<pod>\volumes\<plugin>\<volume>\mount,
	// pods\<pod>\volume-subpaths\<volume>\<container>\<number> and
	// plugins\kubernetes.io\csi\<driver>\<volume>\globalmount.
	belowLevels = 6
)

// LinkBelow returns a link in a working directory, or in the six levels of directories below
// one, that leads to something on a volume below its root: a part of the volume is in use as a
// volume of its own. It returns "" if there is none. Without working directories it looks in
// the usual directory of the kubelet.
//
// It fails if something cannot be looked at, or if there are more than [MaxBelow] entries.
func LinkBelow(ctx context.Context, n *node.Node, volume string) (link string, err error) {
	return linkBelow(ctx, n, volume, MaxBelow)
}

// linkBelow is LinkBelow that looks at so many entries.
func linkBelow(ctx context.Context, n *node.Node, volume string, left int) (link string, err error) {
	if volume, err = n.API.VolumeNameForMountPoint(volume); err != nil {
		return "", hosterr.Wrap("look for links to volume", hosterr.Quote(volume), typed(err))
	}
	dirs := n.WorkingDirs
	if len(dirs) == 0 {
		dirs = []string{kubeletDir}
	}
	limit := left
	for _, dir := range dirs {
		before := left
		err := run(ctx, n, "look for links in", dir, func(o *op, p winpath.Path) error {
			s := below{op: &op{ctx: o.ctx, n: o.n}, volume: volume, left: before, limit: limit} // the administrator chose the directories
			defer s.closeRoot()
			err := s.in(p)
			link, left = s.found, s.left
			return err
		})
		if err != nil || link != "" {
			return link, err
		}
	}
	return "", nil
}

// kubeletDir is where the kubelet's directory is unless it is configured otherwise.
const kubeletDir = `C:\var\lib\kubelet`

// below is a search for a link that leads below the root of a volume.
type below struct {
	*op
	volume string
	left   int
	limit  int // of the whole search
	found  string
}

// in searches a working directory.
func (s *below) in(p winpath.Path) error {
	at, err := s.walk(p, list, shareAll, plain, reading)
	if err != nil {
		return unlessGone(err)
	}
	defer s.close(at.h)
	if len(at.rest) > 0 {
		return nil // it does not exist
	}
	return s.directory(at.h, at.at, belowLevels)
}

func (s *below) directory(dir win32.Handle, p winpath.Path, levels int) error {
	return s.entries(dir, func(d win32.DirEntry) error {
		if s.found != "" {
			return nil
		}
		at, info := p.Join(d.Name), Info{Attributes: d.Attributes, ReparseTag: d.ReparseTag}
		if !info.IsLink() && (!info.IsDir() || levels == 1) {
			return nil
		}
		if s.left--; s.left < 0 {
			return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "use working directories that hold nothing but volumes",
				"more than %d files and directories may be links to a part of the volume", s.limit)
		}
		if info.IsLink() {
			leads, err := s.leadsBelow(at)
			if leads {
				s.found = at.String()
			}
			s.left -= s.steps
			return err
		}
		h, err := s.open(dir, d.Name, list, shareAll, openReparse)
		if err != nil {
			return hosterr.Wrap("look at", hosterr.Quote(at.String()), unlessGone(err))
		}
		defer s.close(h)
		return unlessGone(s.directory(h, at, levels-1))
	})
}

// unlessGone returns nil for the error of something that another program has removed.
func unlessGone(err error) error {
	if isMissing(err) || win32.IsCode(err, win32.ERROR_DELETE_PENDING) {
		return nil
	}
	return err
}

// leadsBelow reports whether a link leads to something on the volume below its root.
func (s *below) leadsBelow(link winpath.Path) (bool, error) {
	s.steps = 0 // each link has its own limit of opens
	t, h := s.trail(link)
	if h != 0 {
		defer s.close(h)
	}
	switch {
	case s.ctx.Err() != nil:
		return false, s.ctx.Err()
	case t.Err == nil && (h == 0 || len(t.Missing) > 0):
		return false, nil
	case t.Err == nil:
		at, ok, err := s.finalPath(h, win32.VOLUME_NAME_GUID)
		return ok && !at.IsRoot() && s.is(at.Root().String()), unlessGone(err)
	case s.steps > maxOpens:
		return false, unfollowed(link, t.Err)
	case isMissing(t.Err) || win32.IsCode(t.Err, win32.ERROR_CANT_RESOLVE_FILENAME):
		return false, nil // it leads nowhere
	}
	// Another volume that cannot be read does not matter.
	volume, err := s.n.API.VolumeNameForMountPoint(strings.TrimSuffix(t.At.Root().String(), `\`) + `\`)
	if isMissing(err) || err == nil && !s.is(volume) {
		return false, nil
	}
	return false, unfollowed(link, t.Err)
}

func unfollowed(link winpath.Path, err error) error {
	return hosterr.WithHint("follow link", hosterr.Quote(link.String()), err, "remove the link if it is of no use; in the kubelet's directory the path names its pod, which can go instead")
}

func (s *below) is(volume string) bool { return winpath.Fold(volume) == winpath.Fold(s.volume) }
