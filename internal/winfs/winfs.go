// Package winfs works on the directory tree of a node through handles, so that
// nothing can change between the check of a path and its use.
//
// # The threat
//
// The proxy runs as LocalSystem in directories that containers can write to. A
// container may create a link, a junction or a mount point there, or replace a
// directory with one at the worst moment, to turn "remove my directory" into
// "remove C:\Windows". Checking the text of a path does not prevent that. Checking
// the target of a path does not either, if the path is opened again afterwards.
//
// # How a path is opened
//
// The root of the path's volume is opened once. Everything below it is opened
// relative to a handle with OBJ_DONT_REPARSE, so Windows never follows a link. A path
// without links is opened in one call. If there is one, or something is missing, the
// deepest directory above it is opened, and its names one by one; this package reads
// a link through a handle, computes its target
// and starts again from there, at most [MaxLinks] times and with a limit of opens. The result is a handle.
// Windows returns its location (GetFinalPathNameByHandle), which is checked against
// the node's working directories: a path without links may still have short names.
// The operation then uses the same handle, or opens names relative to it.
//
// Other processes work in the same directories. If they remove, unmount or replace
// something during an operation, Windows may return misleading errors. Such an
// operation is repeated from the root, with all its checks, up to three times.
//
// # Confinement
//
// If the node has WorkingDirs, the location must be inside one of them, by any of
// its names:
//
//   - its DOS path or its volume name path is inside a working directory, which may
//     itself be reached through a link; or
//   - it is on a data volume that is mounted below a working directory. This rule
//     never applies to the volume of Windows or to volumes that contain working
//     directories: a container could create a mount point of C:.
//
// A share that is reached through a link can be read but not changed, and only if the
// node has a mapping of it: no other server is contacted. Working directories, and
// directories that contain one, are never removed, emptied, replaced or mounted over.
// Such requests fail with hosterr.ErrPermissionDenied; the error contains the path,
// its location and the working directories.
//
// Without WorkingDirs, as for a driver in process, every path is allowed. Always, nothing is
// made, linked, mounted over or removed in the directories of Windows and of the programs that
// run containers ([winpath.Own]), and what contains one is not removed.
//
// docs/develop/verification.md lists what was verified, and on which systems.
package winfs

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Info describes a file, a directory or a link.
type Info struct {
	Attributes uint32 // FILE_ATTRIBUTE_…
	ReparseTag uint32 // 0 unless it is a reparse point
}

// IsDir reports whether it is a directory or a link to a directory.
func (i Info) IsDir() bool { return i.Attributes&win32.FILE_ATTRIBUTE_DIRECTORY != 0 }

// IsLink reports whether it is a symbolic link, a junction or a volume mount point.
// Other reparse points, such as deduplicated files and cloud files, are not links.
func (i Info) IsLink() bool {
	return i.ReparseTag == win32.IO_REPARSE_TAG_SYMLINK || i.ReparseTag == win32.IO_REPARSE_TAG_MOUNT_POINT
}

// Link is the target of a link.
type Link struct {
	win32.Reparse
	// Volume is the volume name `\\?\Volume{…}\` if the link is a volume mount
	// point, even if that volume does not exist.
	Volume string
}

// Lstat returns the Info of path. It follows links in the directory part of path,
// but not a link at path itself.
func Lstat(ctx context.Context, n *node.Node, path string) (Info, error) {
	var info Info
	err := run(ctx, n, "check", path, func(o *op, p winpath.Path) error {
		e, err := o.entry(p, win32.FILE_READ_ATTRIBUTES, reading)
		if err != nil {
			return err
		}
		defer e.close()
		info, err = o.info(e.h)
		return err
	})
	return info, err
}

// Exists reports whether path exists. A link exists even if its target does not.
// Exists returns false if a parent is missing or is a file, and fails if an existing
// parent is outside the working directories.
func Exists(ctx context.Context, n *node.Node, path string) (bool, error) {
	exists := false
	err := run(ctx, n, "check", path, func(o *op, p winpath.Path) error {
		e, err := o.entry(p, win32.FILE_READ_ATTRIBUTES, reading)
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

// Readlink returns the target of the link at path, without following it. ok is false
// if path is not a link.
func Readlink(ctx context.Context, n *node.Node, path string) (link Link, ok bool, err error) {
	err = run(ctx, n, "read link", path, func(o *op, p winpath.Path) error {
		e, err := o.entry(p, win32.FILE_READ_ATTRIBUTES, reading)
		if err != nil {
			return err
		}
		defer e.close()
		link, ok, err = o.link(e.h)
		return err
	})
	return link, ok, err
}

// LinkTargetExists reports whether path is a link whose direct target exists, which
// is the published definition of IsSymlink. It follows one link, which may be relative
// to its directory; the target may be another link whose target does not exist. It
// fails if path does not exist, or if the target is outside the working directories.
//
// The target of a link to a share that is not mapped does not exist. The share is not
// contacted. After a restart of Windows without its SMB mappings, drivers find out in
// this way that they have to map the share again.
func LinkTargetExists(ctx context.Context, n *node.Node, path string) (bool, error) {
	exists := false
	err := run(ctx, n, "check", path, func(o *op, p winpath.Path) error {
		e, err := o.entry(p, win32.FILE_READ_ATTRIBUTES, reading)
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
		t, err := o.entry(target, win32.FILE_READ_ATTRIBUTES, reading)
		var unmapped *unmappedError
		if isMissing(err) || errors.As(err, &unmapped) {
			return nil
		}
		if link.Volume != "" && win32.IsCode(err, win32.ERROR_UNRECOGNIZED_VOLUME) {
			exists = true // the volume exists, but has no file system yet
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

// isMissing reports whether err means that a path does not exist: one of the codes
// that upstream treats as "does not exist", or a file in the place of a directory.
func isMissing(err error) bool {
	return win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_DIRECTORY)
}

// intent is what an operation does at its path.
type intent int

const (
	reading  intent = iota
	linking         // makes a link to what exists
	creating        // creates something new
	changing        // removes, empties or mounts over what exists
)

// attempts is how often an operation starts at the root if other processes change
// its path at the same time.
const attempts = 3

// maybeRaced reports whether err may be caused by a concurrent change. A handle to a
// removed directory fails as if access were denied (STATUS_DELETE_PENDING,
// STATUS_FILE_DELETED), an unmounted volume is suddenly outside of the working
// directories, a link was replaced before it was read, and a removed or dismounted volume is not
// ready. Another attempt shows whether the error persists.
func maybeRaced(err error) bool {
	return errors.Is(err, hosterr.ErrPermissionDenied) || win32.IsCode(err, win32.ERROR_ACCESS_DENIED, win32.ERROR_REPARSE_POINT_ENCOUNTERED,
		win32.ERROR_CANT_RESOLVE_FILENAME, win32.ERROR_NOT_READY)
}

// op is one operation on a node.
type op struct {
	ctx       context.Context
	n         *node.Node
	dirs      []winpath.Path // the working directories as configured
	names     []winpath.Path // all names of the working directories, if resolved
	kubelet   winpath.Path   // the last of dirs, if resolved and if it can be opened
	resolved  bool           // names and kubelet are valid
	modified  bool           // the operation has changed something, so it must not be repeated
	unmounted bool           // a mount point was removed; at most one is
	closed    bool           // no share is opened
	waiting   time.Duration  // the rest of maxWaiting
	away      time.Duration  // the rest of maxAway
	steps     int            // opens that resolved paths

	root   win32.Handle // the root of a volume, while it is open
	volume string       // which one
}

// run parses path, calls do, and adds the operation and the path to its error. It
// repeats do if the error [maybeRaced], and while its cause may pass, unless do has changed
// something.
func run(ctx context.Context, n *node.Node, operation, path string, do func(*op, winpath.Path) error) error {
	dirs, err := dirsOf(n)
	if err != nil {
		return err
	}
	p, err := parse(path)
	if err == nil {
		o := &op{ctx: ctx, n: n, dirs: dirs, waiting: maxWaiting, away: maxAway}
		defer o.closeRoot()
		err = o.whileTemporary(func() (err error) {
			for range attempts {
				if err = do(o, p); !maybeRaced(err) && !IsAway(err) || o.modified || o.steps > maxOpens || ctx.Err() != nil {
					break
				}
				o.names, o.resolved = nil, false
				o.closeRoot()
				if IsAway(err) {
					break
				}
			}
			return err
		})
	}
	if err == nil {
		return nil
	}
	// The error of the removal of a tree contains the path of the failed entry, which
	// may be the same path.
	if e, ok := err.(*hosterr.Error); ok && e.Op == operation && e.Target == hosterr.Quote(p.String()) {
		return err
	}
	return hosterr.Wrap(operation, hosterr.Quote(path), typed(err))
}

// typed is [node.Typed] for errors about paths. The device of a volume that is missing for a
// moment comes back with its files, so it does not mean that a path does not exist.
func typed(err error) error {
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if IsAway(err) && hosterr.KindOf(err) == nil && !ended {
		return hosterr.Text(hosterr.ErrUnavailable, "the device of its volume does not respond or was removed: %w", err)
	}
	return node.Typed(err)
}

// parsed are the working directories of a node.
type parsed struct {
	texts []string
	dirs  []winpath.Path
	err   error
}

// dirsOf parses the working directories of a node, once for as long as they stay the same.
func dirsOf(n *node.Node) ([]winpath.Path, error) {
	last := node.Shared(n, "working directories", func() *atomic.Pointer[parsed] { return &atomic.Pointer[parsed]{} })
	p := last.Load()
	if p == nil || !slices.Equal(p.texts, n.WorkingDirs) {
		p = &parsed{texts: slices.Clone(n.WorkingDirs)}
		if p.dirs, p.err = winpath.ParseList(p.texts); p.err != nil {
			p.err = hosterr.Text(hosterr.ErrFailedPrecondition, "%w", p.err)
		}
		last.Store(p)
	}
	return p.dirs, p.err
}

// parse parses a path and rejects names that Win32 would interpret differently. A
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
