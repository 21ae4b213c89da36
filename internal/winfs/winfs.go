// Package winfs works on the directory tree of a node through handles, so that
// nothing can change between the check of a path and its use.
//
// # The threat
//
// The proxy works as LocalSystem in directories that containers can write to. A
// container may plant a link, a junction or a mount point there, or swap a
// directory for one at the worst moment, to turn "remove my directory" into
// "remove C:\Windows". A check of the path's text cannot stop that; neither can a
// check of where a path leads, if the path is then opened again.
//
// # How a path is walked
//
// The root of the path's volume is opened once. Everything below is opened
// relative to a handle with OBJ_DONT_REPARSE, so Windows itself never follows a
// link for us. Where a component is a link, it is read on a handle, its target
// is worked out here and the walk starts anew from there, at most [MaxLinks]
// times. What is reached in the end is a handle; its place is asked of Windows
// (GetFinalPathNameByHandle) and held against the node's working directories, and
// the work is done on, or relative to, that same handle.
//
// Others work in the same directories. What they remove, unmount or replace in the
// middle of a walk shows in errors that say something else, so such a walk is made
// again, from the root and with all its checks, up to three times.
//
// # Confinement
//
// When the node has WorkingDirs, the place reached must lie in one of them, under
// any of the names it has:
//
//   - its DOS path or its volume name path lies in a working directory, where
//     that may itself be reached through a link; or
//   - it is on a data volume that is mounted below a working directory. The volume
//     of Windows and the volumes that hold the working directories are never
//     let in by this rule: a planted mount point of C: stays a way out, not in.
//
// A share that is reached through a link may be looked at, not changed, and only
// if the node has a mapping of it: no other server is contacted. The working directories themselves (and what contains one) are never removed,
// emptied, replaced or mounted over. Refusals are of kind
// hosterr.ErrPermissionDenied and name the path, where it leads, and what is
// allowed.
//
// Without WorkingDirs, as for a driver in process, every path is allowed.
//
// What has been verified, and on what: docs/evidence/verification.md.
package winfs

import (
	"context"
	"errors"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Info is what stands at a path.
type Info struct {
	Attributes uint32 // FILE_ATTRIBUTE_…
	ReparseTag uint32 // 0 for what is no reparse point
}

// IsDir tells whether it is a directory; a link to a directory counts.
func (i Info) IsDir() bool { return i.Attributes&win32.FILE_ATTRIBUTE_DIRECTORY != 0 }

// IsLink tells whether it is a symbolic link, a junction or a volume mount
// point. Other reparse points (deduplicated files, cloud files) are none.
func (i Info) IsLink() bool {
	return i.ReparseTag == win32.IO_REPARSE_TAG_SYMLINK || i.ReparseTag == win32.IO_REPARSE_TAG_MOUNT_POINT
}

// Link is where a link leads.
type Link struct {
	win32.Reparse
	// Volume is the volume name `\\?\Volume{…}\` if the link is a volume mount
	// point, whether or not that volume is there.
	Volume string
}

// Lstat tells what stands at path. Links on the way are followed, one at path
// itself is not.
func Lstat(ctx context.Context, n *node.Node, path string) (Info, error) {
	var info Info
	err := run(ctx, n, "look at", path, func(o *op, p winpath.Path) error {
		e, err := o.entry(p, win32.FILE_READ_ATTRIBUTES, shareAll, reading)
		if err != nil {
			return err
		}
		defer e.close()
		info, err = o.info(e.h)
		return err
	})
	return info, err
}

// Stat tells what stands at the end of path, all links followed.
func Stat(ctx context.Context, n *node.Node, path string) (Info, error) {
	var info Info
	err := run(ctx, n, "look at", path, func(o *op, p winpath.Path) error {
		h, err := o.follow(p, reading)
		if err != nil {
			return err
		}
		defer o.close(h)
		info, err = o.info(h)
		return err
	})
	return info, err
}

// Exists tells whether anything stands at path, be it a link that leads
// nowhere. A component on the way that is missing, or is a file, makes it false;
// an existing part of the way outside the working directories is an error.
func Exists(ctx context.Context, n *node.Node, path string) (bool, error) {
	exists := false
	err := run(ctx, n, "look at", path, func(o *op, p winpath.Path) error {
		e, err := o.entry(p, win32.FILE_READ_ATTRIBUTES, shareAll, reading)
		switch {
		case err == nil:
			e.close()
			exists = true
			return nil
		case isMissing(err):
			return nil
		}
		return err
	})
	return exists, err
}

// Readlink tells where the link at path leads, without going there. ok is false
// for what is no link.
func Readlink(ctx context.Context, n *node.Node, path string) (link Link, ok bool, err error) {
	err = run(ctx, n, "read link", path, func(o *op, p winpath.Path) error {
		e, err := o.entry(p, win32.FILE_READ_ATTRIBUTES, shareAll, reading)
		if err != nil {
			return err
		}
		defer e.close()
		link, ok, err = o.link(e.h)
		return err
	})
	return link, ok, err
}

// LinkTargetExists tells whether path is a link whose direct target exists,
// which is what the published IsSymlink asks: one hop is taken, from the link's
// own directory if it is relative, and the target may be a link that leads
// nowhere. Nothing at path is an error. A target outside the working
// directories is refused.
func LinkTargetExists(ctx context.Context, n *node.Node, path string) (bool, error) {
	exists := false
	err := run(ctx, n, "look at", path, func(o *op, p winpath.Path) error {
		e, err := o.entry(p, win32.FILE_READ_ATTRIBUTES, shareAll, reading)
		if err != nil {
			return err
		}
		link, ok, err := o.link(e.h)
		e.close()
		if err != nil || !ok {
			return err
		}
		target, err := link.from(e.at.Dir())
		if err != nil {
			return err
		}
		t, err := o.entry(target, win32.FILE_READ_ATTRIBUTES, shareAll, reading)
		if isMissing(err) {
			return nil
		}
		if link.Volume != "" && win32.IsCode(err, win32.ERROR_UNRECOGNIZED_VOLUME) {
			exists = true // the volume is there, and has no file system yet
			return nil
		}
		if err != nil {
			return err
		}
		t.close()
		exists = true
		return nil
	})
	return exists, err
}

// isMissing tells whether err says that nothing is there: the same numbers that
// upstream takes for "does not exist", and a file where a directory should be.
func isMissing(err error) bool {
	return win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_DIRECTORY)
}

// use says what an operation does at the place it reaches.
type use int

const (
	reading  use = iota
	creating     // something new appears there
	changing     // what stands there goes away, is emptied, or is covered
)

// looks is how often an operation begins at the root when somebody changes what it
// works on under its hands.
const looks = 3

// changed tells whether err may say no more than that: a handle to what somebody
// else has removed answers like a place that may not be entered
// (STATUS_DELETE_PENDING, STATUS_FILE_DELETED), a volume that was unmounted is
// outside of the working directories all at once, a link was none when it was
// read, and a volume is not ready that is gone. A second look tells which it is.
func changed(err error) bool {
	return errors.Is(err, hosterr.ErrPermissionDenied) || win32.IsCode(err, win32.ERROR_ACCESS_DENIED, win32.ERROR_REPARSE_POINT_ENCOUNTERED,
		win32.ERROR_CANT_RESOLVE_FILENAME, win32.ERROR_NOT_READY)
}

// op is one operation: the node, how long it may still wait, and what was already
// found out about the working directories.
type op struct {
	ctx   context.Context
	n     *node.Node
	dirs  []winpath.Path // the working directories as configured
	names []winpath.Path // their other names, once resolved
	known bool           // names is valid
	begun bool           // something was changed: what failed then is final
	// unmounted: a mount point was removed, and no second one will be.
	unmounted bool
	waiting   time.Duration // of maxWaiting, what is left
}

// run parses path, hands it to do, and says in its error what was being done. do is
// called again when things [changed], unless it has begun to change some itself.
func run(ctx context.Context, n *node.Node, doing, path string, do func(*op, winpath.Path) error) error {
	dirs, err := winpath.ParseList(n.WorkingDirs)
	if err != nil {
		return hosterr.Text(hosterr.ErrFailedPrecondition, "%w", err)
	}
	p, err := parse(path)
	if err == nil {
		o := &op{ctx: ctx, n: n, dirs: dirs, waiting: maxWaiting}
		for range looks {
			if err = do(o, p); !changed(err) || o.begun || ctx.Err() != nil {
				break
			}
			o.names, o.known = nil, false
		}
	}
	// The removal of a tree says itself which of its entries it failed at; that
	// may be path.
	if e, ok := err.(*hosterr.Error); ok && e.Op == doing && e.Target == hosterr.Quote(p.String()) {
		return err
	}
	return hosterr.Wrap(doing, hosterr.Quote(path), node.Typed(err))
}

// parse reads a path and refuses names that Win32 would take for others. A
// colon in a name would open another stream of the file.
func parse(path string) (winpath.Path, error) {
	p, err := winpath.Parse(path)
	if err != nil {
		return p, err
	}
	for _, e := range p.Elems {
		if err := winpath.CheckName(e); err != nil {
			return p, err
		}
	}
	return p, nil
}
