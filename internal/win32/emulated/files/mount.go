package files

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// These are the mount manager's changes of directories. Its records of letters
// and folders are in package volume.

// dosError converts the NTSTATUS of an Nt call to the last error of the Win32
// function around it.
func dosError(err error) error {
	if status, ok := err.(win32.NTStatus); ok {
		return status.Errno()
	}
	return err
}

// mountFolder finds the entry at root, a directory path that ends in a backslash.
// It follows links in the path, but not one at root itself. If the path is the
// root of a volume, the entry is a root directory. It returns Win32 errors:
//
//   - ERROR_INVALID_NAME without the final backslash (ReactOS; the pages of the
//     mount functions only say that it is needed),
//   - those of ntName and of opening a directory: 2, 3, 267 …
//
// Source of ERROR_INVALID_NAME: Windows, kernel32/tests/volume.c of Wine, which runs on Windows:
// without the backslash at the end.
func (n *Namespace) mountFolder(root string) (place, error) {
	if !strings.HasSuffix(root, `\`) {
		return place{}, win32.ERROR_INVALID_NAME
	}
	name, device, err := volume.NTName(root)
	switch {
	case err != nil:
		return place{}, err
	case device:
		return place{}, win32.ERROR_INVALID_NAME // Source: inference, a device has no directories
	}
	p, err := n.resolve(nil, name, lookupMode{openLast: true})
	if err == nil {
		err = p.exists()
	}
	if err != nil {
		return place{}, dosError(err)
	}
	return p, nil
}

// setMountReparse makes the directory at p a mount point of the volume guid, as
// SetVolumeMountPointW does (docs/develop/contract/volumes.md#mount). It opens the
// directory, so share modes apply. Its own is documented nowhere: here it shares nothing, so a
// caller that passes here passes where Windows shares. It returns
//
//   - ERROR_DIR_NOT_EMPTY if the directory has entries or is already a reparse
//     point,
//   - ERROR_NOT_SUPPORTED on a file system without mount points: only NTFS has
//     them,
//   - ERROR_WRITE_PROTECT, ERROR_SHARING_VIOLATION.
func (n *Namespace) setMountReparse(t *kernel.Tx, p place, guid win32.GUID) error {
	const access = win32.FILE_LIST_DIRECTORY | kernel.FileWriteData | win32.SYNCHRONIZE
	switch {
	case p.vol.FS.Kind != bootsector.NTFS:
		// Source: document, SetVolumeMountPointW, not on ReFS; the number is inference.
		return win32.ERROR_NOT_SUPPORTED
	case p.vol.Writable() != nil:
		return win32.ERROR_WRITE_PROTECT // Source: inference, as other changes of a read-only volume
	case p.entry.Reparse() != nil || !p.entry.Empty():
		return win32.ERROR_DIR_NOT_EMPTY // Source: document, SetVolumeMountPointW, ERROR_DIR_NOT_EMPTY
	}
	open, err := p.tree.Open(p.entry, access, 0)
	if err != nil {
		return dosError(err)
	}
	defer p.tree.Close(p.vol.Changes(t), open)
	r := win32.Reparse{Tag: win32.IO_REPARSE_TAG_MOUNT_POINT, Substitute: `\??\Volume` + guid.String() + `\`}
	return dosError(p.tree.SetReparse(p.vol.Changes(t), p.entry, r.Encode()))
}

// clearMountReparse makes the mount point at p an ordinary directory, as
// DeleteVolumeMountPointW does (docs/develop/contract/volumes.md#unmount). What it does if the
// volume no longer exists is an option of the node. Errors are those of mountedHere,
// ERROR_WRITE_PROTECT and ERROR_SHARING_VIOLATION.
func (n *Namespace) clearMountReparse(t *kernel.Tx, p place) error {
	guid, err := mountedHere(p)
	if err != nil {
		return err
	}
	if n.volumes.ByGUID(guid) == nil && n.Windows.GoneMountPoint == behavior.GoneMountPointRefused {
		n.Chosen("goneMountPoint", "DeleteVolumeMountPoint fails, because the volume is gone", p.entry.Path())
		return win32.ERROR_FILE_NOT_FOUND // Source: code, .NET goes on after this error (dotnet/runtime issue 86249)
	}
	if p.vol.Writable() != nil {
		return win32.ERROR_WRITE_PROTECT // Source: inference, as other changes of a read-only volume
	}
	open, err := p.tree.Open(p.entry, kernel.FileWriteData|win32.SYNCHRONIZE, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE)
	if err != nil {
		return dosError(err)
	}
	defer p.tree.Close(p.vol.Changes(t), open)
	header := le.AppendUint32(nil, win32.IO_REPARSE_TAG_MOUNT_POINT)
	return dosError(p.tree.DeleteReparse(p.vol.Changes(t), p.entry, append(header, 0, 0, 0, 0)))
}

// mountedHere returns the volume that is mounted at p. It returns
// ERROR_NOT_A_REPARSE_POINT for an ordinary directory and for links that are not
// mount points, and ERROR_INVALID_PARAMETER for a junction to a directory
// (docs/develop/contract/volumes.md#unmount).
func mountedHere(p place) (win32.GUID, error) {
	if p.entry.ReparseTag() != win32.IO_REPARSE_TAG_MOUNT_POINT {
		// Source: Windows, kernel32/tests/volume.c of Wine, which runs on Windows.
		return win32.GUID{}, win32.ERROR_NOT_A_REPARSE_POINT
	}
	guid, ok := mountTarget(p.entry.Reparse())
	if !ok {
		// Source: inference, a junction to a directory is no mount point.
		return win32.GUID{}, win32.ERROR_INVALID_PARAMETER
	}
	return guid, nil
}

// mountTarget returns the volume that a reparse point with this data mounts.
func mountTarget(reparse []byte) (win32.GUID, bool) {
	r, err := win32.DecodeReparse(reparse)
	if err != nil || r.Tag != win32.IO_REPARSE_TAG_MOUNT_POINT {
		return win32.GUID{}, false
	}
	rest, ok := strings.CutPrefix(r.Substitute, `\??\`)
	if !ok {
		return win32.GUID{}, false
	}
	return volume.ParseVolumeName(`\\?\` + rest)
}

// volumePathName is GetVolumePathNameW
// (docs/develop/contract/volumes.md#volume-of-a-path): it returns the longest part of
// path at which a volume is mounted. It follows junctions and symbolic links,
// including the last component, and returns the path of their target. For a mount
// point it returns the mount point's own path. A missing component ends the
// search without an error; so does a mount point whose volume is missing or not
// formatted. Errors are
//
//   - those of ntName,
//   - ERROR_BAD_NETPATH for a network path,
//   - ERROR_INVALID_NAME for a device without directories,
//   - ERROR_PATH_NOT_FOUND if the drive or volume does not exist (Windows'
//     error is not known for certain),
//   - ERROR_CANT_RESOLVE_FILENAME for links in a circle.
func (n *Namespace) volumePathName(path string) (string, error) {
	name, device, err := volume.NTName(path)
	if err != nil {
		return "", err
	}
	if device {
		return "", win32.ERROR_INVALID_NAME // Source: inference, a device has no directories
	}
	// root is the result so far, as a prefix of the path that is being followed.
	prefix := ""
	for _, p := range []string{`\\?\`, `\\.\`} {
		if strings.HasPrefix(path, p) {
			prefix = p
		}
	}
	for links := 0; links <= maxLinks; links++ {
		rest, ok := volume.CutPrefixFold(name, `\??\`)
		if !ok {
			return "", win32.ERROR_INVALID_NAME // Source: inference, a device has no directories
		}
		if _, network := volume.CutPrefixFold(rest, `UNC\`); network {
			return "", win32.ERROR_BAD_NETPATH // Source: inference, a network path has no volume here
		}
		if _, named := volume.CutPrefixFold(rest, `Volume{`); named && prefix == "" {
			prefix = `\\?\`
		}
		first, below, _ := strings.Cut(rest, `\`)
		vol, _, ok := n.volumes.OfName(`\??\` + first + `\`)
		if !ok {
			// Source: inference, of a drive letter that is not used, kernel32/tests/volume.c of
			// Wine, which runs on Windows, has ERROR_FILE_NOT_FOUND.
			return "", win32.ERROR_PATH_NOT_FOUND
		}
		var next string
		if path, next, err = n.mountPathBelow(prefix+first+`\`, vol, below); err != nil || next == "" {
			return path, err
		}
		name, prefix = next, ""
	}
	return "", win32.ERROR_CANT_RESOLVE_FILENAME // Source: inference, by the text of the code in winerror.h
}

// mountPathBelow walks the names in below, from a volume mounted at root. If it
// finds a link that is not a mount point, next is the absolute name with which to
// continue.
func (n *Namespace) mountPathBelow(root string, vol *volume.Volume, below string) (mount, next string, err error) {
	if vol.Tree == nil {
		return root, "", nil
	}
	names := strings.FieldsFunc(below, func(r rune) bool { return r == '\\' })
	at, walked := place{vol: vol, entry: vol.Tree.Root()}, root
	for i, part := range names {
		e := at.entry.Lookup(part)
		if e == nil {
			return root, "", nil
		}
		walked += part + `\`
		at.entry = e
		if e.Reparse() == nil {
			continue
		}
		guid, mounted := mountTarget(e.Reparse())
		if !mounted {
			target, err := follow(at, names[i+1:], false)
			if err != nil {
				return "", "", dosError(err)
			}
			return "", n.dosName(target), nil
		}
		root = walked
		v, _, ok := n.volumes.OfName(`\??\Volume` + guid.String() + `\`)
		if !ok || v.Tree == nil {
			return root, "", nil
		}
		at = place{vol: v, entry: v.Tree.Root()}
	}
	return root, "", nil
}

// dosName converts the target of a relative link, which begins with a volume's
// device, to a path with a drive letter or volume name.
func (n *Namespace) dosName(name string) string {
	vol, rest, ok := n.volumes.OfName(name)
	if _, device := volume.CutPrefixFold(name, `\Device\`); !device || !ok {
		return name
	}
	root, ok := n.volumes.DOSRoot(vol)
	if !ok {
		root = vol.Name()
	}
	return `\??\` + strings.TrimSuffix(strings.TrimPrefix(root, `\\?\`), `\`) + rest
}

// SetMountPoint implements [win32.Volumes]. The volume need not be formatted. In
// addition to the errors of mountFolder and setMountReparse it returns
//
//   - ERROR_INVALID_PARAMETER for a malformed volume name, for a letter in use
//     and for a second letter of the same volume (SetVolumeMountPointW's page;
//     the number is general knowledge),
//   - ERROR_FILE_NOT_FOUND for an unknown volume,
//   - ERROR_DIR_NOT_EMPTY for the root of a volume, which is already a mount
//     point.
//
// Source: document, SetVolumeMountPointW.
// Source of ERROR_INVALID_PARAMETER: inference, the page of SetVolumeMountPointW has the form of
// a volume's name, and nothing of letters in use.
// Source of ERROR_FILE_NOT_FOUND: inference, as VolumeNameForMountPoint of a drive letter that
// is not used.
func (n *Namespace) SetMountPoint(dir, vol string) error {
	return n.Do(func(t *kernel.Tx) error {
		guid, ok := volume.ParseVolumeName(vol)
		if !ok {
			return win32.ERROR_INVALID_PARAMETER
		}
		v := n.volumes.ByGUID(guid)
		if v == nil {
			return win32.ERROR_FILE_NOT_FOUND
		}
		if letter, ok := volume.DriveLetter(dir); ok {
			if _, used := n.volumes.Letters[letter]; used {
				return win32.ERROR_INVALID_PARAMETER
			}
			for _, g := range n.volumes.Letters {
				if g == guid {
					return win32.ERROR_INVALID_PARAMETER
				}
			}
			n.volumes.SetLetter(t, letter, guid)
			return nil
		}
		p, err := n.mountFolder(dir)
		if err != nil {
			return err
		}
		if err := n.setMountReparse(t, p, guid); err != nil {
			return err
		}
		n.volumes.SetMount(t, volume.MountRecord{Host: p.vol.GUID, Path: p.entry.Path(), Volume: v.GUID})
		return nil
	})
}

// DeleteMountPoint implements [win32.Volumes]. The volume need not exist any
// more. In addition to the errors of mountFolder and clearMountReparse it returns
// ERROR_FILE_NOT_FOUND for a drive letter that is not in use.
//
// Source: document, DeleteVolumeMountPointW.
// Source of ERROR_FILE_NOT_FOUND: inference, as VolumeNameForMountPoint of a drive letter that
// is not used.
func (n *Namespace) DeleteMountPoint(dir string) error {
	return n.Do(func(t *kernel.Tx) error {
		if letter, ok := volume.DriveLetter(dir); ok {
			if _, used := n.volumes.Letters[letter]; !used {
				return win32.ERROR_FILE_NOT_FOUND
			}
			n.volumes.RemoveLetter(t, letter)
			return nil
		}
		p, err := n.mountFolder(dir)
		if err != nil {
			return err
		}
		if err := n.clearMountReparse(t, p); err != nil {
			return err
		}
		n.volumes.RemoveMount(t, volume.MountRecord{Host: p.vol.GUID, Path: p.entry.Path()})
		return nil
	})
}

// VolumeNameForMountPoint implements [win32.Volumes]. root is `C:\`, the path of
// a mounted folder, or a volume name. In addition to the errors of mountFolder
// and mountedHere it returns ERROR_FILE_NOT_FOUND for a letter or a mount point
// whose volume does not exist.
//
// Source: document, GetVolumeNameForVolumeMountPointW.
// Source of ERROR_FILE_NOT_FOUND: Windows, kernel32/tests/volume.c of Wine, which runs on
// Windows, of a drive letter; of a volume that is gone it is inference.
func (n *Namespace) VolumeNameForMountPoint(root string) (vol string, err error) {
	err = n.Do(func(*kernel.Tx) error {
		guid, named := volume.ParseVolumeName(root)
		letter, drive := volume.DriveLetter(root)
		switch {
		case named:
		case drive:
			guid = n.volumes.Letters[letter]
		default:
			p, err := n.mountFolder(root)
			if err != nil {
				return err
			}
			if guid, err = mountedHere(p); err != nil {
				return err
			}
		}
		v := n.volumes.ByGUID(guid)
		if v == nil {
			return win32.ERROR_FILE_NOT_FOUND
		}
		vol = v.Name()
		return nil
	})
	return vol, err
}

// VolumePathName implements [win32.Volumes].
//
// Source: document, GetVolumePathNameW.
func (n *Namespace) VolumePathName(p string) (root string, err error) {
	err = n.Do(func(*kernel.Tx) error {
		root, err = n.volumePathName(p)
		return err
	})
	return root, err
}
