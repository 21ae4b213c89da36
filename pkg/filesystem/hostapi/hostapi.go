// Package api is what is done to the directory tree of a Windows node: which
// calls of Windows, in which order. Package filesystem decides when; drivers that
// need one step alone call it here.
//
// Everything is done through handles (package winfs of this project), so that a
// path cannot become another one between a look and a change. If the node has
// working directories, a path that leads out of them is refused with a
// permission error, wherever the link on the way came from. Methods hold no
// locks: two at once on one path are for
// [github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem] to keep apart.
//
// Paths are absolute: with a drive letter, in the long form `\\?\C:\…`, or without a
// drive, which means C: (the kubelet's staging paths have none). Names
// that Windows takes for other names or for devices are refused as invalid.
//
// What has been verified, and on what: docs/evidence/verification.md.
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

// HostAPI is what the filesystem service asks of a node.
type HostAPI interface {
	// PathExists tells whether a file, a directory, or a link, be it dangling,
	// stands at path.
	PathExists(path string) (bool, error)
	// PathValid tells whether path can be reached at present: links on the way
	// are followed, one at path itself is not. path may be on a share, which may take its time to answer. It says
	// nothing about what the working directories allow.
	PathValid(path string) (bool, error)
	// Mkdir makes a directory and all missing ones above it. One that is there
	// is success.
	Mkdir(path string) error
	// Rmdir removes a file, an empty directory, a link or a mount point; with
	// force also what is in a directory, and then nothing at path is success.
	Rmdir(path string, force bool) error
	// RmdirContents removes all that is in a directory. A link or mount point at
	// path is refused.
	RmdirContents(path string) error
	// CreateSymlink makes newname a symbolic link to oldname: one to a
	// directory if oldname is one now, else one to a file. The very same link
	// at newname is success, anything else there an error.
	CreateSymlink(oldname, newname string) error
	// IsSymlink tells whether path is a symbolic link, a junction or a mount
	// point whose direct target exists. Nothing at path is an error.
	IsSymlink(path string) (bool, error)
}

// FilesystemAPI is the HostAPI of a node. The zero FilesystemAPI answers every
// call with an error. It may be used by several goroutines at once.
type FilesystemAPI struct{ host node.Host }

var _ HostAPI = FilesystemAPI{}

// New is the HostAPI of the Windows node that the process runs on. Off Windows
// every method answers that there is none.
func New() HostAPI { return FilesystemAPI{host: node.NativeHost()} }

// On is the HostAPI of a node.
func On(n *node.Node) FilesystemAPI { return FilesystemAPI{host: node.HostOf(n)} }

// WithContext is the same HostAPI, whose methods end early, between two calls
// of Windows, when ctx ends.
func (f FilesystemAPI) WithContext(ctx context.Context) HostAPI {
	return FilesystemAPI{host: f.host.WithContext(ctx)}
}

// Node is the node that the methods work on; nil where there is none.
func (f FilesystemAPI) Node() *node.Node { return f.host.Node }

// PathExists implements [HostAPI].
func (f FilesystemAPI) PathExists(path string) (bool, error) {
	if err := f.host.Ready(); err != nil {
		return false, err
	}
	return winfs.Exists(f.host.Ctx, f.host.Node, path)
}

// PathValid implements [HostAPI]. What Windows says is not there, or cannot be a
// name, is not valid; any other failure, such as a share that refuses the
// session it has, is an error.
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
