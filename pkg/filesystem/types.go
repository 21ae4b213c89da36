// Package filesystem makes, checks and removes directories and symbolic links on a
// Windows node.
//
// Paths are absolute Windows paths such as C:\var\lib\kubelet\pods. A path without a
// drive is on C:, and forward slashes are separators. Wildcards and ".." are refused.
// This package does not restrict which directories a caller may use: the daemon checks
// its working directories, and a driver in process may use every path that its account
// can access.
//
// The requests and responses here have no version. The daemon translates every
// published version of the API to them; a driver in a HostProcess container calls the
// same [Interface] in process.
package filesystem

import "context"

// Interface is the published API of the directory tree of one node.
//
// The methods may be called concurrently; calls that change one path wait for each
// other. They fail with hosterr.ErrInvalid, without any change, if a path breaks the
// rules above.
type Interface interface {
	// CreateSymlink makes a symbolic link at TargetPath that points to SourcePath. The
	// parent directory of the link must exist. It succeeds if the same link already
	// exists, and fails with hosterr.ErrAlreadyExists if anything else exists at
	// TargetPath. Windows distinguishes links to directories from links to files: if
	// SourcePath does not exist, the link is one to a file.
	CreateSymlink(context.Context, *CreateSymlinkRequest) (*CreateSymlinkResponse, error)

	// IsSymlink returns whether a path is a symbolic link or a volume mount point whose
	// direct target exists. It fails with hosterr.ErrNotFound if the path does not
	// exist: call PathExists first.
	IsSymlink(context.Context, *IsSymlinkRequest) (*IsSymlinkResponse, error)

	// Mkdir makes a directory and all missing parents. It succeeds if the directory
	// exists, and fails with hosterr.ErrAlreadyExists if the path is a file.
	Mkdir(context.Context, *MkdirRequest) (*MkdirResponse, error)

	// PathExists returns whether a path exists: a file, a directory, or a link, even if
	// the target of the link does not exist.
	PathExists(context.Context, *PathExistsRequest) (*PathExistsResponse, error)

	// PathValid returns whether the node can currently reach a path. It follows links in
	// the parent directories, but not a link at the path itself. It returns false without
	// an error for a path that does not exist, and an error for a share that does not
	// respond.
	PathValid(context.Context, *PathValidRequest) (*PathValidResponse, error)

	// Rmdir removes a file, a directory, a link or a mount point. It removes links and
	// never follows them. Without Force the path must exist, and a directory must be
	// empty. With Force the content of a directory is removed, too, and a missing path
	// is not an error. It fails with hosterr.ErrFailedPrecondition if a volume is mounted
	// below the directory: unmount it first.
	Rmdir(context.Context, *RmdirRequest) (*RmdirResponse, error)

	// RmdirContents removes the content of a directory and keeps the directory. It
	// removes links and never follows them. It fails with hosterr.ErrFailedPrecondition
	// if the path itself is a link or a mount point, because the caller did not name its
	// target, and if a volume is mounted below it.
	RmdirContents(context.Context, *RmdirContentsRequest) (*RmdirContentsResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface
}

// PathExistsRequest is the request of PathExists.
type PathExistsRequest struct {
	Path string
}

// PathExistsResponse says whether the path exists.
type PathExistsResponse struct {
	Exists bool
}

// PathValidRequest is the request of PathValid. The path may be a UNC path.
type PathValidRequest struct {
	Path string
}

// PathValidResponse says whether the path can be reached.
type PathValidResponse struct {
	Valid bool
}

// MkdirRequest is the request of Mkdir.
type MkdirRequest struct {
	Path string
}

// MkdirResponse is empty.
type MkdirResponse struct{}

// RmdirRequest is the request of Rmdir.
type RmdirRequest struct {
	Path string
	// Force also removes the content of a directory.
	Force bool
}

// RmdirResponse is empty.
type RmdirResponse struct{}

// RmdirContentsRequest is the request of RmdirContents.
type RmdirContentsRequest struct {
	Path string
}

// RmdirContentsResponse is empty.
type RmdirContentsResponse struct{}

// CreateSymlinkRequest has a link and its target.
type CreateSymlinkRequest struct {
	// SourcePath is the path that the link points to.
	SourcePath string
	// TargetPath is the path of the link.
	TargetPath string
}

// CreateSymlinkResponse is empty.
type CreateSymlinkResponse struct{}

// IsSymlinkRequest is the request of IsSymlink.
type IsSymlinkRequest struct {
	Path string
}

// IsSymlinkResponse says whether the path is a link whose target exists.
type IsSymlinkResponse struct {
	IsSymlink bool
}
