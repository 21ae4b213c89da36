package files

import (
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// FinalPath implements [win32.Files].
//
// Source: document, GetFinalPathNameByHandleW; code, hcsshim and containerd.
func (n *Namespace) FinalPath(h win32.Handle, flags uint32) (path string, err error) {
	err = n.Do(func(*kernel.Tx) error {
		path, err = n.finalPath(h, flags)
		return err
	})
	return path, err
}

// finalPath follows the page of GetFinalPathNameByHandleW. It returns
// ERROR_PATH_NOT_FOUND for a request for a drive letter or folder if the volume
// has none. A handle that is not
// of a file fails with ERROR_INVALID_FUNCTION. A deleted file that is still open has a
// name in a directory of NTFS (docs/develop/contract/files.md#where-a-handle-is). Whether the
// normalized name on a share can be asked for is an option of the node.
func (n *Namespace) finalPath(h win32.Handle, flags uint32) (string, error) {
	f, err := n.file(h)
	if err != nil {
		return "", err.(win32.NTStatus).Errno()
	}
	if err := f.check(0); err != nil {
		return "", err.(win32.NTStatus).Errno()
	}
	path := f.open.Entry().Path()
	if f.open.Entry().Gone() {
		path = fmt.Sprintf(`\$Extend\$Deleted\%016X%08X`, uint64(f.open.Entry().ID()), 0)
	}
	// Apart from that, the normalized name is the one with which the file was opened.
	if f.vol.Remote != "" && flags == win32.VOLUME_NAME_DOS && n.Windows.ShareNames == behavior.ShareNamesClosed {
		n.Chosen("shareNames", "GetFinalPathNameByHandle of a normalized name on a share fails", path)
		// Source: document, GetFinalPathNameByHandleW, "lacks access permission to any one of
		// those components".
		return "", win32.ERROR_ACCESS_DENIED
	}
	switch flags &^ win32.FILE_NAME_OPENED {
	case win32.VOLUME_NAME_DOS:
		if f.vol.Remote != "" {
			return `\\?\UNC` + f.vol.Remote[1:] + path, nil
		}
		root, ok := n.volumes.DOSRoot(f.vol)
		if !ok {
			return "", win32.ERROR_PATH_NOT_FOUND // Source: document, GetFinalPathNameByHandleW, ERROR_PATH_NOT_FOUND
		}
		return `\\?\` + strings.TrimSuffix(root, `\`) + path, nil
	case win32.VOLUME_NAME_GUID:
		if f.vol.Remote != "" {
			// Source: document, GetFinalPathNameByHandleW, "not created for network shares".
			return "", win32.ERROR_PATH_NOT_FOUND // a share has no volume name (the function's page)
		}
		return strings.TrimSuffix(f.vol.Name(), `\`) + path, nil
	}
	return "", win32.ERROR_NOT_SUPPORTED // Source: node, hosts ask for no other name
}

// Attributes implements [win32.Files].
//
// Source: document, GetFileAttributesW.
func (n *Namespace) Attributes(path string) (attributes uint32, err error) {
	err = n.Do(func(*kernel.Tx) error {
		attributes, err = n.attributes(path)
		return err
	})
	return attributes, err
}

// attributes is GetFileAttributesW. It follows links in the path, but not a link
// that is the last component. A name that Win32 reserves for a device has
// FILE_ATTRIBUTE_ARCHIVE (general knowledge; ReactOS does the same).
func (n *Namespace) attributes(path string) (uint32, error) {
	name, device, err := volume.NTName(path)
	switch {
	case err != nil:
		return 0, err
	case device:
		return win32.FILE_ATTRIBUTE_ARCHIVE, nil
	}
	p, err := n.resolve(nil, name, lookupMode{openLast: true})
	if err == nil {
		err = p.exists()
	}
	if err != nil {
		return 0, err.(win32.NTStatus).Errno()
	}
	return p.entry.Attributes(), nil
}
