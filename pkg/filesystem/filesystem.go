package filesystem

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
)

// Filesystem is the Interface over a HostAPI.
//
// A context that ends stops a method between two calls of Windows, and its
// caller at once. A call of Windows itself cannot be stopped: it goes on, and
// holds the path's lock until it returns, so that whoever asks next does not
// work beside it.
type Filesystem struct {
	base service.Base[filesystemapi.HostAPI]
}

var _ Service = (*Filesystem)(nil)

// New makes the service. Its locks are those of the node that hostAPI works on,
// shared with the other services of that node; a hostAPI of another make gets
// locks of its own.
func New(hostAPI filesystemapi.HostAPI) (*Filesystem, error) {
	base, err := service.New("filesystem", hostAPI)
	return service.Response(&Filesystem{base}, err)
}

// ValidatePathWindows tells whether a path is one that this package takes: at
// most 260 bytes, absolute, without any of " : ? * | and ".." behind its drive, and with no name in it that Windows takes for another one or
// for a device. The error is invalid, and the first rule that is broken is told.
func ValidatePathWindows(path string) error {
	_, err := winpath.Validate(path)
	return err
}

// ask asks the host about a path. Questions take no lock: the answer is about
// one moment anyway.
func (f *Filesystem) ask(ctx context.Context, question func(filesystemapi.HostAPI) (bool, error)) (bool, error) {
	return service.Get(ctx, f.base, nil, question)
}

// change lets the host change what stands at path, while nothing else changes it
// or what is above it.
func (f *Filesystem) change(ctx context.Context, path winpath.Path, work func(filesystemapi.HostAPI) error) error {
	return service.Do(ctx, f.base, []service.Lock{service.Path(f.base.Node, path)}, work)
}

// PathExists implements [Interface].
func (f *Filesystem) PathExists(ctx context.Context, in *PathExistsRequest) (*PathExistsResponse, error) {
	if in == nil {
		return nil, service.NoRequest("PathExists")
	}
	if err := ValidatePathWindows(in.Path); err != nil {
		return nil, err
	}
	exists, err := f.ask(ctx, func(host filesystemapi.HostAPI) (bool, error) { return host.PathExists(in.Path) })
	return service.Response(&PathExistsResponse{Exists: exists}, err)
}

// PathValid implements [Interface]. The path is not held to the rules of the
// other methods. With an error the answer is "not valid", never nil: published
// callers read it first.
func (f *Filesystem) PathValid(ctx context.Context, in *PathValidRequest) (*PathValidResponse, error) {
	if in == nil {
		return &PathValidResponse{}, service.NoRequest("PathValid")
	}
	valid, err := f.ask(ctx, func(host filesystemapi.HostAPI) (bool, error) { return host.PathValid(in.Path) })
	return &PathValidResponse{Valid: valid && err == nil}, err
}

// Mkdir implements [Interface].
func (f *Filesystem) Mkdir(ctx context.Context, in *MkdirRequest) (*MkdirResponse, error) {
	if in == nil {
		return nil, service.NoRequest("Mkdir")
	}
	path, err := winpath.Validate(in.Path)
	if err != nil {
		return nil, err
	}
	err = f.change(ctx, path, func(host filesystemapi.HostAPI) error { return host.Mkdir(in.Path) })
	return service.Response(&MkdirResponse{}, err)
}

// Rmdir implements [Interface].
func (f *Filesystem) Rmdir(ctx context.Context, in *RmdirRequest) (*RmdirResponse, error) {
	if in == nil {
		return nil, service.NoRequest("Rmdir")
	}
	path, err := winpath.Validate(in.Path)
	if err != nil {
		return nil, err
	}
	if err := f.change(ctx, path, func(host filesystemapi.HostAPI) error { return host.Rmdir(in.Path, in.Force) }); err != nil {
		return nil, err
	}
	f.base.Node.Removed(ctx, in.Path)
	return &RmdirResponse{}, nil
}

// RmdirContents implements [Interface]. A link or mount point at the path is
// refused: what it leads to was not named.
func (f *Filesystem) RmdirContents(ctx context.Context, in *RmdirContentsRequest) (*RmdirContentsResponse, error) {
	if in == nil {
		return nil, service.NoRequest("RmdirContents")
	}
	path, err := winpath.Validate(in.Path)
	if err != nil {
		return nil, err
	}
	if err := f.change(ctx, path, func(host filesystemapi.HostAPI) error { return host.RmdirContents(in.Path) }); err != nil {
		return nil, err
	}
	f.base.Node.Removed(ctx, in.Path)
	return &RmdirContentsResponse{}, nil
}

// CreateSymlink implements [Interface]. The same link there already is success,
// so that a driver may repeat the call after a lost answer.
func (f *Filesystem) CreateSymlink(ctx context.Context, in *CreateSymlinkRequest) (*CreateSymlinkResponse, error) {
	if in == nil {
		return nil, service.NoRequest("CreateSymlink")
	}
	target, err := winpath.Validate(in.TargetPath)
	if err != nil {
		return nil, err
	}
	if err := ValidatePathWindows(in.SourcePath); err != nil {
		return nil, err
	}
	err = f.change(ctx, target, func(host filesystemapi.HostAPI) error {
		return host.CreateSymlink(in.SourcePath, in.TargetPath)
	})
	return service.Response(&CreateSymlinkResponse{}, err)
}

// IsSymlink implements [Interface].
func (f *Filesystem) IsSymlink(ctx context.Context, in *IsSymlinkRequest) (*IsSymlinkResponse, error) {
	if in == nil {
		return nil, service.NoRequest("IsSymlink")
	}
	if err := ValidatePathWindows(in.Path); err != nil {
		return nil, err
	}
	is, err := f.ask(ctx, func(host filesystemapi.HostAPI) (bool, error) { return host.IsSymlink(in.Path) })
	return service.Response(&IsSymlinkResponse{IsSymlink: is}, err)
}
