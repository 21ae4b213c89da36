package emulated

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// CreateFile implements [win32.Handles] for disks and volumes:
// `\\.\PhysicalDrive0`, a device interface path, `\\?\Volume{…}`, `\\.\C:`,
// `\\?\Harddisk1Partition2`.
// Files and directories are opened by NtCreateFile only.
//
// Two handles with data access to one device must allow each other in their
// share modes. A handle without data access conflicts with none
// (docs/develop/contract/calls.md#handles-and-access).
//
// Source: document, CreateFileW, "Physical Disks and Volumes".
func (n *Node) CreateFile(path string, access, share, disposition, flags uint32) (h win32.Handle, err error) {
	err = n.Do(func(t *kernel.Tx) error {
		name, reserved, err := volume.NTName(path)
		if err != nil {
			return err
		}
		if reserved {
			return win32.ERROR_FILE_NOT_FOUND // Source: node, it has no consoles or ports
		}
		d := n.DeviceOf(name)
		if d == nil {
			if _, rest, ok := n.OfName(name); ok && rest != "" {
				return win32.ERROR_NOT_SUPPORTED // Source: node, hosts open files with NtCreateFile
			}
			// STATUS_OBJECT_NAME_NOT_FOUND for the device itself,
			// STATUS_OBJECT_PATH_NOT_FOUND for a path on it.
			if strings.Contains(strings.TrimPrefix(name, `\??\`), `\`) {
				return win32.ERROR_PATH_NOT_FOUND // Source: inference, by the text of the code in ntstatus.h
			}
			return win32.ERROR_FILE_NOT_FOUND // Source: inference, by the text of the code in ntstatus.h
		}
		h, err = n.OpenDevice(d, path, access, share, disposition)
		return err
	})
	return h, err
}
