package files

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// rootVolume finds the volume of the directory root. With strict, root must be
// the root of a volume and end in a backslash, as for GetVolumeInformationW.
// Errors are
//
//   - ERROR_INVALID_NAME without the backslash (GetVolumeInformationW's page
//     says that it is required),
//   - ERROR_DIR_NOT_ROOT for a directory that is not a mount point
//     (winerror.h),
//   - ERROR_PATH_NOT_FOUND, ERROR_DIRECTORY … for a path that is not a
//     directory.
func (n *Namespace) rootVolume(root string, strict bool) (*volume.Volume, error) {
	if strict && !strings.HasSuffix(root, `\`) && !strings.HasSuffix(root, "/") {
		// Source: Windows, kernel32/tests/volume.c of Wine, which runs on Windows.
		return nil, win32.ERROR_INVALID_NAME
	}
	name, device, err := volume.NTName(root)
	if err != nil {
		return nil, err
	}
	if device {
		return nil, win32.ERROR_INVALID_NAME // Source: inference, a device has no root directory
	}
	v, rest, ok := n.volumes.OfName(name)
	if !ok || rest != "" && rest != `\` {
		p, err := n.resolve(nil, name, lookupMode{})
		if err == nil {
			err = p.exists()
		}
		switch {
		case err != nil && win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND):
			return nil, win32.ERROR_PATH_NOT_FOUND // Source: inference, because root names a directory
		case err != nil:
			return nil, dosError(err)
		case !p.entry.IsDir():
			return nil, win32.ERROR_DIRECTORY // Source: inference, by the text of the code in winerror.h
		case strict && p.entry != p.tree.Root():
			// Source: Windows, kernel32/tests/volume.c of Wine, which runs on Windows.
			return nil, win32.ERROR_DIR_NOT_ROOT
		}
		v = p.vol
	}
	return v, nil
}

// VolumeInformation implements [win32.Volumes]. Every call detects the file
// system from the volume's bytes. It fails with ERROR_UNRECOGNIZED_VOLUME if
// Windows does not recognize it (docs/develop/contract/volumes.md#is-it-formatted), with
// ERROR_DISK_CORRUPT for an NTFS without its master file table, with
// ERROR_NOT_READY for an offline volume, and with ERROR_ACCESS_DENIED for one
// that is locked by a format.
//
// Source: document, GetVolumeInformationW.
func (n *Namespace) VolumeInformation(root string) (info win32.VolumeInfo, err error) {
	err = n.Do(func(t *kernel.Tx) error {
		v, err := n.rootVolume(root, true)
		if err != nil {
			return err
		}
		if err := v.Ready(); err != nil {
			return err
		}
		switch {
		case v.Mounted(t):
		case v.Corrupt:
			return win32.ERROR_DISK_CORRUPT // Source: inference, by the text of the code in winerror.h
		default:
			// Source: Windows, rufus issue 2365, "Failed to refresh label: [0x000003ED]".
			return win32.ERROR_UNRECOGNIZED_VOLUME
		}
		info = win32.VolumeInfo{
			Label:        bootsector.Label(v, v.FS),
			SerialNumber: uint32(v.FS.Serial),
			MaxComponent: 255,
			Flags:        win32.FILE_CASE_PRESERVED_NAMES | win32.FILE_UNICODE_ON_DISK,
			FileSystem:   string(v.FS.Kind),
		}
		if v.FS.Kind == bootsector.NTFS {
			info.Flags |= win32.FILE_PERSISTENT_ACLS | win32.FILE_SUPPORTS_REPARSE_POINTS
		}
		if v.Writable() != nil {
			info.Flags |= win32.FILE_READ_ONLY_VOLUME
		}
		return nil
	})
	return info, err
}

// shareSize is the size of every share: how large the disks of a server are, the node does not know.
const shareSize = 1 << 40

// FreeSpace implements [win32.Volumes]. There are no quotas, so avail equals
// free.
//
// Source: document, GetDiskFreeSpaceExW, also of a directory on a share; code, hcsshim asks a
// volume by its name.
func (n *Namespace) FreeSpace(root string) (avail, total, free uint64, err error) {
	err = n.Do(func(t *kernel.Tx) error {
		v, err := n.rootVolume(root, false)
		if err != nil {
			return err
		}
		if v.Remote != "" {
			total = shareSize
			free = total - min(total, volume.Allocated(v.Tree.Root(), 4096))
			return nil
		}
		if err := v.Ready(); err != nil {
			return err
		}
		switch {
		case v.Mounted(t):
		case v.Corrupt:
			return win32.ERROR_DISK_CORRUPT // Source: inference, as for GetVolumeInformationW
		default:
			// Source: inference, as for GetVolumeInformationW.
			return win32.ERROR_UNRECOGNIZED_VOLUME // docs/develop/contract/volumes.md#statistics
		}
		total, free = v.FS.Clusters*uint64(v.FS.BytesPerCluster), v.Free()
		return nil
	})
	return free, total, free, err
}
