package winfs

import (
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// MaxLinks is how many links one path may lead through; Windows itself gives
// up after 63 (Microsoft: "Reparse Points and File Operations").
const MaxLinks = 63

const (
	shareAll  = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE
	shareKeep = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE // it cannot be renamed or removed meanwhile

	traverse = win32.FILE_TRAVERSE | win32.FILE_READ_ATTRIBUTES | win32.SYNCHRONIZE
	look     = win32.FILE_READ_ATTRIBUTES | win32.SYNCHRONIZE
	// To list and hold: rights to attributes alone take no part in share modes.
	list = win32.FILE_LIST_DIRECTORY | traverse

	plain  = win32.FILE_SYNCHRONOUS_IO_NONALERT | win32.FILE_OPEN_FOR_BACKUP_INTENT
	itself = plain | win32.FILE_OPEN_REPARSE_POINT // a link, not where it leads

	noLinks = win32.OBJ_CASE_INSENSITIVE | win32.OBJ_DONT_REPARSE
)

// open opens one or more names below dir, following no link.
func (o *op) open(dir win32.Handle, name string, access, share, options uint32) (win32.Handle, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	return o.n.API.NtCreateFile(dir, name, access, noLinks, share, win32.FILE_OPEN, options)
}

// openRoot opens the root directory of a volume. The object manager's own links
// (`\??\C:` is one) are followed here, so OBJ_DONT_REPARSE cannot be asked for;
// a root has no links of the file system above it.
//
// A share is opened only if the node has a mapping of it, working or not: Windows
// answers whatever server a planted link names with the node's own account.
func (o *op) openRoot(p winpath.Path, access, share uint32) (win32.Handle, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	if p.IsUNC() && len(o.dirs) > 0 {
		uses, err := o.n.API.UseEnum()
		if err != nil {
			return 0, err
		}
		if !slices.ContainsFunc(uses, func(u win32.Use) bool { return winpath.Fold(u.Remote) == winpath.Fold(p.Volume) }) {
			return 0, o.denied(p, "which is on a share that is not mapped on this node")
		}
	}
	return o.n.API.NtCreateFile(0, p.Root().NT(), access, win32.OBJ_CASE_INSENSITIVE, share, win32.FILE_OPEN, plain|win32.FILE_DIRECTORY_FILE)
}

// close closes h. It fails only if h was not open, which is a mistake of ours.
func (o *op) close(h win32.Handle) {
	if err := o.n.API.CloseHandle(h); err != nil {
		o.n.Log.Error("close handle", "error", err)
	}
}

// spot is how far a walk came.
type spot struct {
	h    win32.Handle // what stands at the end or, with rest, the deepest directory that exists
	at   winpath.Path // where h is, links on the way replaced by where they lead
	rest []string     // names that do not exist below h
	// nowhere: the first of rest is part of where a link leads, not of the path
	// as given.
	nowhere bool
}

// walk follows p to its end, links included, as far as it exists. What stands at
// the end is opened with access, share and options. The caller closes the spot's
// handle.
// Nothing has been checked yet: that is for allow.
func (o *op) walk(p winpath.Path, access, share, options uint32, u use) (spot, error) {
	tail := len(p.Elems) // how many of p's last names are still those given
	for hops := 0; ; hops++ {
		if p.IsUNC() && u != reading && len(o.dirs) > 0 {
			return spot{}, o.denied(p, "which is on a share; shares may be looked at only")
		}
		s, link, err := o.descend(p, access, share, options)
		if err != nil {
			return spot{}, err
		}
		if link == nil {
			s.nowhere = len(s.rest) > tail
			return s, nil
		}
		if hops == MaxLinks {
			return spot{}, hosterr.Text(hosterr.ErrFailedPrecondition, "leads through more than %d links: %w", MaxLinks, win32.ERROR_CANT_RESOLVE_FILENAME)
		}
		target, err := link.from(s.at.Dir())
		if err != nil {
			return spot{}, err
		}
		tail = min(tail, len(s.rest))
		p = target.Join(s.rest...)
	}
}

// descend goes down from the root of p's volume to the end of p or to the first
// link. When there is one, link is it, the spot's at is its path, rest is what
// comes after it, and no handle is left open.
func (o *op) descend(p winpath.Path, access, share, options uint32) (s spot, link *Link, err error) {
	if p.IsRoot() {
		h, err := o.openRoot(p, access, share)
		return spot{h: h, at: p}, nil, err
	}
	dir, err := o.openRoot(p, traverse, shareAll)
	if err != nil {
		return spot{}, nil, err
	}
	// Most paths hold no links and are opened in one call.
	if len(p.Elems) > 1 {
		h, err := o.open(dir, strings.Join(p.Elems, `\`), access, share, options)
		if err == nil {
			o.close(dir)
			return spot{h: h, at: p}, nil, nil
		}
		if !win32.IsCode(err, win32.ERROR_REPARSE_POINT_ENCOUNTERED, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_DIRECTORY) {
			o.close(dir)
			return spot{}, nil, err
		}
	}
	for i := 0; i < len(p.Elems); i++ {
		name, last := p.Elems[i], i == len(p.Elems)-1
		at := winpath.Path{Volume: p.Volume, Elems: p.Elems[:i:i]}
		var h win32.Handle
		if last {
			h, err = o.open(dir, name, access, share, options)
		} else {
			h, err = o.open(dir, name, traverse, shareAll, plain|win32.FILE_DIRECTORY_FILE)
		}
		switch {
		case err == nil:
		case win32.IsCode(err, win32.ERROR_REPARSE_POINT_ENCOUNTERED):
			link, err := o.linkIn(dir, name)
			o.close(dir)
			return spot{at: at.Join(name), rest: p.Elems[i+1:]}, link, err
		case win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND):
			return spot{h: dir, at: at, rest: p.Elems[i:]}, nil, nil
		default:
			// What stands in the way is told only of places that are allowed.
			if denied := o.allow(dir, p.Elems[i:], reading); denied != nil {
				err = denied
			}
			o.close(dir)
			return spot{}, nil, err
		}
		o.close(dir)
		dir = h
	}
	return spot{h: dir, at: p}, nil, nil
}

// linkIn reads the link called name in dir.
func (o *op) linkIn(dir win32.Handle, name string) (*Link, error) {
	h, err := o.open(dir, name, look, shareAll, itself)
	if err != nil {
		return nil, err
	}
	defer o.close(h)
	link, ok, err := o.link(h)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, hosterr.Text(hosterr.ErrFailedPrecondition, "%s is a reparse point that cannot be followed, or changed just now: %w",
			hosterr.Quote(name), win32.ERROR_CANT_RESOLVE_FILENAME)
	}
	return &link, nil
}

// info asks what h is.
func (o *op) info(h win32.Handle) (Info, error) {
	buf := make([]byte, win32.SizeofAttributeTag)
	n, err := o.n.API.QueryInformation(h, win32.FileAttributeTagInformation, buf)
	if err != nil {
		return Info{}, err
	}
	tag, err := win32.DecodeAttributeTag(buf[:n])
	if err != nil {
		return Info{}, err
	}
	if tag.Attributes&win32.FILE_ATTRIBUTE_REPARSE_POINT == 0 {
		tag.ReparseTag = 0
	}
	return Info(tag), nil
}

// link reads where h leads, if h is a link that was opened itself.
func (o *op) link(h win32.Handle) (Link, bool, error) {
	info, err := o.info(h)
	if err != nil || !info.IsLink() {
		return Link{}, false, err
	}
	buf := make([]byte, win32.MAXIMUM_REPARSE_DATA_BUFFER_SIZE)
	n, err := o.n.API.DeviceIoControl(h, win32.FSCTL_GET_REPARSE_POINT, nil, buf)
	if win32.IsCode(err, win32.ERROR_NOT_A_REPARSE_POINT) {
		return Link{}, false, nil // it was unmounted just now
	}
	if err != nil {
		return Link{}, false, err
	}
	r, err := win32.DecodeReparse(buf[:n])
	if err != nil {
		return Link{}, false, err
	}
	link := Link{Reparse: r}
	if r.Tag == win32.IO_REPARSE_TAG_MOUNT_POINT {
		if p, err := winpath.FromNT(r.Substitute); err == nil && p.IsRoot() && winpath.IsVolumeRoot(p.String()) {
			link.Volume = p.String()
		}
	}
	return link, true, nil
}

// from is where a link in the directory dir leads.
func (l Link) from(dir winpath.Path) (winpath.Path, error) {
	bad := func() (winpath.Path, error) {
		return winpath.Path{}, hosterr.Text(hosterr.ErrFailedPrecondition,
			"a link in %s leads to %s, which is no path on a drive, volume or share: %w", hosterr.Quote(dir.String()), hosterr.Quote(l.Substitute), win32.ERROR_CANT_RESOLVE_FILENAME)
	}
	if !l.Relative {
		p, err := winpath.FromNT(l.Substitute)
		// A mount point leads to a local volume; a colon in a name opens a stream.
		if err != nil || p.IsUNC() && l.Tag == win32.IO_REPARSE_TAG_MOUNT_POINT || strings.Contains(strings.Join(p.Elems, `\`), ":") {
			return bad()
		}
		return p, nil
	}
	rest, p := l.Substitute, dir
	if below, ok := strings.CutPrefix(rest, `\`); ok {
		rest, p = below, dir.Root()
	}
	for _, e := range strings.Split(rest, `\`) {
		switch {
		case e == "" || e == ".":
		case e == ".." && !p.IsRoot():
			p = p.Dir()
		case e == "..", strings.ContainsAny(e, ":/"):
			return bad()
		default:
			p = p.Join(e)
		}
	}
	return p, nil
}

// follow opens what stands at the end of p, all links followed and its place
// checked.
func (o *op) follow(p winpath.Path, u use) (win32.Handle, error) {
	s, err := o.walk(p, look, shareAll, plain, u)
	if err != nil {
		return 0, err
	}
	if err := o.allow(s.h, s.rest, u); err != nil {
		o.close(s.h)
		return 0, err
	}
	if len(s.rest) > 0 {
		o.close(s.h)
		return 0, win32.ERROR_FILE_NOT_FOUND
	}
	return s.h, nil
}

// entry is what stands at a path, a link itself if it is one.
type entry struct {
	o   *op
	h   win32.Handle
	dir win32.Handle // the directory in which it is; 0 for the root of a volume
	at  winpath.Path // where it is, links on the way replaced by where they lead
}

func (e entry) close() {
	e.o.close(e.h)
	if e.dir != 0 {
		e.o.close(e.dir)
	}
}

// parent opens the directory of p, which is not a root, with links followed,
// and gives p's place in it. Its place is not checked yet.
func (o *op) parent(p winpath.Path, access, share uint32, u use) (win32.Handle, winpath.Path, error) {
	s, err := o.walk(p.Dir(), access, share, plain|win32.FILE_DIRECTORY_FILE, u)
	if err != nil {
		return 0, winpath.Path{}, err
	}
	if len(s.rest) > 0 {
		defer o.close(s.h)
		if err := o.allow(s.h, append(s.rest[:len(s.rest):len(s.rest)], p.Base()), u); err != nil {
			return 0, winpath.Path{}, err
		}
		return 0, winpath.Path{}, win32.ERROR_PATH_NOT_FOUND
	}
	return s.h, s.at.Join(p.Base()), nil
}

// entry opens what stands at p and checks its place.
func (o *op) entry(p winpath.Path, access, share uint32, u use) (entry, error) {
	return o.entryIn(p, traverse, shareAll, access, share, u)
}

// entryIn is entry with a say in how the directory is held.
func (o *op) entryIn(p winpath.Path, dirAccess, dirShare, access, share uint32, u use) (entry, error) {
	if p.IsRoot() {
		if u != reading {
			return entry{}, hosterr.Text(hosterr.ErrInvalid, "is the root of a volume")
		}
		h, err := o.openRoot(p, access|win32.SYNCHRONIZE, share)
		if err != nil {
			return entry{}, err
		}
		if err := o.allow(h, nil, u); err != nil {
			o.close(h)
			return entry{}, err
		}
		return entry{o: o, h: h, at: p}, nil
	}
	dir, at, err := o.parent(p, dirAccess, dirShare, u)
	if err != nil {
		return entry{}, err
	}
	h, err := o.open(dir, p.Base(), access|win32.SYNCHRONIZE, share, itself)
	if err != nil {
		// Whether something is there is told only of places that are allowed.
		if denied := o.allow(dir, []string{p.Base()}, u); denied != nil {
			err = denied
		}
		o.close(dir)
		return entry{}, err
	}
	e := entry{o: o, h: h, dir: dir, at: at}
	if err := o.allow(h, nil, u); err != nil {
		e.close()
		return entry{}, err
	}
	return e, nil
}
