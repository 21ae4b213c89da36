// Package policy is what the daemon adds above the services: a caller behind a
// pipe may name paths in the node's working directories only, and start and stop
// only services that are allowed ([System]). A driver in process has no such
// rules and does not come through here.
//
// The check of a path is of its text, with the published messages; it is the first
// of two. Where a path really leads is checked below, on open handles, by
// internal/winfs and the node's WorkingDirs. Both must agree.
//
// Every method that takes a path of this node obeys, those included that the
// published proxy forgot. PathValid cannot be called through a pipe and passes.
// A nil request passes too: the service refuses it.
package policy

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Dirs are working directories. The zero Dirs allow no path.
type Dirs struct {
	texts []string
	paths []winpath.Path
}

// ParseDirs reads working directories, in the order in which messages list
// them: those of the command line, then the kubelet's.
func ParseDirs(dirs []string) (Dirs, error) {
	paths, err := winpath.ParseList(dirs)
	if err != nil {
		return Dirs{}, err
	}
	return Dirs{texts: dirs, paths: paths}, nil
}

// Check tells whether a request may name path: an error of kind
// hosterr.ErrInvalid says that it breaks the rules of paths, one of kind
// hosterr.ErrPermissionDenied that it is outside the working directories.
func (d Dirs) Check(path string) error {
	p, err := winpath.Validate(path)
	if err != nil {
		return err
	}
	for _, dir := range d.paths {
		if p.Within(dir) {
			return nil
		}
	}
	return hosterr.Text(hosterr.ErrPermissionDenied, "path: %s is not within the working directories: %v", path, d.texts)
}

// Filesystem is next for callers that may name paths in dirs only.
func Filesystem(next filesystem.Interface, dirs Dirs) filesystem.Interface {
	return &filesystems{next, dirs}
}

type filesystems struct {
	filesystem.Interface
	dirs Dirs
}

func (f *filesystems) PathExists(ctx context.Context, in *filesystem.PathExistsRequest) (*filesystem.PathExistsResponse, error) {
	if in != nil {
		if err := f.dirs.Check(in.Path); err != nil {
			return nil, err
		}
	}
	return f.Interface.PathExists(ctx, in)
}

func (f *filesystems) Mkdir(ctx context.Context, in *filesystem.MkdirRequest) (*filesystem.MkdirResponse, error) {
	if in != nil {
		if err := f.dirs.Check(in.Path); err != nil {
			return nil, err
		}
	}
	return f.Interface.Mkdir(ctx, in)
}

func (f *filesystems) Rmdir(ctx context.Context, in *filesystem.RmdirRequest) (*filesystem.RmdirResponse, error) {
	if in != nil {
		if err := f.dirs.Check(in.Path); err != nil {
			return nil, err
		}
	}
	return f.Interface.Rmdir(ctx, in)
}

func (f *filesystems) RmdirContents(ctx context.Context, in *filesystem.RmdirContentsRequest) (*filesystem.RmdirContentsResponse, error) {
	if in != nil {
		if err := f.dirs.Check(in.Path); err != nil {
			return nil, err
		}
	}
	return f.Interface.RmdirContents(ctx, in)
}

// CreateSymlink checks the link before what it leads to, as published.
func (f *filesystems) CreateSymlink(ctx context.Context, in *filesystem.CreateSymlinkRequest) (*filesystem.CreateSymlinkResponse, error) {
	if in != nil {
		if err := f.dirs.Check(in.TargetPath); err != nil {
			return nil, err
		}
		if err := f.dirs.Check(in.SourcePath); err != nil {
			return nil, err
		}
	}
	return f.Interface.CreateSymlink(ctx, in)
}

func (f *filesystems) IsSymlink(ctx context.Context, in *filesystem.IsSymlinkRequest) (*filesystem.IsSymlinkResponse, error) {
	if in != nil {
		if err := f.dirs.Check(in.Path); err != nil {
			return nil, err
		}
	}
	return f.Interface.IsSymlink(ctx, in)
}

// Volume is next for callers that may name paths in dirs only.
func Volume(next volume.Interface, dirs Dirs) volume.Interface {
	return &volumes{next, dirs}
}

type volumes struct {
	volume.Interface
	dirs Dirs
}

// check leaves an empty path to the service, whose message for it is published.
func (v *volumes) check(path string) error {
	if path == "" {
		return nil
	}
	return v.dirs.Check(path)
}

func (v *volumes) MountVolume(ctx context.Context, in *volume.MountVolumeRequest) (*volume.MountVolumeResponse, error) {
	if in != nil {
		if err := v.check(in.TargetPath); err != nil {
			return nil, err
		}
	}
	return v.Interface.MountVolume(ctx, in)
}

func (v *volumes) UnmountVolume(ctx context.Context, in *volume.UnmountVolumeRequest) (*volume.UnmountVolumeResponse, error) {
	if in != nil {
		if err := v.check(in.TargetPath); err != nil {
			return nil, err
		}
	}
	return v.Interface.UnmountVolume(ctx, in)
}

func (v *volumes) GetVolumeIDFromTargetPath(ctx context.Context, in *volume.GetVolumeIDFromTargetPathRequest) (*volume.GetVolumeIDFromTargetPathResponse, error) {
	if in != nil {
		if err := v.check(in.TargetPath); err != nil {
			return nil, err
		}
	}
	return v.Interface.GetVolumeIDFromTargetPath(ctx, in)
}

func (v *volumes) GetClosestVolumeIDFromTargetPath(ctx context.Context, in *volume.GetClosestVolumeIDFromTargetPathRequest) (*volume.GetClosestVolumeIDFromTargetPathResponse, error) {
	if in != nil {
		if err := v.check(in.TargetPath); err != nil {
			return nil, err
		}
	}
	return v.Interface.GetClosestVolumeIDFromTargetPath(ctx, in)
}
