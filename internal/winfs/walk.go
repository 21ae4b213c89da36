package winfs

import (
	"errors"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// MaxLinks is the maximum number of links in the resolution of a path; it is the limit
// of Windows (Microsoft: "Reparse Points and File Operations").
const MaxLinks = 63

// maxOpens is how many opens an operation may use to resolve paths. Links of a container
// can lead through each other in a way that needs thousands.
const maxOpens = 1000

const (
	shareAll  = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE
	shareKeep = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE // prevents renaming and removal

	traverse = win32.FILE_TRAVERSE | win32.FILE_READ_ATTRIBUTES | win32.SYNCHRONIZE
	look     = win32.FILE_READ_ATTRIBUTES | win32.SYNCHRONIZE
	// Listing a directory also holds it: share modes do not apply to handles that only
	// access attributes.
	list = win32.FILE_LIST_DIRECTORY | traverse

	plain       = win32.FILE_SYNCHRONOUS_IO_NONALERT | win32.FILE_OPEN_FOR_BACKUP_INTENT
	openReparse = plain | win32.FILE_OPEN_REPARSE_POINT // opens a link instead of its target

	noLinks = win32.OBJ_CASE_INSENSITIVE | win32.OBJ_DONT_REPARSE
)

// open opens one or more names below dir, without following links.
func (o *op) open(dir win32.Handle, name string, access, share, options uint32) (win32.Handle, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	return o.n.API.NtCreateFile(dir, name, access, noLinks, share, win32.FILE_OPEN, options)
}

// step is open while a path is resolved.
func (o *op) step(dir win32.Handle, name string, access, share, options uint32) (win32.Handle, error) {
	if o.steps++; o.steps > maxOpens {
		return 0, tooFar("it", maxOpens, "directories")
	}
	return o.open(dir, name, access, share, options)
}

// tooFar refuses a path that cannot be resolved within the limits.
func tooFar(what string, most int, of string) error {
	return hosterr.Text(hosterr.ErrFailedPrecondition, "%s leads through more than %d %s; links may lead to each other: %w", what, most, of, win32.ERROR_CANT_RESOLVE_FILENAME)
}

// openRoot opens the root directory of a volume. It must follow links of the object
// manager, such as `\??\C:`, so it cannot use OBJ_DONT_REPARSE; there are no links of
// the file system above a root.
//
// It opens a share only if the node has a mapping of it, which need not work. A
// container could create a link to any server, and Windows would log in there with the
// node's account.
//
// To pass through, the root of one local volume is opened once for all of an operation.
func (o *op) openRoot(p winpath.Path, access, share uint32) (win32.Handle, error) {
	if access != traverse || share != shareAll || p.IsUNC() {
		return o.openRootNow(p, access, share)
	}
	if o.root != 0 && o.volume == p.Volume {
		return o.root, o.ctx.Err()
	}
	h, err := o.openRootNow(p, access, share)
	if err == nil && o.root == 0 {
		o.root, o.volume = h, p.Volume
	}
	return h, err
}

// closeRoot closes the root that openRoot keeps.
func (o *op) closeRoot() {
	if h := o.root; h != 0 {
		o.root = 0
		o.close(h)
	}
}

func (o *op) openRootNow(p winpath.Path, access, share uint32) (win32.Handle, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	remote, shared := p.Share()
	if o.closed && p.IsUNC() {
		mapped, err := o.isMapped(remote)
		if err == nil {
			err = &closedError{o.denied(p, "which is on a share"), mapped}
		}
		return 0, err
	}
	if o.closed && len(p.Volume) == len("C:") {
		if local, unknown := o.isVolumeDrive(p.Volume); !local {
			mapped, err := o.isMappedDrive(p.Volume)
			if err == nil && !mapped {
				err = unknown // the drive may be that of a volume
			}
			if err == nil {
				err = &closedError{o.denied(p, "which is on a drive of no volume of this node"), mapped}
			}
			return 0, err
		}
	}
	guarded := shared && len(o.dirs) > 0
	unmapped := func() error {
		return &unmappedError{o.denied(p, "which is on a share that is not mapped on this node")}
	}
	if guarded {
		mapped, err := o.isMapped(remote)
		if err != nil {
			return 0, err
		}
		if !mapped {
			return 0, unmapped()
		}
	}
	h, err := o.n.API.NtCreateFile(0, p.Root().NT(), access, win32.OBJ_CASE_INSENSITIVE, share, win32.FILE_OPEN, plain|win32.FILE_DIRECTORY_FILE)
	if err != nil && guarded {
		if mapped, failed := o.isStillMapped(remote); failed == nil && !mapped {
			return 0, unmapped()
		}
	}
	return h, err
}

// unmappedError refuses a path on a share of which the node has no mapping.
type unmappedError struct{ error }

func (e *unmappedError) Unwrap() error { return e.error }

// close closes h, unless it is a root that stays open. It fails only if h is not open,
// which is a bug.
func (o *op) close(h win32.Handle) {
	if h == o.root {
		return
	}
	if err := o.n.API.CloseHandle(h); err != nil {
		o.n.Log.Error("Failed to close handle", "err", err)
	}
}

// position is the result of a walk.
type position struct {
	h    win32.Handle // the end of the path or, if rest is not empty, the deepest existing directory
	at   winpath.Path // the path of h with links resolved
	rest []string     // names that do not exist below h
	// targetMissing is true if the first name in rest belongs to the target of a link,
	// and not to the given path.
	targetMissing bool
}

// walk follows p, including links, as far as it exists. It opens the end of the path
// with access, share and options. The caller closes the handle of the position. walk
// checks no permission: the caller must call allow.
func (o *op) walk(p winpath.Path, access, share, options uint32, u intent) (position, error) {
	return o.walkOn(p, 0, access, share, options, u)
}

// walkOn is walk after a number of links.
func (o *op) walkOn(p winpath.Path, hops int, access, share, options uint32, u intent) (position, error) {
	first := "it"        // the first link on the way, for errors; others may be at locations that must not be read
	tail := len(p.Elems) // number of names at the end of p that come from the given path
	for ; ; hops++ {
		if p.IsUNC() && u > linking && len(o.dirs) > 0 {
			return position{}, o.denied(p, "which is on a share; shares can only be read")
		}
		s, link, err := o.descend(p, access, share, options)
		if err != nil && o.steps > maxOpens {
			return position{}, tooFar(first, maxOpens, "directories")
		}
		if err != nil {
			return position{}, err
		}
		if link == nil {
			s.targetMissing = len(s.rest) > tail
			return s, nil
		}
		if hops == MaxLinks {
			return position{}, tooFar(first, MaxLinks, "links")
		}
		if first == "it" {
			first = "the link " + hosterr.Quote(s.at.String())
		}
		target, err := link.from(s.at.Dir())
		if err != nil {
			return position{}, err
		}
		tail = min(tail, len(s.rest))
		p = target.Join(s.rest...)
	}
}

// descend opens p from the root of its volume, up to the end or to the first link. If
// there is a link, it returns the link; the position then has the path of the link and
// the names after it, and no open handle.
func (o *op) descend(p winpath.Path, access, share, options uint32) (s position, link *Link, err error) {
	if p.IsRoot() {
		h, err := o.openRoot(p, access, share)
		return position{h: h, at: p}, nil, err
	}
	dir, err := o.openRoot(p, traverse, shareAll)
	if err != nil {
		return position{}, nil, err
	}
	// Most paths have no links and can be opened in one call.
	if len(p.Elems) > 1 {
		h, err := o.step(dir, strings.Join(p.Elems, `\`), access, share, options)
		if err == nil {
			o.close(dir)
			return position{h: h, at: p}, nil, nil
		}
		if !isOnTheWay(err) {
			defer o.close(dir)
			return position{}, nil, o.hidden(dir, p.Elems, err)
		}
	}
	dir, opened, err := o.deepest(dir, p)
	if err != nil {
		return position{}, nil, err
	}
	for i := opened; i < len(p.Elems); i++ {
		name, last := p.Elems[i], i == len(p.Elems)-1
		at := winpath.Path{Volume: p.Volume, Elems: p.Elems[:i:i]}
		var h win32.Handle
		if last {
			h, err = o.step(dir, name, access, share, options)
		} else {
			h, err = o.step(dir, name, traverse, shareAll, plain|win32.FILE_DIRECTORY_FILE)
		}
		switch {
		case err == nil:
		case win32.IsCode(err, win32.ERROR_REPARSE_POINT_ENCOUNTERED):
			link, err := o.linkIn(dir, name)
			o.close(dir)
			return position{at: at.Join(name), rest: p.Elems[i+1:]}, link, err
		case win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND):
			return position{h: dir, at: at, rest: p.Elems[i:]}, nil, nil
		default:
			err = o.hidden(dir, p.Elems[i:], err)
			o.close(dir)
			return position{}, nil, err
		}
		o.close(dir)
		dir = h
	}
	return position{h: dir, at: p}, nil, nil
}

// deepest opens the deepest directory above p that exists and has no links above it, below
// the root of the volume. What is wanted is nearly always missing or a link near its end, so
// it looks from there. After sixteen names it takes longer and longer steps, and may then
// open a directory above that one: by its links, a container makes paths of 16,000 names.
// It returns how many names of p the directory has. With 0 it is root; otherwise root is
// closed.
func (o *op) deepest(root win32.Handle, p winpath.Path) (dir win32.Handle, names int, err error) {
	const single = 16
	for n, tries := len(p.Elems)-1, 1; n > 0; n, tries = n-1<<max(0, tries-single), tries+1 {
		h, err := o.step(root, strings.Join(p.Elems[:n], `\`), traverse, shareAll, plain|win32.FILE_DIRECTORY_FILE)
		if err == nil {
			o.close(root)
			return h, n, nil
		}
		if !isOnTheWay(err) {
			defer o.close(root)
			return 0, 0, o.hidden(root, p.Elems, err)
		}
	}
	return root, 0, nil
}

// isOnTheWay reports whether err means that a path of several names cannot be opened in one
// call, because of a link or something that is missing.
func isOnTheWay(err error) bool {
	return win32.IsCode(err, win32.ERROR_REPARSE_POINT_ENCOUNTERED, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_DIRECTORY)
}

// hidden returns err, or why rest below h must not be read, so that an error does not reveal
// what exists at a location that is not allowed.
func (o *op) hidden(h win32.Handle, rest []string, err error) error {
	if denied := o.allow(h, rest, reading); denied != nil {
		return denied
	}
	return err
}

// linkIn reads the link name in dir.
func (o *op) linkIn(dir win32.Handle, name string) (*Link, error) {
	h, err := o.step(dir, name, look, shareAll, openReparse)
	if err != nil {
		return nil, err
	}
	defer o.close(h)
	link, ok, err := o.link(h)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, hosterr.Text(hosterr.ErrFailedPrecondition, "%s is a reparse point that cannot be followed, or it changed at the same time: %w",
			hosterr.Quote(name), win32.ERROR_CANT_RESOLVE_FILENAME)
	}
	return &link, nil
}

// info returns the Info of h.
func (o *op) info(h win32.Handle) (Info, error) {
	buf := make([]byte, win32.SizeofAttributeTag)
	n, err := o.n.API.QueryInformation(h, win32.FileAttributeTagInformation, buf)
	if errors.Is(err, win32.STATUS_ACCESS_DENIED) {
		return o.kind(h)
	}
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

// kind returns the Info of an h without the right to read attributes, from what needs no
// right: whether it is a directory, and its reparse tag.
func (o *op) kind(h win32.Handle) (Info, error) {
	buf := make([]byte, win32.SizeofFileStandard)
	n, err := o.n.API.QueryInformation(h, win32.FileStandardInformation, buf)
	if err != nil {
		return Info{}, err
	}
	standard, err := win32.DecodeFileStandard(buf[:n])
	if err != nil {
		return Info{}, err
	}
	var info Info
	if standard.Directory {
		info.Attributes = win32.FILE_ATTRIBUTE_DIRECTORY
	}
	data := make([]byte, win32.MAXIMUM_REPARSE_DATA_BUFFER_SIZE)
	n, err = o.n.API.DeviceIoControl(h, win32.FSCTL_GET_REPARSE_POINT, nil, data)
	if win32.IsCode(err, win32.ERROR_NOT_A_REPARSE_POINT) {
		return info, nil
	}
	if err != nil {
		return Info{}, err
	}
	r, err := win32.DecodeReparse(data[:n])
	info.Attributes |= win32.FILE_ATTRIBUTE_REPARSE_POINT
	info.ReparseTag = r.Tag
	return info, err
}

// link returns the target of h if h is a link that was opened with openReparse. Of another
// reparse point, it returns the tag and false.
func (o *op) link(h win32.Handle) (Link, bool, error) {
	info, err := o.info(h)
	if err != nil || !info.IsLink() {
		return Link{Reparse: win32.Reparse{Tag: info.ReparseTag}}, false, err
	}
	buf := make([]byte, win32.MAXIMUM_REPARSE_DATA_BUFFER_SIZE)
	n, err := o.n.API.DeviceIoControl(h, win32.FSCTL_GET_REPARSE_POINT, nil, buf)
	if win32.IsCode(err, win32.ERROR_NOT_A_REPARSE_POINT) {
		return Link{}, false, nil // it was unmounted at the same time
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

// from returns the target of a link in the directory dir.
func (l Link) from(dir winpath.Path) (winpath.Path, error) {
	bad := func() (winpath.Path, error) {
		return winpath.Path{}, hosterr.Text(hosterr.ErrFailedPrecondition,
			"a link in %s leads to %s, which is not a path on a drive, volume or share: %w", hosterr.Quote(dir.String()), hosterr.Quote(l.Substitute), win32.ERROR_CANT_RESOLVE_FILENAME)
	}
	if !l.Relative {
		p, err := winpath.FromNT(l.Substitute)
		// A mount point must lead to a local volume; a colon in a name opens a stream.
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

// follow opens p, following all links, and checks the location.
func (o *op) follow(p winpath.Path, u intent) (win32.Handle, error) {
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

// entry is an open file, directory or link.
type entry struct {
	o   *op
	h   win32.Handle
	dir win32.Handle // its directory; 0 for the root of a volume
	at  winpath.Path // its path with links resolved
}

func (e entry) close() {
	e.o.close(e.h)
	if e.dir != 0 {
		e.o.close(e.dir)
	}
}

// parent opens the directory of p, which must not be a root, following links. It also
// returns the path of p with those links resolved. It does not check the location.
func (o *op) parent(p winpath.Path, access, share uint32, u intent) (win32.Handle, winpath.Path, error) {
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

// entry opens p, without following a link at p itself, and checks the location.
func (o *op) entry(p winpath.Path, access uint32, u intent) (entry, error) {
	return o.entryIn(p, traverse, shareAll, access, u)
}

// entryIn is like entry, with access and share mode for the directory.
func (o *op) entryIn(p winpath.Path, dirAccess, dirShare, access uint32, u intent) (entry, error) {
	if p.IsRoot() {
		if u != reading {
			return entry{}, hosterr.Text(hosterr.ErrInvalid, "is the root of a volume")
		}
		h, err := o.openRoot(p, access|win32.SYNCHRONIZE, shareAll)
		if err != nil {
			return entry{}, err
		}
		if err := o.allow(h, nil, u); err != nil {
			o.close(h)
			return entry{}, err
		}
		return entry{o: o, h: h, at: p}, nil
	}
	if u == reading && dirAccess == traverse {
		if e, found, err := o.direct(p, access); found {
			return e, err
		}
	}
	dir, at, err := o.parent(p, dirAccess, dirShare, u)
	if err != nil {
		return entry{}, err
	}
	h, err := o.open(dir, p.Base(), access|win32.SYNCHRONIZE, shareAll, openReparse)
	if err != nil {
		// Do not reveal whether something exists at a location that is not allowed.
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

// direct is entry for reading, in one call if there are no links above p. found is false if
// there may be. The entry has no directory.
func (o *op) direct(p winpath.Path, access uint32) (e entry, found bool, err error) {
	root, err := o.openRoot(p, traverse, shareAll)
	if err != nil {
		return entry{}, true, err
	}
	defer o.close(root)
	h, err := o.open(root, strings.Join(p.Elems, `\`), access|win32.SYNCHRONIZE, shareAll, openReparse)
	switch {
	case err == nil:
		if err := o.allow(h, nil, reading); err != nil {
			o.close(h)
			return entry{}, true, err
		}
		return entry{o: o, h: h, at: p}, true, nil
	case !isOnTheWay(err):
		return entry{}, true, o.hidden(root, p.Elems, err)
	case !win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND) || len(p.Elems) == 1:
		return entry{}, false, nil
	}
	dir, failed := o.open(root, strings.Join(p.Dir().Elems, `\`), traverse, shareAll, plain|win32.FILE_DIRECTORY_FILE)
	switch {
	case failed == nil:
		defer o.close(dir)
		return entry{}, true, o.hidden(dir, []string{p.Base()}, err)
	case !isOnTheWay(failed):
		return entry{}, true, o.hidden(root, p.Elems, failed)
	}
	return entry{}, false, nil
}
