// Package filesystem makes, looks at and removes directories and symbolic
// links on a Windows node.
//
// Paths are absolute Windows paths with a drive letter, such as
// C:\var\lib\kubelet\pods; forward slashes, wildcards and ".." are refused. This
// package does not know which directories a caller may touch: the daemon adds
// its working directories above it, and a driver that calls it in process is
// trusted with every path that its own account can reach.
//
// The requests and responses here have no version. The gRPC daemon translates
// every published API version to them; a driver that runs as a HostProcess
// container calls the same [Interface] in process.
package filesystem

import "context"

// Interface is what can be asked of the directory tree of one node.
//
// Every method may be called from several goroutines at once; calls that change
// one path wait for each other. A path that breaks the rules above is an
// error that is invalid, and nothing has been touched.
type Interface interface {
	// CreateSymlink makes TargetPath a symbolic link that points to
	// SourcePath. The parent of the link must exist. The very same link at
	// TargetPath is success, so the call may be repeated; anything else there
	// is an error that is already-exists. Windows tells links to directories
	// from links to files: a SourcePath that does not exist at this moment gets
	// a link to a file.
	CreateSymlink(context.Context, *CreateSymlinkRequest) (*CreateSymlinkResponse, error)

	// IsSymlink tells whether a path is a symbolic link or a volume mount
	// point whose direct target exists. A path at which nothing exists is an
	// error: ask PathExists first.
	IsSymlink(context.Context, *IsSymlinkRequest) (*IsSymlinkResponse, error)

	// Mkdir makes a directory and all its missing parents. A directory that
	// exists is success, a file in its place is an error.
	Mkdir(context.Context, *MkdirRequest) (*MkdirResponse, error)

	// PathExists tells whether something exists at a path: a file, a
	// directory, or a link, whether or not the link leads anywhere.
	PathExists(context.Context, *PathExistsRequest) (*PathExistsResponse, error)

	// PathValid tells whether the node can reach a path at the moment. Links on
	// the way are followed, one at the path itself is not. A path that does not
	// exist is not valid, and no error; a share that refuses to answer is an
	// error.
	PathValid(context.Context, *PathValidRequest) (*PathValidResponse, error)

	// Rmdir removes a file, a directory, a link or a mount point. Links are
	// removed, never followed. Without Force something must be there, and a
	// directory be empty; with Force all below it is removed too, and a missing
	// path is success. A volume that is mounted below the directory is an error
	// that is a failed precondition: unmount it first.
	Rmdir(context.Context, *RmdirRequest) (*RmdirResponse, error)

	// RmdirContents removes all that is in a directory and keeps the directory.
	// Links in it are removed, never followed. A link or a mount point at the
	// path itself is refused, because what it leads to was not named, and so
	// is a volume that is mounted below it.
	RmdirContents(context.Context, *RmdirContentsRequest) (*RmdirContentsResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface
}

// PathExistsRequest names the path that is asked about.
type PathExistsRequest struct {
	Path string
}

// PathExistsResponse tells whether something is there.
type PathExistsResponse struct {
	Exists bool
}

// PathValidRequest names the path that is asked about. It may be a UNC path.
type PathValidRequest struct {
	Path string
}

// PathValidResponse tells whether the path can be reached.
type PathValidResponse struct {
	Valid bool
}

// MkdirRequest names the directory to be made.
type MkdirRequest struct {
	Path string
}

// MkdirResponse is empty.
type MkdirResponse struct{}

// RmdirRequest names what is to be removed.
type RmdirRequest struct {
	Path string
	// Force removes all below the directory too.
	Force bool
}

// RmdirResponse is empty.
type RmdirResponse struct{}

// RmdirContentsRequest names the directory to be emptied.
type RmdirContentsRequest struct {
	Path string
}

// RmdirContentsResponse is empty.
type RmdirContentsResponse struct{}

// CreateSymlinkRequest names a link and where it leads.
type CreateSymlinkRequest struct {
	// SourcePath is what the link points to.
	SourcePath string
	// TargetPath is the link that is made.
	TargetPath string
}

// CreateSymlinkResponse is empty.
type CreateSymlinkResponse struct{}

// IsSymlinkRequest names the path that is asked about.
type IsSymlinkRequest struct {
	Path string
}

// IsSymlinkResponse tells whether the path is a link that leads somewhere.
type IsSymlinkResponse struct {
	IsSymlink bool
}
