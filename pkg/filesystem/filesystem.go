package filesystem

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
)

// Filesystem implements [Service] with a HostAPI.
//
// When the context of a call ends, the method returns immediately and its work stops
// before the next Windows call. A Windows call itself cannot be stopped: it continues
// and holds the path's lock until it returns, so that no other request changes the path
// at the same time.
type Filesystem struct {
	base service.Base[filesystemapi.HostAPI]
}

var _ Service = (*Filesystem)(nil)

// New returns a service that uses hostAPI. With the HostAPI of this project it shares
// its locks with the other services of the same node; any other HostAPI gets locks of
// its own.
func New(hostAPI filesystemapi.HostAPI) (*Filesystem, error) {
	base, err := service.New("filesystem", hostAPI)
	return service.Response(&Filesystem{base}, err)
}

// ValidatePathWindows checks that this package accepts a path: it has at most 260 bytes,
// is absolute, does not contain any of " : ? * | or ".." after the drive, and contains no
// name that Windows would change or use for a device. It returns an error of the kind
// hosterr.ErrInvalid that names the first rule that the path breaks.
func ValidatePathWindows(path string) error {
	return winpath.Check(path)
}

// ask runs a query. Queries take no lock, because a result is only true at one moment.
func (f *Filesystem) ask(ctx context.Context, query func(filesystemapi.HostAPI) (bool, error)) (bool, error) {
	return service.Get(ctx, f.base, nil, query)
}

// change runs work that changes path, while no other call changes it or its parents.
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

// PathValid implements [Interface]. It does not check the path with [ValidatePathWindows].
// With an error the response is "not valid" and never nil, because published callers read
// it first.
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

// RmdirContents implements [Interface]. It refuses a link or mount point, because the
// caller did not name its target.
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

// CreateSymlink implements [Interface]. It succeeds if the same link already exists, so
// drivers may repeat the call after a lost response.
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
