// Package utils has the published helpers about paths, for drivers that import
// them. Code that is new asks [github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem],
// whose methods take a context and check their paths.
//
// All but EnsureLongPath ask the Windows node that the process runs on; off
// Windows they answer that there is none. Paths are absolute, with a drive letter,
// of a share, or in the long form `\\?\…`. Links on the way are followed, one at
// the path itself is not. Functions may be called from several goroutines at
// once.
//
// RunPowershellCmd, which older releases had, is left out: nothing here starts a
// process or a shell. Which call replaces which command is told in
// docs/migrating/pkg-utils.md.
//
// Verified on the emulated node; all but CreateSymlink also under Wine, which has no links.
package utils

import (
	"context"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
)

const (
	// MaxPathLengthWindows is how many bytes of a path the methods of package
	// filesystem take.
	MaxPathLengthWindows = 260

	// LongPathPrefix begins a path that Windows takes literally and at any
	// length.
	LongPathPrefix = `\\?\`
)

// EnsureLongPath is path in the long form: `\\?\C:\a`, and `\\?\UNC\server\share`
// for a share. One that is in it, or names a device (`\\.\…`), stays as it is.
// Nothing else of the text is changed, though Windows takes forward slashes and
// dots in a long path literally.
func EnsureLongPath(path string) string {
	switch {
	case strings.HasPrefix(path, LongPathPrefix), strings.HasPrefix(path, `\\.\`):
		return path
	case strings.HasPrefix(path, `\\`):
		return LongPathPrefix + `UNC` + path[1:]
	}
	return LongPathPrefix + path
}

// IsPathValid tells whether the node can reach a path at the moment. A path that does not exist, or cannot be one, is not valid and no
// error; a share that refuses to answer is an error.
func IsPathValid(path string) (bool, error) { return isPathValid(native(), path) }

// PathExists tells whether something stands at a path: a file, a directory, or a
// link, whether or not the link leads anywhere.
func PathExists(path string) (bool, error) { return pathExists(native(), path) }

// IsMountedFolder tells whether something else is mounted or linked at a path:
// a volume, a junction or a symbolic link. Other reparse points (deduplicated
// files, cloud files) are none. Nothing at the path is an error that is not-found.
func IsMountedFolder(path string) (bool, error) { return isLink(native(), path) }

// IsPathSymlink tells the same as IsMountedFolder: the published function counts
// mount points among the links.
func IsPathSymlink(path string) (bool, error) { return isLink(native(), path) }

// CreateSymlink makes link a symbolic link to target, of the kind for directories
// if isDir is set. Both are absolute, and the directory of link must exist; target
// need not. The very same link at link is success, anything else there an error
// that is already-exists.
func CreateSymlink(link, target string, isDir bool) error {
	return createSymlink(native(), link, target, isDir)
}

// host is a node to ask, or why there is none.
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
