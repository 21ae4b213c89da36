package winfs

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// The list of mapped shares is read again when it is older than sharesAge. If Windows takes
// longer than sharesWait, as it does while it waits for a server that is down, a share of
// the old list still counts as mapped.
const (
	sharesAge  = 3 * time.Second
	sharesWait = time.Second
)

// shares are the shares that are mapped on a node.
type shares struct {
	mu     sync.Mutex
	made   map[winpath.Share]bool // by this process
	listed map[winpath.Share]bool // by Windows
	drives map[string]bool        // of those that have a letter: "G:"
	at     time.Time
	// changes is how many mappings this process made and removed. A list that Windows gave before one
	// of them is out of date.
	changes int
}

func sharesOf(n *node.Node) *shares {
	return node.Shared(n, "mapped shares", func() *shares { return &shares{made: map[winpath.Share]bool{}} })
}

// ShareMapped informs the file operations of the node that this process has mapped a share.
func ShareMapped(n *node.Node, share winpath.Share) {
	s := sharesOf(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[share] = true
	s.changes++
}

// ShareUnmapped informs the file operations of the node that a share is no longer mapped.
func ShareUnmapped(n *node.Node, share winpath.Share) {
	s := sharesOf(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.made, share)
	delete(s.listed, share)
	s.changes++
}

// has returns whether the share was mapped when the process last knew, and whether that is
// certain.
func (s *shares) has(share winpath.Share, now time.Time) (mapped, certain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[share] {
		return true, true
	}
	return s.listed[share], !s.at.IsZero() && now.Sub(s.at) < sharesAge
}

// isMapped reports whether the node has a mapping of a share.
func (o *op) isMapped(share winpath.Share) (bool, error) {
	s := sharesOf(o.n)
	old, certain := s.has(share, o.n.Clock.Now())
	if certain {
		return old, nil
	}
	ctx := o.ctx
	if old {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(o.ctx, sharesWait)
		defer cancel()
	}
	err := o.listShares(ctx, s)
	if old && ctx.Err() != nil && o.ctx.Err() == nil {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	mapped, _ := s.has(share, o.n.Clock.Now())
	return mapped, nil
}

// isStillMapped is isMapped for a share that cannot be opened, perhaps because another
// program removed its mapping: Windows is asked.
func (o *op) isStillMapped(share winpath.Share) (bool, error) {
	s := sharesOf(o.n)
	if err := o.listShares(o.ctx, s); err != nil {
		return false, err
	}
	mapped, _ := s.has(share, o.n.Clock.Now())
	return mapped, nil
}

// isMappedDrive reports whether a drive that is none of a volume is a mapping of a share, which
// Windows is asked.
func (o *op) isMappedDrive(drive string) (bool, error) {
	s := sharesOf(o.n)
	if err := o.listShares(o.ctx, s); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drives[drive], nil
}

// isVolumeDrive reports whether a drive letter is that of a volume. The mount manager knows it
// without opening the drive, which may be on a server. The error is that of a volume whose letter is
// not known.
func (o *op) isVolumeDrive(drive string) (is bool, unknown error) {
	names, err := o.n.API.VolumeNames()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		paths, err := o.n.API.VolumePathNames(name)
		if err != nil && !isMissing(err) {
			unknown = hosterr.Wrap("look for the letter of volume", hosterr.Quote(name), err)
		}
		for _, path := range paths {
			if winpath.SameName(path, drive+`\`) {
				return true, nil
			}
		}
	}
	return false, unknown
}

// listShares asks Windows for the mapped shares. Callers at the same time share one call.
func (o *op) listShares(ctx context.Context, s *shares) error {
	return o.n.Join(ctx, "list mapped shares", func() error {
		for current := false; !current; {
			before := s.count()
			uses, err := o.n.API.UseEnum()
			if err != nil {
				return err
			}
			current = s.set(uses, before, o.n.Clock.Now())
		}
		return nil
	})
}

// count returns how many changes there were.
func (s *shares) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// set records what Windows listed, unless there were more changes since than before.
func (s *shares) set(uses []win32.Use, before int, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes != before {
		return false
	}
	s.listed, s.drives, s.at = map[winpath.Share]bool{}, map[string]bool{}, now
	for _, u := range uses {
		s.drives[winpath.Fold(u.Local)] = true
		if share, err := winpath.ParseShare(u.Remote); err == nil {
			s.listed[share] = true
		}
	}
	maps.DeleteFunc(s.made, func(share winpath.Share, _ bool) bool { return !s.listed[share] })
	return true
}
