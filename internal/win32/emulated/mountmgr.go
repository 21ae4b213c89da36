package emulated

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// The mount manager records which volume has which drive letter and at which
// folders it is mounted, even while the volume does not exist. The folder itself
// is a reparse point in the file system (files_mount.go). As on Windows, the
// record of a folder that lost its reparse point in another way than
// DeleteMountPoint stays (docs/develop/contract/files.md#removal).

// mountRecord is a volume mounted at a folder, under "mount/<host>/<PATH>".
type mountRecord struct {
	Host   guidText `json:"host"`   // volume of the folder
	Path   string   `json:"path"`   // path on host, `\mnt\disk`
	Volume guidText `json:"volume"` // mounted volume
}

func (m mountRecord) key() string {
	return "mount/" + win32.GUID(m.Host).String() + "/" + strings.ToUpper(m.Path)
}

func letterKey(letter byte) string { return "letter/" + string(letter) }

// loadMounts reads drive letters and mount points.
func (n *Node) loadMounts() error {
	for _, k := range n.Store.Keys("letter/") {
		var guid guidText
		letter := strings.TrimPrefix(k, "letter/")
		if err := n.Store.Read(k, &guid); err != nil || len(letter) != 1 || letter[0] < 'A' || letter[0] > 'Z' {
			return fmt.Errorf("%s: not a drive letter: %w", k, err)
		}
		n.letters[letter[0]] = win32.GUID(guid)
	}
	for _, k := range n.Store.Keys("mount/") {
		var m mountRecord
		if err := n.Store.Read(k, &m); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		n.mounts[k] = m
	}
	return nil
}

func (n *Node) setLetter(t *kernel.Tx, letter byte, guid win32.GUID) {
	t.Put(letterKey(letter), guidText(guid))
	t.OnCommit(func() { n.letters[letter] = guid })
}

func (n *Node) removeLetter(t *kernel.Tx, letter byte) {
	t.Delete(letterKey(letter))
	t.OnCommit(func() { delete(n.letters, letter) })
}

// forgetLetters releases the letters of a volume that no longer exists.
func (n *Node) forgetLetters(t *kernel.Tx, guid win32.GUID) {
	for letter, g := range n.letters {
		if g == guid {
			n.removeLetter(t, letter)
		}
	}
}

// automount gives a new volume the next drive letter from D on, unless its
// partition asks for none (GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER), is hidden,
// or is not a data partition. taken are the letters that the transaction has
// already assigned.
func (n *Node) automount(t *kernel.Tx, r volumeRecord, table win32.Layout, p win32.Partition, taken map[byte]bool) {
	const hidden = 1 << 62 // GPT_BASIC_DATA_ATTRIBUTE_HIDDEN
	if n.Windows.Automount == nodespec.AutomountDisabled {
		return
	}
	if table.Style == win32.PARTITION_STYLE_GPT &&
		(p.Type != win32.PARTITION_BASIC_DATA_GUID || p.Attributes&(win32.GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER|hidden) != 0) {
		return
	}
	for letter := byte('D'); letter <= 'Z'; letter++ {
		if _, used := n.letters[letter]; !used && !taken[letter] {
			taken[letter] = true
			n.setLetter(t, letter, win32.GUID(r.GUID))
			return
		}
	}
}

// wantedLetter gives a new volume its configured letter.
func (n *Node) wantedLetter(t *kernel.Tx, r volumeRecord, letter string, taken map[byte]bool) error {
	if len(letter) != 1 || !isLetter(letter[0]) {
		return fmt.Errorf("drive letter %q, want A to Z", letter)
	}
	l := letter[0] &^ 0x20
	if _, used := n.letters[l]; used || taken[l] {
		return fmt.Errorf("drive letter %q is already in use", letter)
	}
	taken[l] = true
	n.setLetter(t, l, win32.GUID(r.GUID))
	return nil
}

// pathNames returns where a volume is mounted: letters first, then folders, with
// all paths of the folder's own volume.
func (n *Node) pathNames(guid win32.GUID) []string { return n.pathNamesBut(guid, nil) }

func (n *Node) pathNamesBut(guid win32.GUID, visited []win32.GUID) []string {
	if slices.Contains(visited, guid) {
		return nil // volumes that are mounted in each other
	}
	visited = append(visited, guid)
	var names []string
	for letter, g := range n.letters {
		if g == guid {
			names = append(names, string(letter)+`:\`)
		}
	}
	slices.Sort(names)
	var folders []string
	for _, m := range n.mounts {
		if win32.GUID(m.Volume) == guid {
			for _, host := range n.pathNamesBut(win32.GUID(m.Host), visited) {
				folders = append(folders, strings.TrimSuffix(host, `\`)+m.Path+`\`)
			}
		}
	}
	slices.Sort(folders)
	return append(names, folders...)
}

// dosRoot returns the first path at which a volume is mounted, `C:\`. ok is false
// if it is not mounted.
func (n *Node) dosRoot(v *volume) (string, bool) {
	names := n.pathNames(v.guid())
	if len(names) == 0 {
		return "", false
	}
	return names[0], true
}

// driveOf parses `X:\`.
func driveOf(root string) (letter byte, ok bool) {
	if len(root) == 3 && isLetter(root[0]) && root[1] == ':' && (root[2] == '\\' || root[2] == '/') {
		return root[0] &^ 0x20, true
	}
	return 0, false
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
func (n *Node) SetMountPoint(dir, vol string) error {
	return n.Do(func(t *kernel.Tx) error {
		guid, ok := parseVolumeName(vol)
		if !ok {
			return win32.ERROR_INVALID_PARAMETER
		}
		v := n.volumeByGUID(guid)
		if v == nil {
			return win32.ERROR_FILE_NOT_FOUND
		}
		if letter, ok := driveOf(dir); ok {
			if _, used := n.letters[letter]; used {
				return win32.ERROR_INVALID_PARAMETER
			}
			for _, g := range n.letters {
				if g == guid {
					return win32.ERROR_INVALID_PARAMETER
				}
			}
			n.setLetter(t, letter, guid)
			return nil
		}
		p, err := n.mountFolder(dir)
		if err != nil {
			return err
		}
		if err := n.setMountReparse(t, p, guid); err != nil {
			return err
		}
		m := mountRecord{Host: p.vol.GUID, Path: p.entry.Path(), Volume: v.GUID}
		t.Put(m.key(), m)
		t.OnCommit(func() { n.mounts[m.key()] = m })
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
func (n *Node) DeleteMountPoint(dir string) error {
	return n.Do(func(t *kernel.Tx) error {
		if letter, ok := driveOf(dir); ok {
			if _, used := n.letters[letter]; !used {
				return win32.ERROR_FILE_NOT_FOUND
			}
			n.removeLetter(t, letter)
			return nil
		}
		p, err := n.mountFolder(dir)
		if err != nil {
			return err
		}
		if err := n.clearMountReparse(t, p); err != nil {
			return err
		}
		key := mountRecord{Host: p.vol.GUID, Path: p.entry.Path()}.key()
		t.Delete(key)
		t.OnCommit(func() { delete(n.mounts, key) })
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
func (n *Node) VolumeNameForMountPoint(root string) (vol string, err error) {
	err = n.Do(func(*kernel.Tx) error {
		guid, named := parseVolumeName(root)
		letter, drive := driveOf(root)
		switch {
		case named:
		case drive:
			guid = n.letters[letter]
		default:
			p, err := n.mountFolder(root)
			if err != nil {
				return err
			}
			if guid, err = mountedHere(p); err != nil {
				return err
			}
		}
		v := n.volumeByGUID(guid)
		if v == nil {
			return win32.ERROR_FILE_NOT_FOUND
		}
		vol = v.name()
		return nil
	})
	return vol, err
}

// VolumePathNames implements [win32.Volumes]. It returns ERROR_INVALID_NAME for a
// malformed volume name, ERROR_FILE_NOT_FOUND for an unknown volume, and no names
// for a volume that is not mounted.
//
// Source: document, GetVolumePathNamesForVolumeNameW.
// Source of ERROR_INVALID_NAME, ERROR_FILE_NOT_FOUND: Windows, kernel32/tests/volume.c of Wine,
// which runs on Windows.
func (n *Node) VolumePathNames(vol string) (names []string, err error) {
	err = n.Do(func(*kernel.Tx) error {
		guid, ok := parseVolumeName(vol)
		if !ok {
			return win32.ERROR_INVALID_NAME
		}
		if n.volumeByGUID(guid) == nil {
			return win32.ERROR_FILE_NOT_FOUND
		}
		names = n.pathNames(guid)
		return nil
	})
	return names, err
}

// VolumePathName implements [win32.Volumes].
//
// Source: document, GetVolumePathNameW.
func (n *Node) VolumePathName(p string) (root string, err error) {
	err = n.Do(func(*kernel.Tx) error {
		root, err = n.volumePathName(p)
		return err
	})
	return root, err
}
