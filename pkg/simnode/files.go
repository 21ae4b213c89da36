package simnode

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// MakeFile makes an empty file at a path that does not exist, as a program in a pod could:
// the services make only directories and links.
func (n *Node) MakeFile(path string) error {
	const synchronous = win32.FILE_SYNCHRONOUS_IO_NONALERT | win32.FILE_NON_DIRECTORY_FILE
	h, err := n.emulated.NtCreateFile(0, `\??\`+path, win32.GENERIC_WRITE|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, 0, win32.FILE_CREATE, synchronous)
	if err != nil {
		return hosterr.Wrap("make file", hosterr.Quote(path), err)
	}
	return n.emulated.CloseHandle(h)
}

// The following methods are for programs outside of the node that show its files in
// another way, as the lab does for programs under Wine.

// WatchFiles calls before ahead of each Win32 call of services, so that it can bring
// changes from outside, and after when the node has changed: before the Win32 call that
// changed it returns, or soon after another method of Node changed it. Both may call
// [Node.Files], [Node.PutFile] and [Node.RemoveFile], and no other
// methods. A node has one watcher at a time. The caller must call stop.
func (n *Node) WatchFiles(before, after func()) (stop func(), err error) {
	stop, err = n.emulated.Watch(before, after)
	return stop, refused(err)
}

// Files returns a directory, such as C:\var\lib\kubelet, and all files and directories
// below it, each after its parent. It does not follow links. A missing directory is no
// error.
func (n *Node) Files(dir string) ([]File, error) { return n.emulated.Files(dir) }

// PutFile makes a file or directory in a directory that exists, if it is missing, and sets
// the size of a file, as a program of the node could.
func (n *Node) PutFile(path string, dir bool, size int64) error {
	return n.emulated.PutFile(path, dir, size)
}

// RemoveFile removes a file, a link or an empty directory. One that is missing is no error.
func (n *Node) RemoveFile(path string) error { return n.emulated.RemoveFile(path) }
