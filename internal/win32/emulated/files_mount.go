package emulated

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// These are the mount manager's changes of directories. Its records of letters
// and folders are in mountmgr.go.

// dosError converts the NTSTATUS of an Nt call to the last error of the Win32
// function around it.
func dosError(err error) error {
	if status, ok := err.(win32.NTStatus); ok {
		return status.Errno()
	}
	return err
}

// parseVolumeName parses a volume name in the form that the mount functions
// require, exactly `\\?\Volume{xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}\`
// (SetVolumeMountPointW's page).
func parseVolumeName(name string) (win32.GUID, bool) {
	text, ok := cutPrefixFold(name, `\\?\Volume{`)
	if !ok {
		return win32.GUID{}, false
	}
	text, ok = strings.CutSuffix(text, `}\`)
	if !ok {
		return win32.GUID{}, false
	}
	guid, err := win32.ParseGUID(text)
	return guid, err == nil && !strings.ContainsAny(text, "{}")
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
func (n *Node) mountFolder(root string) (place, error) {
	if !strings.HasSuffix(root, `\`) {
		return place{}, win32.ERROR_INVALID_NAME
	}
	name, device, err := ntName(root)
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
func (n *Node) setMountReparse(t *kernel.Tx, p place, guid win32.GUID) error {
	const access = win32.FILE_LIST_DIRECTORY | kernel.FileWriteData | win32.SYNCHRONIZE
	switch {
	case p.vol.fs.Kind != bootsector.NTFS:
		// Source: document, SetVolumeMountPointW, not on ReFS; the number is inference.
		return win32.ERROR_NOT_SUPPORTED
	case p.vol.writable() != nil:
		return win32.ERROR_WRITE_PROTECT // Source: inference, as other changes of a read-only volume
	case p.entry.Reparse() != nil || !p.entry.Empty():
		return win32.ERROR_DIR_NOT_EMPTY // Source: document, SetVolumeMountPointW, ERROR_DIR_NOT_EMPTY
	}
	open, err := p.tree.Open(p.entry, access, 0, false)
	if err != nil {
		return dosError(err)
	}
	defer p.tree.Close(p.vol.files(t), open)
	r := win32.Reparse{Tag: win32.IO_REPARSE_TAG_MOUNT_POINT, Substitute: `\??\Volume` + guid.String() + `\`}
	return dosError(p.tree.SetReparse(p.vol.files(t), p.entry, r.Encode()))
}

// clearMountReparse makes the mount point at p an ordinary directory, as
// DeleteVolumeMountPointW does (docs/develop/contract/volumes.md#unmount). What it does if the
// volume no longer exists is an option of the node. Errors are those of mountedHere,
// ERROR_WRITE_PROTECT and ERROR_SHARING_VIOLATION.
func (n *Node) clearMountReparse(t *kernel.Tx, p place) error {
	guid, err := mountedHere(p)
	if err != nil {
		return err
	}
	if n.volumeByGUID(guid) == nil && n.Windows.GoneMountPoint == behavior.GoneMountPointRefused {
		n.Chosen("goneMountPoint", "DeleteVolumeMountPoint fails, because the volume is gone", p.entry.Path())
		return win32.ERROR_FILE_NOT_FOUND // Source: code, .NET goes on after this error (dotnet/runtime issue 86249)
	}
	if p.vol.writable() != nil {
		return win32.ERROR_WRITE_PROTECT // Source: inference, as other changes of a read-only volume
	}
	open, err := p.tree.Open(p.entry, kernel.FileWriteData|win32.SYNCHRONIZE, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, false)
	if err != nil {
		return dosError(err)
	}
	defer p.tree.Close(p.vol.files(t), open)
	header := le.AppendUint32(nil, win32.IO_REPARSE_TAG_MOUNT_POINT)
	return dosError(p.tree.DeleteReparse(p.vol.files(t), p.entry, append(header, 0, 0, 0, 0)))
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
	return parseVolumeName(`\\?\` + rest)
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
func (n *Node) volumePathName(path string) (string, error) {
	name, device, err := ntName(path)
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
		rest, ok := cutPrefixFold(name, `\??\`)
		if !ok {
			return "", win32.ERROR_INVALID_NAME // Source: inference, a device has no directories
		}
		if _, network := cutPrefixFold(rest, `UNC\`); network {
			return "", win32.ERROR_BAD_NETPATH // Source: inference, a network path has no volume here
		}
		if _, named := cutPrefixFold(rest, `Volume{`); named && prefix == "" {
			prefix = `\\?\`
		}
		first, below, _ := strings.Cut(rest, `\`)
		vol, _, ok := n.volumeForNT(`\??\` + first + `\`)
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
func (n *Node) mountPathBelow(root string, vol *volume, below string) (mount, next string, err error) {
	if vol.tree == nil {
		return root, "", nil
	}
	names := strings.FieldsFunc(below, func(r rune) bool { return r == '\\' })
	at, walked := place{vol: vol, entry: vol.tree.Root()}, root
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
		v, _, ok := n.volumeForNT(`\??\Volume` + guid.String() + `\`)
		if !ok || v.tree == nil {
			return root, "", nil
		}
		at = place{vol: v, entry: v.tree.Root()}
	}
	return root, "", nil
}

// dosName converts the target of a relative link, which begins with a volume's
// device, to a path with a drive letter or volume name.
func (n *Node) dosName(name string) string {
	vol, rest, ok := n.volumeForNT(name)
	if _, device := cutPrefixFold(name, `\Device\`); !device || !ok {
		return name
	}
	root, ok := n.dosRoot(vol)
	if !ok {
		root = vol.name()
	}
	return `\??\` + strings.TrimSuffix(strings.TrimPrefix(root, `\\?\`), `\`) + rest
}
