package files

import (
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// rename applies a FILE_RENAME_INFORMATION. A name without a directory stays in
// the file's own directory; one with a RootDirectory is relative to it; others
// are absolute (the structure's page in ntifs.h). For the latter two, Windows
// opens the target directory for writing, with sharing of reads and writes, and
// share modes apply (general knowledge). A name that is empty, of an odd length
// or longer than the buffer fails with STATUS_INVALID_PARAMETER, and one on
// another volume with STATUS_NOT_SAME_DEVICE.
//
// Source of STATUS_INVALID_PARAMETER: specification, [MS-FSA] 2.1.5.15.11.
func (f *file) rename(t *kernel.Tx, in []byte) error {
	root, size := le.Uint64(in[renameRoot:]), uint64(le.Uint32(in[renameNameLength:]))
	if size == 0 || size%2 != 0 || size > uint64(len(in)-renameName) {
		return win32.STATUS_INVALID_PARAMETER
	}
	u := make([]uint16, size/2)
	for i := range u {
		u[i] = le.Uint16(in[renameName+2*i:])
	}
	name, replace, changes := string(utf16.Decode(u)), in[0] != 0, f.vol.Changes(t)
	if root == 0 && !strings.Contains(name, `\`) {
		if f.open.Entry().Parent() == nil {
			// Source: specification, [MS-FSA] 2.1.5.15.11: the root has no other name.
			return win32.STATUS_INVALID_PARAMETER
		}
		return f.tree.Rename(changes, f.open, f.open.Entry().Parent(), name, replace)
	}
	var from *file
	if root != 0 {
		var err error
		if from, err = f.n.file(win32.Handle(root)); err != nil {
			return err
		}
		if err := from.check(0); err != nil {
			return err
		}
	}
	// A replaced target is the entry itself, even if it is a link.
	p, err := f.n.resolve(from, name, lookupMode{openLast: true})
	switch {
	case err != nil:
		return err
	case p.dir == nil:
		return win32.STATUS_OBJECT_NAME_INVALID // Source: inference, the root of a volume, or the directory itself
	case p.tree != f.tree:
		return win32.STATUS_NOT_SAME_DEVICE // Source: specification, [MS-FSA] 2.1.5.15.11
	}
	dir, err := f.tree.Open(p.dir, kernel.FileWriteData|win32.SYNCHRONIZE, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, false)
	if err != nil {
		return err
	}
	defer f.tree.Close(changes, dir)
	return f.tree.Rename(changes, f.open, p.dir, p.name, replace)
}

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
// has none, and ERROR_INVALID_PARAMETER for unknown flags. A handle that is not
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
	case win32.VOLUME_NAME_NT:
		return f.vol.NTDevice() + path, nil
	case win32.VOLUME_NAME_NONE:
		return path, nil
	}
	return "", win32.ERROR_INVALID_PARAMETER // Source: document, GetFinalPathNameByHandleW, "invalid flags"
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
