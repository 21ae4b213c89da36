// Package api implements operations on the directory tree of a Windows node: which
// Windows calls are made, in which order. Package filesystem calls them. Drivers that need
// a single step can call it here.
//
// All work is done on open handles (package winfs of this project), so that nothing can
// replace a path between a check and a change. If the node has working directories,
// methods fail with hosterr.ErrPermissionDenied if a path leads out of them, also through
// a link. Methods take no locks: package
// [github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem] prevents concurrent changes of
// one path.
//
// Paths are absolute: with a drive letter, in the long form `\\?\C:\…`, or without a
// drive, which means C: (the kubelet's staging paths have none). Methods fail with
// hosterr.ErrInvalid if a path contains a name that Windows would change or use for a
// device.
//
// docs/develop/verification.md says what has been verified, and on which systems.
package api

import (
	"context"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// HostAPI is what the filesystem service needs from a node.
type HostAPI interface {
	// PathExists reports whether path is a file, a directory, or a link, even if the
	// target of the link does not exist.
	PathExists(path string) (bool, error)
	// PathValid reports whether path can currently be reached. It follows links in the
	// parent directories, but not a link at path itself. path may be on a share, which
	// can take long to respond. Working directories do not restrict it.
	PathValid(path string) (bool, error)
	// Mkdir makes a directory and all missing parents. It succeeds if the directory
	// exists.
	Mkdir(path string) error
	// Rmdir removes a file, an empty directory, a link or a mount point. With force it
	// also removes the content of a directory, and succeeds if path does not exist.
	Rmdir(path string, force bool) error
	// RmdirContents removes the content of a directory. It refuses a link or mount
	// point.
	RmdirContents(path string) error
	// CreateSymlink makes a symbolic link at newname to oldname: a directory link if
	// oldname is a directory now, otherwise a file link. It succeeds if the same link
	// already exists, and fails if anything else exists at newname.
	CreateSymlink(oldname, newname string) error
	// IsSymlink reports whether path is a symbolic link, a junction or a mount point
	// whose direct target exists. It fails if path does not exist.
	IsSymlink(path string) (bool, error)
}

// FilesystemAPI is the HostAPI of a node. Its methods may be called concurrently. The
// methods of the zero FilesystemAPI return errors.
type FilesystemAPI struct{ host node.Host }

var _ HostAPI = FilesystemAPI{}

// New returns the HostAPI of the Windows node that the process runs on. On other systems
// all methods fail with [errors.ErrUnsupported].
func New() HostAPI { return FilesystemAPI{host: node.NativeHost()} }

// On returns the HostAPI of a node.
func On(n *node.Node) FilesystemAPI { return FilesystemAPI{host: node.HostOf(n)} }

// WithContext returns the same HostAPI for one context. When ctx ends, its methods stop
// before their next Windows call.
func (f FilesystemAPI) WithContext(ctx context.Context) HostAPI {
	return FilesystemAPI{host: f.host.WithContext(ctx)}
}

// Node returns the node that the methods work on, or nil if there is none.
func (f FilesystemAPI) Node() *node.Node { return f.host.Node }

// PathExists implements [HostAPI].
func (f FilesystemAPI) PathExists(path string) (bool, error) {
	if err := f.host.Ready(); err != nil {
		return false, err
	}
	return winfs.Exists(f.host.Ctx, f.host.Node, path)
}

// PathValid implements [HostAPI]. A path is not valid if Windows reports that it does not
// exist or is malformed. Any other failure, such as a share that refuses its session, is
// an error.
func (f FilesystemAPI) PathValid(path string) (bool, error) {
	if err := f.host.Ready(); err != nil {
		return false, err
	}
	if strings.ContainsRune(path, 0) {
		return false, hosterr.Text(hosterr.ErrInvalid, "invalid path: invalid argument")
	}
	_, err := f.host.Node.API.Attributes(winpath.WithDrive(path))
	if win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_INVALID_NAME) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("failed to get path %s attribute: %w", path, err)
	}
	return true, nil
}

// Mkdir implements [HostAPI].
func (f FilesystemAPI) Mkdir(path string) error {
	if err := f.host.Ready(); err != nil {
		return err
	}
	return winfs.MkdirAll(f.host.Ctx, f.host.Node, path)
}

// Rmdir implements [HostAPI].
func (f FilesystemAPI) Rmdir(path string, force bool) error {
	if err := f.host.Ready(); err != nil {
		return err
	}
	if force {
		return winfs.RemoveAll(f.host.Ctx, f.host.Node, path)
	}
	return winfs.Remove(f.host.Ctx, f.host.Node, path)
}

// RmdirContents implements [HostAPI].
func (f FilesystemAPI) RmdirContents(path string) error {
	if err := f.host.Ready(); err != nil {
		return err
	}
	return winfs.RemoveContents(f.host.Ctx, f.host.Node, path)
}

// CreateSymlink implements [HostAPI].
func (f FilesystemAPI) CreateSymlink(oldname, newname string) error {
	if err := f.host.Ready(); err != nil {
		return err
	}
	return winfs.Symlink(f.host.Ctx, f.host.Node, oldname, newname)
}

// IsSymlink implements [HostAPI].
func (f FilesystemAPI) IsSymlink(path string) (bool, error) {
	if err := f.host.Ready(); err != nil {
		return false, err
	}
	return winfs.LinkTargetExists(f.host.Ctx, f.host.Node, path)
}
