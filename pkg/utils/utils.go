// Package utils has the published path helpers, for drivers that import them. New
// code should use [github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem], whose
// methods take a context and check their paths.
//
// All functions but EnsureLongPath call the Windows that the process runs on. On
// other systems they fail with [errors.ErrUnsupported]. Paths are absolute: with a
// drive letter, of a share, or in the long form `\\?\…`. Links in the parent
// directories are followed; a link at the path itself is not. The functions may
// be called concurrently.
//
// RunPowershellCmd of older releases is gone, because nothing here starts a
// process or a shell. docs/drivers/migrating/pkg-utils.md lists what replaces it.
//
// What has been verified, and on what: docs/develop/verification.md.
package utils

import (
	"context"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
)

const (
	// MaxPathLengthWindows is the longest path, in bytes, that the methods of
	// package filesystem accept.
	MaxPathLengthWindows = 260

	// LongPathPrefix is the prefix of paths that Windows uses literally and that
	// may be longer than 260 characters.
	LongPathPrefix = `\\?\`
)

// EnsureLongPath returns path in the long form: `\\?\C:\a`, or
// `\\?\UNC\server\share` for a share. It returns long paths and device paths
// (`\\.\…`) unchanged. It does not resolve forward slashes and dots, which Windows
// uses literally in a long path.
func EnsureLongPath(path string) string {
	switch {
	case strings.HasPrefix(path, LongPathPrefix), strings.HasPrefix(path, `\\.\`):
		return path
	case strings.HasPrefix(path, `\\`):
		return LongPathPrefix + `UNC` + path[1:]
	}
	return LongPathPrefix + path
}

// IsPathValid reports whether the node can currently reach a path. It returns
// false without an error for a path that does not exist or is malformed, and an
// error for a share that does not respond.
func IsPathValid(path string) (bool, error) { return isPathValid(native(), path) }

// PathExists reports whether a path exists: a file, a directory, or a link, even
// if the target of the link does not exist.
func PathExists(path string) (bool, error) { return pathExists(native(), path) }

// IsMountedFolder reports whether a path is a mount point of a volume, a junction
// or a symbolic link. It returns false for other reparse points, such as
// deduplicated files and cloud files. For a path that does not exist it returns an
// error that matches [io/fs.ErrNotExist].
func IsMountedFolder(path string) (bool, error) { return isLink(native(), path) }

// IsPathSymlink returns the same as [IsMountedFolder]: the published function
// counts mount points as links.
func IsPathSymlink(path string) (bool, error) { return isLink(native(), path) }

// CreateSymlink makes a symbolic link at link that points to target, a directory
// link if isDir is set. Both paths are absolute. The directory of link must exist;
// target need not. If the same link exists already, CreateSymlink succeeds. If
// anything else exists at link, it fails with an error of the kind
// [github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr.ErrAlreadyExists].
func CreateSymlink(link, target string, isDir bool) error {
	return createSymlink(native(), link, target, isDir)
}

// host is the node to call, or the error that says why there is none.
type host struct {
	node *node.Node
	err  error
}

func native() host {
	n, err := node.Native()
	return host{n, err}
}

func isPathValid(h host, path string) (bool, error) {
	if h.err != nil {
		return false, h.err
	}
	return filesystemapi.On(h.node).PathValid(path)
}

func pathExists(h host, path string) (bool, error) {
	if h.err != nil {
		return false, h.err
	}
	return filesystemapi.On(h.node).PathExists(path)
}

func isLink(h host, path string) (bool, error) {
	if h.err != nil {
		return false, h.err
	}
	info, err := winfs.Lstat(context.Background(), h.node, path)
	return info.IsLink(), err
}

func createSymlink(h host, link, target string, isDir bool) error {
	if h.err != nil {
		return h.err
	}
	return winfs.SymlinkOf(context.Background(), h.node, target, link, isDir)
}
