package smb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// usedBy returns an existing link to the share, other than except, or "".
func (c *call) usedBy(share winpath.Share, except string) (by string, err error) {
	err = c.eachLink(share, map[string]bool{linkKey(except): except != ""}, true, func(path string, err error) bool {
		if err != nil {
			c.s.base.Node.Log.Warn("Failed to read a link to an SMB share; its mapping counts as in use", "link", path, "err", err)
		}
		by = path
		return false
	})
	if err == nil && by == "" && c.s.partly() && !c.s.began(share) {
		by = "a link that may exist"
	}
	return by, err
}

// eachLink calls visit for each existing link to the share, except those to skip, by [linkKey], until
// visit returns false. A link that cannot be read, for the reason that visit gets, counts as existing. With
// forget, which needs the lock of the server, it forgets links that no longer exist: without it,
// another call may have made one meanwhile.
func (c *call) eachLink(share winpath.Share, skip map[string]bool, forget bool, visit func(path string, unread error) (more bool)) error {
	for _, path := range c.s.linksTo(share) {
		if skip[linkKey(path)] {
			continue
		}
		link, ok, err := c.host.LinkAt(path)
		switch {
		case err == nil && !(ok && link.Share() == share):
			if forget {
				c.s.change(share, func(r *record) { delete(r.links, linkKey(path)) })
			}
		case err != nil && c.ctx.Err() != nil:
			return c.ctx.Err()
		case !visit(path, err):
			return nil
		}
	}
	return nil
}

// links says how many links use the mapping of a share, for a message.
func (c *call) links(share winpath.Share) string {
	n := 0
	_ = c.eachLink(share, map[string]bool{linkKey(c.local): c.local != ""}, true, func(string, error) bool { n++; return true }) // it ends with the call
	switch n {
	case 0:
		return "links that may exist"
	case 1:
		return "1 link"
	}
	return fmt.Sprintf("%d links", n)
}

// count fills in how many links use the mapping, and which of paths are among them. Those of paths
// that were not known count from now on. That there are none is only said after a search that began
// after the call.
func (c *call) count(began time.Time, paths []string, out *GetSMBGlobalMappingResponse) error {
	unread := func(path string, err error) {
		if !out.LinksIncomplete { // callers can name any number
			c.s.base.Node.Log.Warn("Failed to read what may be a link to an SMB share", "path", path, "err", err)
		}
		out.LinksIncomplete = true
	}
	read := map[string]bool{}
	for _, path := range paths {
		link, ok, err := c.host.LinkAt(path)
		switch {
		case c.ctx.Err() != nil:
			return c.ctx.Err()
		case err != nil:
			unread(path, err)
		case ok && link.Share() == c.share:
			out.LocalPaths, read[linkKey(path)] = append(out.LocalPaths, path), true
			c.s.addLink(c.share, path)
		}
	}
	out.Links = uint32(len(read))
	recorded := func() error {
		return c.eachLink(c.share, read, false, func(path string, err error) bool {
			if out.Links++; err != nil {
				unread(path, err)
			}
			return true
		})
	}
	err := recorded()
	if err == nil && out.Links == 0 {
		if err = c.s.find(c.ctx, c.host, began); err == nil {
			err = recorded()
		}
	}
	out.LinksIncomplete = out.LinksIncomplete || c.s.partly()
	return err
}

// Survey searches for links of earlier processes. The daemon calls it when it starts. Otherwise
// the first request does the same.
func (s *SMB) Survey(ctx context.Context) error {
	return service.Do(ctx, s.base, nil, func(smbapi.HostAPI) error { return s.find(ctx, s.on(ctx, winpath.Share{}), time.Time{}) })
}

// CountMappings returns how many mappings of the node have each status, also those of other
// programs. The daemon calls it for its metrics.
func (s *SMB) CountMappings(ctx context.Context) (map[smbapi.Status]int, error) {
	return service.Get(ctx, s.base, nil, func(smbapi.HostAPI) (map[smbapi.Status]int, error) {
		all, err := s.on(ctx, winpath.Share{}).Mappings()
		if err != nil {
			return nil, hosterr.Wrap("list the mappings", "", err)
		}
		counts := map[smbapi.Status]int{}
		for _, m := range all {
			counts[m.Status]++
		}
		return counts, nil
	})
}

// CountPending returns how many mappings are removed as soon as no link uses them.
func (s *SMB) CountPending() int { return len(s.unwanted("")) }

// searching is the key of the lock of a search.
const searching = "\x00search for links"

// searchInterval is how long an incomplete search is not repeated.
const searchInterval = 10 * time.Minute

// find searches for links that this process did not make, unless a search began since a time: the
// zero time is one search for each node. A later request, or a removal that is pending, repeats an
// incomplete search.
func (s *SMB) find(ctx context.Context, h host, since time.Time) error {
	if s.wasSearched(since, s.base.Node.Clock.Now()) {
		return nil
	}
	unlock, err := s.base.Node.Locks.Shares.Lock(ctx, searching)
	if err != nil {
		return hosterr.Wrap("wait for the search for links to shares", "", err)
	}
	defer unlock()
	began := s.base.Node.Clock.Now()
	if s.wasSearched(since, began) {
		return nil
	}
	links, err := h.Links()
	incomplete := errors.Is(err, smbapi.ErrIncomplete)
	if incomplete {
		s.base.Node.Log.Warn("Search for links to SMB shares was incomplete; every mapping of an earlier process counts as in use", "err", err)
	} else if err != nil {
		return hosterr.Wrap("search for links to shares", "", err)
	}
	for _, l := range links {
		s.addLink(l.Share(), l.Path)
	}
	s.setSearched(began, incomplete)
	return nil
}

// A mapping whose removal was requested while links used it is removed when the filesystem
// service removes its last link. A timer checks for links that other programs removed.
const (
	sweepInterval = 30 * time.Second
	// sweepLimit is how long the removal of a link waits for the removal of its mapping.
	sweepLimit = 2 * time.Second
)

// sweepSoon sweeps the shares that had a link at or below path, which was removed. A long
// sweep continues after the caller has its response.
func (s *SMB) sweepSoon(ctx context.Context, path string) {
	shares := s.unwanted(path)
	if len(shares) == 0 {
		return
	}
	wait, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	rest := context.WithoutCancel(ctx)
	// sweep logs its errors.
	_ = service.Do(wait, s.base, nil, func(smbapi.HostAPI) error { s.sweep(rest, shares); return nil })
}

// sweepLater sweeps after an interval if a removal is pending, and again until none is.
func (s *SMB) sweepLater() {
	s.armTimer(func() {
		s.sweep(context.Background(), s.unwanted(""))
		s.sweepLater()
	})
}

// sweep removes the mappings of shares that are no longer used by a link, and logs errors.
// Shares do not wait for each other: each has an interval of its own.
func (s *SMB) sweep(ctx context.Context, shares []winpath.Share) {
	var all sync.WaitGroup
	for _, share := range shares {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, sweepInterval)
			defer cancel()
			err := service.Do(ctx, s.base, nil, func(smbapi.HostAPI) error { return s.sweepOne(ctx, share) })
			if err != nil {
				s.base.Node.Log.Warn("Failed to remove an SMB mapping without links; it is tried again", "share", share, "err", err)
			}
		})
	}
	all.Wait()
}

func (s *SMB) sweepOne(ctx context.Context, share winpath.Share) error {
	c := &call{s: s, ctx: ctx, share: share, host: s.on(ctx, share)}
	if err := s.find(ctx, c.host, time.Time{}); err != nil {
		return err
	}
	return s.locked(ctx, share.Server(), nil, func() error {
		if !slices.Contains(s.unwanted(""), share) { // mapped again in the meantime
			return nil
		}
		by, err := c.usedBy(share, "")
		if err != nil || by != "" {
			return err
		}
		return c.remove(share)
	})
}
