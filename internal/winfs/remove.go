package winfs

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// The limits of one recursive removal.
const (
	// MaxDepth is how many levels of directories are open at a time. Deeper trees are
	// removed in sections of this depth.
	MaxDepth = 1000
	// maxSections is the number of sections whose first directory is open at a time.
	maxSections = 100
	// MaxRemoved is the number of entries that one call removes. For more entries the
	// caller must repeat the call.
	MaxRemoved = 1_000_000
	// MaxSearched is the number of entries that are searched for volume mount points
	// before anything is removed. In larger trees, some are found only during removal.
	MaxSearched = 100_000
)

const remove = win32.DELETE | win32.FILE_WRITE_ATTRIBUTES | look

// opening calls open with the rights with which an entry is removed, and with fewer while
// its access control list does not grant them. The right to write attributes is needed
// only by file systems without POSIX deletes, the others only for directories with entries.
// Removing needs nothing but DELETE.
func opening(extra uint32, open func(access uint32) error) error {
	var err error
	for i, access := range []uint32{remove | extra, win32.DELETE | look | extra, win32.DELETE | win32.SYNCHRONIZE} {
		if next := open(access); i == 0 || next == nil {
			err = next
		}
		if !errors.Is(err, win32.STATUS_ACCESS_DENIED) {
			break
		}
	}
	return err
}

// Remove removes the file, empty directory, link or mount point at path. It follows
// links in the directory part of path, but not a link at path itself. It fails with
// hosterr.ErrNotFound if path does not exist, and with hosterr.ErrFailedPrecondition
// if the directory is not empty. For a mount point it flushes the volume and removes
// the mount manager's record, too; the volume and its files are kept.
func Remove(ctx context.Context, n *node.Node, path string) error {
	return run(ctx, n, "remove", path, func(o *op, p winpath.Path) error {
		return o.removeAt(p, func(h win32.Handle, _ Info) error { return o.delete(h) })
	})
}

// RemoveAll removes a whole tree. It succeeds if path does not exist. Links in the tree
// are removed and never followed. If the tree contains a volume mount point, RemoveAll
// removes nothing and fails with hosterr.ErrFailedPrecondition: the volume must be
// unmounted first. After any other error it still removes the other entries, and
// returns the first error.
func RemoveAll(ctx context.Context, n *node.Node, path string) error {
	return run(ctx, n, "remove", path, func(o *op, p winpath.Path) error {
		err := o.removeAt(p, func(h win32.Handle, info Info) error {
			if !info.IsDir() || info.IsLink() {
				return o.delete(h)
			}
			if err := o.search(h, p); err != nil {
				return err
			}
			o.modified = true
			r := removal{op: o, left: MaxRemoved}
			r.sections(p, func() bool { return r.directory(h, p, 0) })
			return r.err
		})
		if isMissing(err) {
			return nil
		}
		return err
	})
}

// RemoveContents removes the contents of the directory at path like RemoveAll, and keeps
// the directory. It fails if path is a link or mount point.
func RemoveContents(ctx context.Context, n *node.Node, path string) error {
	return run(ctx, n, "empty directory", path, func(o *op, p winpath.Path) error {
		e, err := o.entry(p, list, changing)
		if err != nil {
			return err
		}
		defer e.close()
		info, err := o.info(e.h)
		switch {
		case err != nil:
			return err
		case info.IsLink():
			return hosterr.Text(hosterr.ErrFailedPrecondition, "is a link or mount point, not a directory: %w", win32.ERROR_DIRECTORY)
		case !info.IsDir():
			return hosterr.Text(hosterr.ErrFailedPrecondition, "is not a directory: %w", win32.ERROR_DIRECTORY)
		}
		if err := o.search(e.h, p); err != nil {
			return err
		}
		o.modified = true
		r := removal{op: o, left: MaxRemoved}
		r.sections(p, func() bool { return r.clear(e.h, p, 0) })
		return r.err
	})
}

// removeAt opens p for removal and calls do. If p is a volume mount point, it unmounts
// the volume first, but only once: a volume that is mounted after that is in use.
func (o *op) removeAt(p winpath.Path, do func(win32.Handle, Info) error) error {
	for {
		var e entry
		err := o.retry(func() error {
			return opening(list, func(access uint32) (err error) {
				e, err = o.entry(p, access, changing)
				return err
			})
		})
		if err != nil {
			return err
		}
		link, _, err := o.link(e.h)
		if err == nil && link.Volume != "" {
			e.close()
			if o.unmounted {
				return errMounted(p)
			}
			storage.FlushBeforeUnmount(o.ctx, o.n, link.Volume)
			if err := o.unmount(p); err != nil && !win32.IsCode(err, win32.ERROR_NOT_A_REPARSE_POINT) { // another process has unmounted it
				return err
			}
			o.unmounted = true
			continue
		}
		defer e.close()
		if err != nil {
			return err
		}
		info, err := o.info(e.h)
		if err != nil {
			return err
		}
		return do(e.h, info)
	}
}

// unmount removes the mount point at p and keeps the empty directory. The caller must
// have closed handles with the right to delete, because DeleteVolumeMountPoint opens
// the directory.
func (o *op) unmount(p winpath.Path) error {
	held, err := o.hold(p)
	if err != nil {
		return err
	}
	defer held.Close()
	if err := o.ctx.Err(); err != nil {
		return err
	}
	return held.Unmount()
}

func errMounted(p winpath.Path) error {
	return hosterr.Text(hosterr.ErrFailedPrecondition, "a volume is mounted on %s; unmount it first", hosterr.Quote(p.String()))
}

// delete deletes the file of h, with retries. It succeeds if another process has
// deleted the file.
func (o *op) delete(h win32.Handle) error {
	return o.poll(func() (bool, error) {
		if err := o.ctx.Err(); err != nil {
			return true, err
		}
		err := o.markDeleted(h)
		if errors.Is(err, win32.STATUS_FILE_DELETED) {
			return true, nil
		}
		return win32.IsCode(err, win32.ERROR_DIR_NOT_EMPTY) || !inUse(err), err
	})
}

// markDeleted deletes the file of h. Its name is removed when h is closed, even if the
// file has other open handles. File systems and Windows versions that do not support
// this (FAT, before 1809) remove the name when the last handle is closed.
func (o *op) markDeleted(h win32.Handle) error {
	err := o.n.API.SetInformation(h, win32.FileDispositionInformationEx, win32.EncodeDisposition(
		win32.FILE_DISPOSITION_DELETE|win32.FILE_DISPOSITION_POSIX_SEMANTICS|
			win32.FILE_DISPOSITION_FORCE_IMAGE_SECTION_CHECK|win32.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE))
	if !win32.IsCode(err, win32.ERROR_INVALID_PARAMETER, win32.ERROR_NOT_SUPPORTED, win32.ERROR_INVALID_FUNCTION) {
		return err
	}
	info, err := o.info(h)
	if err != nil {
		return err
	}
	if info.Attributes&win32.FILE_ATTRIBUTE_READONLY != 0 {
		if err := o.n.API.SetInformation(h, win32.FileBasicInformation, basicAttributes(info.Attributes&^win32.FILE_ATTRIBUTE_READONLY)); err != nil {
			return err
		}
	}
	return o.n.API.SetInformation(h, win32.FileDispositionInformation, []byte{1})
}

// basicAttributes returns a FILE_BASIC_INFORMATION that sets the attributes and does not
// change the four times.
func basicAttributes(attrs uint32) []byte {
	b := make([]byte, 40)
	if attrs == 0 {
		attrs = win32.FILE_ATTRIBUTE_NORMAL // 0 would mean "do not change"
	}
	binary.LittleEndian.PutUint32(b[32:], attrs)
	return b
}

// entries calls each for every entry of dir, until each returns an error.
func (o *op) entries(dir win32.Handle, each func(win32.DirEntry) error) error {
	buf := make([]byte, 16*1024)
	for restart := true; ; restart = false {
		if err := o.ctx.Err(); err != nil {
			return err
		}
		n, err := o.n.API.QueryDirectory(dir, restart, buf)
		if status, ok := err.(win32.NTStatus); ok && (status == win32.STATUS_NO_MORE_FILES || status == win32.STATUS_NO_SUCH_FILE) {
			return nil
		}
		if err != nil {
			return err
		}
		found, err := win32.DecodeDirectory(buf[:n])
		if err != nil {
			return err
		}
		for _, e := range found {
			if e.Name == "." || e.Name == ".." {
				continue
			}
			if err := each(e); err != nil {
				return err
			}
		}
	}
}

// search searches at most MaxSearched entries below dir for volume mount points. If it
// finds one, it returns an error that names it. It skips entries that cannot be opened,
// because their removal will fail with the reason.
func (o *op) search(dir win32.Handle, p winpath.Path) error {
	left, depth := MaxSearched, len(p.Elems)
	var walk func(dir win32.Handle, p winpath.Path) error
	walk = func(dir win32.Handle, p winpath.Path) error {
		err := o.entries(dir, func(d win32.DirEntry) error {
			if left--; left < 0 {
				return nil
			}
			mount := d.ReparseTag == win32.IO_REPARSE_TAG_MOUNT_POINT
			info := Info{Attributes: d.Attributes, ReparseTag: d.ReparseTag}
			if !mount && (!info.IsDir() || info.IsLink()) {
				return nil
			}
			at := p.Join(d.Name)
			if len(at.Elems)-depth > MaxDepth {
				return nil // its volume mount points are found during removal
			}
			access := uint32(look)
			if !mount {
				access = list
			}
			var h win32.Handle
			err := o.poll(func() (_ bool, err error) { // the removal waits for it, too
				h, err = o.open(dir, d.Name, access, shareAll, openReparse)
				return !win32.IsCode(err, win32.ERROR_SHARING_VIOLATION), err
			})
			if IsAway(err) {
				return err
			}
			if err != nil {
				return o.ctx.Err()
			}
			defer o.close(h)
			if !mount {
				return walk(h, at)
			}
			link, _, err := o.link(h)
			switch {
			case IsAway(err):
				return err
			case err == nil && link.Volume != "":
				return errMounted(at)
			}
			return nil
		})
		if hosterr.KindOf(err) == nil && !IsAway(err) {
			return o.ctx.Err()
		}
		return err
	}
	return walk(dir, p)
}

// removal is the removal of one tree.
type removal struct {
	*op
	left int
	err  error // the first error
	stop bool  // do not continue after err

	deep    win32.Handle // the directory at which the next section begins
	shallow bool         // do not begin another section, because one could not be cleared
}

// section is a part of a tree, beginning with the directory h.
type section struct {
	h win32.Handle
	p winpath.Path
}

// sections calls whole, which removes the tree at p. Each time that whole meets a
// directory that is too deep, its contents are removed first. There is neither recursion
// nor a handle for each level, so a tree may have any depth.
func (r *removal) sections(p winpath.Path, whole func() bool) {
	open := []section{}
	defer func() {
		for _, s := range open {
			r.close(s.h)
		}
	}()
	for {
		clean := false
		if len(open) == 0 {
			clean = whole()
		} else {
			last := open[len(open)-1]
			clean = r.clear(last.h, last.p, 0)
		}
		switch {
		case r.deep != 0:
			if len(open) == maxSections {
				for _, s := range open {
					r.close(s.h)
				}
				open = nil
			}
			// The whole path would take memory for each level.
			open = append(open, section{r.deep, p.Join("…")})
			r.deep = 0
		case len(open) == 0 || r.stop:
			return
		default:
			r.shallow = r.shallow || !clean
			r.close(open[len(open)-1].h)
			open = open[:len(open)-1]
		}
	}
}

// errDeeper ends a section.
var errDeeper = errors.New("the tree is deeper")

func (r *removal) failed(p winpath.Path, err error) {
	if r.err == nil || r.ctx.Err() != nil {
		r.err = hosterr.Wrap("remove", hosterr.Quote(p.String()), typed(err))
	}
	r.stop = r.stop || r.ctx.Err() != nil
}

// clear removes the contents of dir and reports whether dir is empty.
func (r *removal) clear(dir win32.Handle, p winpath.Path, depth int) bool {
	clean, err := r.empty(dir, p, depth)
	if err != nil {
		r.failed(p, err)
	}
	return clean
}

// empty is clear, but returns the error if dir itself cannot be listed.
func (r *removal) empty(dir win32.Handle, p winpath.Path, depth int) (bool, error) {
	for {
		clean, found := true, false
		err := r.entries(dir, func(d win32.DirEntry) error {
			found = true
			if !r.removeEntry(dir, d, p.Join(d.Name), depth) {
				clean = false
			}
			if r.stop || r.deep != 0 {
				return errDeeper
			}
			return nil
		})
		if r.stop || r.deep != 0 {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		// Some file systems skip entries while others are removed, so list dir again
		// until it is empty.
		if !found || !clean {
			return clean, nil
		}
	}
}

// removeEntry removes the entry d of dir with everything below it.
func (r *removal) removeEntry(dir win32.Handle, d win32.DirEntry, p winpath.Path, depth int) bool {
	if r.left--; r.left < 0 {
		r.err = hosterr.Text(hosterr.ErrUnavailable, "removed %d entries, and more are left; repeat the call", MaxRemoved)
		r.stop = true
		return false
	}
	extra := uint32(0)
	if d.Attributes&win32.FILE_ATTRIBUTE_DIRECTORY != 0 {
		extra = list
	}
	var h win32.Handle
	missing := false
	err := r.poll(func() (_ bool, err error) {
		err = opening(extra, func(access uint32) (err error) {
			h, err = r.open(dir, d.Name, access, shareAll, openReparse)
			return err
		})
		missing = isMissing(err) || errors.Is(err, win32.STATUS_DELETE_PENDING) && r.gone(dir)
		return missing || !inUse(err), err
	})
	if missing {
		return true
	}
	if err != nil {
		r.failed(p, err)
		return false
	}
	defer func() {
		if h != r.deep {
			r.close(h)
		}
	}()
	link, linked, err := r.link(h)
	if err == nil && link.Volume != "" {
		r.err, r.stop = errMounted(p), true
		return false
	}
	var info Info
	if err == nil {
		info, err = r.info(h)
	}
	if err != nil {
		r.failed(p, err)
		return false
	}
	if info.IsDir() && !linked {
		if depth < MaxDepth {
			return r.directory(h, p, depth+1)
		}
		err := r.delete(h)
		switch {
		case err == nil:
			return true
		case !win32.IsCode(err, win32.ERROR_DIR_NOT_EMPTY):
			r.failed(p, err)
		case !r.shallow:
			r.deep = h
		}
		return false
	}
	if err := r.delete(h); err != nil {
		r.failed(p, err)
		return false
	}
	return true
}

// gone reports whether another process has removed dir itself.
func (r *removal) gone(dir win32.Handle) bool {
	_, _, err := r.finalPath(dir, win32.VOLUME_NAME_GUID)
	return errors.Is(err, win32.STATUS_FILE_DELETED)
}

// directory removes the directory h with everything below it.
func (r *removal) directory(h win32.Handle, p winpath.Path, depth int) bool {
	cleared := false
	err := r.poll(func() (bool, error) {
		var unlisted error
		if cleared, unlisted = r.empty(h, p, depth); !cleared && !errors.Is(unlisted, win32.STATUS_ACCESS_DENIED) {
			return true, unlisted
		}
		err := r.delete(h)
		if unlisted != nil {
			// Without the right to list it, only an empty directory can be removed.
			if cleared = err == nil; !cleared {
				err = unlisted
			}
			return true, err
		}
		// If it is not empty, another process created an entry, or has an open handle
		// to a deleted one.
		return !win32.IsCode(err, win32.ERROR_DIR_NOT_EMPTY), err
	})
	if err != nil {
		r.failed(p, err)
	}
	return cleared && err == nil
}
