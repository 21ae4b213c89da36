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
