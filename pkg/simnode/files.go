package simnode

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// MakeFile puts an empty file where there is nothing, as what runs in a pod may
// do: the services make directories and links only.
func (n *Node) MakeFile(path string) error {
	const synchronous = win32.FILE_SYNCHRONOUS_IO_NONALERT | win32.FILE_NON_DIRECTORY_FILE
	h, err := n.emulated.NtCreateFile(0, `\??\`+path, win32.GENERIC_WRITE|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, 0, win32.FILE_CREATE, synchronous)
	if err != nil {
		return hosterr.Wrap("make file", hosterr.Quote(path), err)
	}
	return n.emulated.CloseHandle(h)
}
