package storage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// formats are the formats that this process began and that have not ended well, by the ID
// of their volume. What such a format leaves is its own, because the volume could be formatted
// before. So this process may finish it. Later, and on another node, the same bytes are data
// that is damaged.
type formats struct {
	mu  sync.Mutex
	all map[string]*begun
}

type begun struct {
	mu   sync.Mutex // a disk that does not answer keeps others from this record only
	disk *Disk      // as long as it is open, no other disk gets its number; nil at the end
	at   win32.Extent
	over []Found // what the format may overwrite, and is there until it does
}

func formatsOf(n *node.Node) *formats {
	return node.Shared(n, "formats", func() *formats { return &formats{all: map[string]*begun{}} })
}

// FormatBegins notes that the volume at this place of an open disk is being formatted. It
// takes over the disk, and closes it when the format ends: Windows may not let go of a
// disk that is open. With an error, it has noted nothing.
func FormatBegins(ctx context.Context, n *node.Node, id string, disk *Disk, at win32.Extent) error {
	over, err := overwrites(ctx, n, at)
	if err != nil {
		return hosterr.Wrap("look at what the format overwrites", "", err)
	}
	FormatEnds(n, id)
	f := formatsOf(n)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[strings.ToLower(id)] = &begun{disk: disk, at: at, over: over}
	return nil
}

// overwrites returns the content of a volume that is about to be formatted. There is none unless
// a rule of the node lets it be overwritten.
func overwrites(ctx context.Context, n *node.Node, at win32.Extent) ([]Found, error) {
	if !n.FormatExisting && n.DiskContent == rules.DiskContentStrict {
		return nil, nil
	}
	d, err := OpenDisk(ctx, n, at.Disk, Read)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := d.Layout(ctx)
	if err != nil {
		return nil, err
	}
	k, err := d.NewLook(ctx, at.Disk, l)
	if err != nil {
		return nil, err
	}
	all, _, err := d.look(ctx, k.In(Area{at.Offset, at.Length}))
	return all, err
}

// FormatMayLeave reports whether a format of the volume that was cut off may have left what was
// found: a part of an NTFS, or what it was about to overwrite.
func FormatMayLeave(n *node.Node, id string, found []Found) bool {
	f := formatsOf(n)
	f.mu.Lock()
	defer f.mu.Unlock()
	var over []Found
	if b := f.all[strings.ToLower(id)]; b != nil {
		over = b.over
	}
	return len(found) > 0 && !slices.ContainsFunc(found, func(f Found) bool { // without any, the look itself failed
		return !slices.Contains([]string{"", "NTFS", BootSector}, f.Kind) && !slices.Contains(over, f)
	})
}

// FormatBegun reports whether this process began to format the volume, whose disk was there
// since, is online, and which is mounted in no folder.
func FormatBegun(ctx context.Context, n *node.Node, id string) (bool, error) {
	f := formatsOf(n)
	f.mu.Lock()
	b := f.all[strings.ToLower(id)]
	f.mu.Unlock()
	if b == nil {
		return false, nil
	}
	lasts, err := b.lasts(ctx, n, id)
	if err != nil {
		return false, hosterr.Wrap("look for a format of this process", "", err)
	}
	if !lasts {
		FormatEnds(n, id)
	}
	return lasts, nil
}

// lasts reports whether the volume is still what it was when its format began.
func (b *begun) lasts(ctx context.Context, n *node.Node, id string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.disk == nil {
		return false, nil
	}
	gone := func(err error) (bool, error) {
		if errors.Is(Gone(err), hosterr.ErrNotFound) {
			return false, nil
		}
		return false, err
	}
	es, offline, err := Locate(ctx, n, id)
	if offline {
		return false, nil
	}
	if err != nil || len(es) != 1 || es[0].Disk != b.at.Disk || es[0].Offset != b.at.Offset {
		return gone(err)
	}
	attrs, err := b.disk.WithoutRetry().Attributes(ctx)
	if err != nil || attrs&win32.DISK_ATTRIBUTE_OFFLINE != 0 {
		return gone(err)
	}
	folders, err := MountFolders(n, id)
	if err != nil {
		return gone(err)
	}
	return len(folders) == 0, nil
}

// FormatEnds forgets the format of a volume, which has succeeded or is about to be mounted.
func FormatEnds(n *node.Node, id string) {
	endFormats(n, func(of string, _ *begun) bool { return of == strings.ToLower(id) })
}

// FormatsEnd forgets the formats of a disk that is about to go.
func FormatsEnd(n *node.Node, disk uint32) {
	endFormats(n, func(_ string, b *begun) bool { return b.at.Disk == disk })
}

func endFormats(n *node.Node, which func(id string, b *begun) bool) {
	var ended []*begun
	f := formatsOf(n)
	f.mu.Lock()
	for id, b := range f.all {
		if which(id, b) {
			delete(f.all, id)
			ended = append(ended, b)
		}
	}
	f.mu.Unlock()
	for _, b := range ended {
		b.mu.Lock()
		b.disk.Close()
		b.disk = nil
		b.mu.Unlock()
	}
}

// forgetLostFormats forgets the formats of disks that are gone.
func forgetLostFormats(ctx context.Context, n *node.Node) {
	f := formatsOf(n)
	f.mu.Lock()
	var ids []string
	for id := range f.all {
		ids = append(ids, id)
	}
	f.mu.Unlock()
	for _, id := range ids {
		FormatBegun(ctx, n, id)
	}
}
