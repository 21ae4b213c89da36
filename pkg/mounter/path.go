package mounter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/winpath"
)

// State is what is at a path.
type State int

const (
	// Absent: nothing.
	Absent State = iota
	// Plain: a directory or a file, or a link whose target is gone.
	Plain
	// Linked: a mounted volume, or a link whose target exists.
	Linked
)

// String returns the name.
func (s State) String() string {
	return map[State]string{Absent: "absent", Plain: "plain", Linked: "linked"}[s]
}

// ErrNotMounted is the error of methods that need a volume at a path, also of a path that Windows
// cannot have. It has the kind hosterr.ErrNotFound.
var ErrNotMounted error = notMounted{}

type notMounted struct{}

func (notMounted) Error() string        { return "no volume is mounted there" }
func (notMounted) Is(target error) bool { return target == hosterr.ErrNotFound }

// State returns what is at a path. It asks no server of a share where the API has volume/v3alpha1.
// Older ones open the target of a link; if that fails, what the driver itself can read counts.
func (m *Mounter) State(ctx context.Context, path string) (State, error) {
	s, err := m.state(ctx, path)
	return s, hosterr.Wrap("look at", hosterr.Quote(path), err)
}

func (m *Mounter) state(ctx context.Context, path string) (State, error) {
	path, there, err := m.exists(ctx, path)
	if err != nil || !there {
		return Absent, err
	}
	if v, ok := m.node.Volume.(volume.Service); ok {
		out, err := v.GetPathKind(ctx, &volume.GetPathKindRequest{Path: path})
		switch {
		case err == nil && out.Kind == volume.PATH_KIND_ABSENT:
			return Absent, nil // removed since
		case err == nil && (out.Kind == volume.PATH_KIND_VOLUME || out.Kind == volume.PATH_KIND_LINK):
			return Linked, nil
		case err == nil || !errors.Is(err, hosterr.ErrUnimplemented):
			return Plain, err
		}
	}
	link, err := m.node.Files.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: path})
	switch {
	case errors.Is(err, hosterr.ErrNotFound):
		return Absent, nil // removed since
	case err != nil:
		if target, unread := m.options.Local.Readlink(path); unread == nil && ctx.Err() == nil {
			if _, none := smb.ParseRemotePath(target); none == nil {
				return Linked, nil // its server does not respond
			}
		}
		return Plain, err
	case link.IsSymlink:
		return Linked, nil
	}
	return Plain, nil
}

// Exists reports whether there is something at a path. A link counts without its target.
func (m *Mounter) Exists(ctx context.Context, path string) (bool, error) {
	_, there, err := m.exists(ctx, path)
	return there, hosterr.Wrap("look for", hosterr.Quote(path), err)
}

// exists returns the clean path, and whether there is something.
func (m *Mounter) exists(ctx context.Context, path string) (at string, there bool, err error) {
	if err = m.needs("filesystem"); err != nil {
		return "", false, err
	}
	if at, err = clean(path); err != nil {
		return "", false, err
	}
	out, err := m.node.Files.PathExists(ctx, &filesystem.PathExistsRequest{Path: at})
	if err != nil {
		return at, false, err
	}
	return at, out.Exists, nil
}

// volumeAt returns the volume that is mounted at path or at the end of a link there, or "".
func (m *Mounter) volumeAt(ctx context.Context, path string) (string, error) {
	out, err := m.node.Volume.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: path})
	switch {
	case err == nil:
		return out.VolumeID, nil
	case errors.Is(err, hosterr.ErrNotFound), errors.Is(err, hosterr.ErrFailedPrecondition):
		return "", nil
	case hosterr.KindOf(err) != nil, ctx.Err() != nil:
		return "", err
	}
	// The errors of the existing proxy have no kind.
	if s, looked := m.state(ctx, path); looked != nil || s == Linked {
		return "", errors.Join(err, looked)
	}
	return "", nil
}

// place returns the clean path of a volume.
func place(path string) (string, error) {
	at, err := clean(path)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrNotMounted, err)
	}
	return at, err
}

// mustBeAt returns the volume at a path.
func (m *Mounter) mustBeAt(ctx context.Context, path string) (volumeID string, err error) {
	if path, err = place(path); err == nil {
		if volumeID, err = m.volumeAt(ctx, path); err == nil && volumeID == "" {
			err = ErrNotMounted
		}
	}
	return volumeID, err
}

// VolumeAt returns the volume that is mounted at path or at the end of a link there, and the
// number of its disk. It fails with [ErrNotMounted] if there is none.
func (m *Mounter) VolumeAt(ctx context.Context, path string) (volumeID string, diskNumber uint32, err error) {
	if err = m.needs("volume", "filesystem"); err == nil {
		if volumeID, err = m.mustBeAt(ctx, path); err == nil {
			diskNumber, err = m.diskOf(ctx, volumeID)
		}
	}
	return volumeID, diskNumber, hosterr.Wrap("find the volume at", hosterr.Quote(path), err)
}

// Local is how the driver itself sees the node's files. A container sees those that its pod mounts.
type Local struct {
	// FreeSpace returns the size and the free bytes of the file system at a path, for a share
	// where the API is older than volume/v3alpha1. On Windows it is GetDiskFreeSpaceEx. nil means that
	// [Mounter.Stats] of a share fails with hosterr.ErrUnimplemented.
	FreeSpace func(path string) (total, available int64, err error)
	// Dirs returns the names of the directories in a directory, without links. nil means those
	// of the system.
	Dirs func(path string) ([]string, error)
	// Readlink returns the target of a link, and "" for what is none. nil means that of the
	// system.
	Readlink func(path string) (string, error)
}

func (l *Local) setDefaults() {
	if l.Dirs == nil {
		l.Dirs = func(path string) (names []string, err error) {
			entries, err := os.ReadDir(path)
			for _, e := range entries {
				if e.IsDir() {
					names = append(names, e.Name())
				}
			}
			return names, err
		}
	}
	if l.Readlink == nil {
		l.Readlink = func(path string) (string, error) {
			info, err := os.Lstat(path)
			if err != nil || info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) == 0 {
				return "", err
			}
			return os.Readlink(path)
		}
	}
}

// Stats returns the size, the used and the available bytes of the volume or share at path, or at
// the end of a link there. It fails with [ErrNotMounted] if there is none.
func (m *Mounter) Stats(ctx context.Context, path string) (total, used, available int64, err error) {
	total, used, err = m.stats(ctx, path)
	return total, used, total - used, hosterr.Wrap("get the statistics of the volume at", hosterr.Quote(path), err)
}

func (m *Mounter) stats(ctx context.Context, path string) (total, used int64, err error) {
	if err := m.needs("filesystem"); err != nil {
		return 0, 0, err
	}
	path, err = place(path)
	if err != nil {
		return 0, 0, err
	}
	if m.node.Volume != nil {
		volumeID, err := m.volumeAt(ctx, path)
		if err == nil && volumeID != "" {
			s, err := m.statsOf(ctx, volumeID)
			if err != nil {
				return 0, 0, err
			}
			return s.TotalBytes, s.UsedBytes, nil
		}
		if err != nil && (hosterr.KindOf(err) != nil || ctx.Err() != nil) {
			return 0, 0, err
		}
	}
	switch s, err := m.state(ctx, path); {
	case err != nil:
		return 0, 0, err
	case s != Linked:
		return 0, 0, ErrNotMounted
	}
	if v, ok := m.node.Volume.(volume.Service); ok {
		out, err := v.GetPathStats(ctx, &volume.GetPathStatsRequest{Path: path})
		if err == nil {
			return out.TotalBytes, out.UsedBytes, nil
		}
		if !errors.Is(err, hosterr.ErrUnimplemented) {
			return 0, 0, err
		}
	}
	if m.options.Local.FreeSpace == nil {
		return 0, 0, hosterr.TextWithHint(hosterr.ErrUnimplemented, "upgrade the CSI Proxy of this node, or set Options.Local.FreeSpace", "no version of the API before volume/v3alpha1 measures a share")
	}
	return m.freeSpace(ctx, path)
}

// space is the result of Local.FreeSpace, once done is closed.
type space struct {
	done             chan struct{}
	total, available int64
	err              error
}

// freeSpace is Local.FreeSpace, which waits for a server that is down, until ctx ends. Callers that
// ask about one path share a call of it.
func (m *Mounter) freeSpace(ctx context.Context, path string) (total, used int64, err error) {
	s := &space{done: make(chan struct{})}
	key := strings.ToLower(path)
	if running, joined := m.measuring.LoadOrStore(key, s); joined {
		s = running.(*space)
	} else {
		go func() {
			defer func() {
				if p := recover(); p != nil {
					s.err = fmt.Errorf("Options.Local.FreeSpace panicked: %v", p)
				}
				m.measuring.Delete(key)
				close(s.done)
			}()
			s.total, s.available, s.err = m.options.Local.FreeSpace(path)
		}()
	}
	select {
	case <-s.done:
		return s.total, s.total - s.available, s.err
	case <-ctx.Done():
		return 0, 0, hosterr.Wrap("measure the share", "", ctx.Err())
	}
}

func (m *Mounter) statsOf(ctx context.Context, volumeID string) (*volume.GetVolumeStatsResponse, error) {
	return m.node.Volume.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeID: volumeID})
}

// MakeDir makes a directory and its parents, if they are missing.
func (m *Mounter) MakeDir(ctx context.Context, path string) error {
	err := m.needs("filesystem")
	if err == nil {
		if path, err = clean(path); err == nil {
			_, err = m.node.Files.Mkdir(ctx, &filesystem.MkdirRequest{Path: path})
		}
	}
	return hosterr.Wrap("make directory", hosterr.Quote(path), err)
}

// Remove removes a link or an empty directory, if it exists. A directory with content is an
// error.
func (m *Mounter) Remove(ctx context.Context, path string) error {
	return hosterr.Wrap("remove", hosterr.Quote(path), m.remove(ctx, path))
}

func (m *Mounter) remove(ctx context.Context, path string) error {
	path, there, err := m.exists(ctx, path)
	if err != nil || !there {
		return err
	}
	_, err = m.node.Files.Rmdir(ctx, &filesystem.RmdirRequest{Path: path})
	if errors.Is(err, hosterr.ErrNotFound) {
		return nil // removed since
	}
	return err
}

// Publish makes a link from target to what is staged at source. An empty directory at target is
// replaced. It fails with hosterr.ErrFailedPrecondition if nothing is staged at source: a pod would
// write to the node's own disk. A link cannot be read-only: for a read-only volume the kubelet
// asks the container runtime for a read-only mount.
//
// Without [Abilities.ChecksLinks] a link that exists is taken as it is, and logged.
func (m *Mounter) Publish(ctx context.Context, source, target string) error {
	return hosterr.Wrap("publish", hosterr.Quote(source)+" at "+hosterr.Quote(target), m.publish(ctx, source, target))
}

func (m *Mounter) publish(ctx context.Context, source, target string) error {
	source, err := clean(source)
	if err != nil {
		return err
	}
	if target, err = clean(target); err != nil {
		return err
	}
	switch s, err := m.state(ctx, source); {
	case err != nil:
		return err
	case s != Linked:
		return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "stage the volume first", "nothing is staged at %q", source)
	}
	switch s, err := m.state(ctx, target); {
	case err != nil:
		return err
	case s == Absent:
		if err := m.MakeDir(ctx, winpath.Dir(target)); err != nil {
			return err
		}
	case s == Plain:
		// Windows makes a directory before it makes it a link: a proxy that ended in between
		// has left it.
		if err := m.remove(ctx, target); err != nil {
			return err
		}
	case s == Linked:
		can, err := m.Abilities(ctx)
		if err != nil {
			return err
		}
		if !can.ChecksLinks {
			m.options.Log.Warn("Taking a link as it is, which the proxy cannot compare", "link", target, "want", source)
			return nil
		}
	}
	_, err = m.node.Files.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: source, TargetPath: target})
	return err
}

// Unpublish removes the link of [Mounter.Publish], if it exists.
func (m *Mounter) Unpublish(ctx context.Context, target string) error {
	return hosterr.Wrap("unpublish", hosterr.Quote(target), m.remove(ctx, target))
}
