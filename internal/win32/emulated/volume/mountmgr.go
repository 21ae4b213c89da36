package volume

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
// is a reparse point in the file system (package files). As on Windows, the
// record of a folder that lost its reparse point in another way than
// DeleteMountPoint stays (docs/develop/contract/files.md#removal).

// MountRecord is a volume mounted at a folder, under "mount/<host>/<PATH>".
type MountRecord struct {
	Host   guidText `json:"host"`   // volume of the folder
	Path   string   `json:"path"`   // path on host, `\mnt\disk`
	Volume guidText `json:"volume"` // mounted volume
}

func (m MountRecord) key() string {
	return "mount/" + win32.GUID(m.Host).String() + "/" + strings.ToUpper(m.Path)
}

func letterKey(letter byte) string { return "letter/" + string(letter) }

// loadMounts reads drive letters and mount points.
func (n *Volumes) loadMounts() error {
	for _, k := range n.Store.Keys("letter/") {
		var guid guidText
		letter := strings.TrimPrefix(k, "letter/")
		if err := n.Store.Read(k, &guid); err != nil || len(letter) != 1 || letter[0] < 'A' || letter[0] > 'Z' {
			return fmt.Errorf("%s: not a drive letter: %w", k, err)
		}
		n.Letters[letter[0]] = win32.GUID(guid)
	}
	for _, k := range n.Store.Keys("mount/") {
		var m MountRecord
		if err := n.Store.Read(k, &m); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		n.mounts[k] = m
	}
	return nil
}

func (n *Volumes) SetLetter(t *kernel.Tx, letter byte, guid win32.GUID) {
	t.Put(letterKey(letter), guidText(guid))
	t.OnCommit(func() { n.Letters[letter] = guid })
}

func (n *Volumes) RemoveLetter(t *kernel.Tx, letter byte) {
	t.Delete(letterKey(letter))
	t.OnCommit(func() { delete(n.Letters, letter) })
}

func (n *Volumes) SetMount(t *kernel.Tx, m MountRecord) {
	t.Put(m.key(), m)
	t.OnCommit(func() { n.mounts[m.key()] = m })
}

func (n *Volumes) RemoveMount(t *kernel.Tx, m MountRecord) {
	t.Delete(m.key())
	t.OnCommit(func() { delete(n.mounts, m.key()) })
}

// forgetLetters releases the letters of a volume that no longer exists.
func (n *Volumes) forgetLetters(t *kernel.Tx, guid win32.GUID) {
	for letter, g := range n.Letters {
		if g == guid {
			n.RemoveLetter(t, letter)
		}
	}
}

// automount gives a new volume the next drive letter from D on, unless its
// partition asks for none (GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER), or is not a
// data partition. taken are the letters that the transaction has
// already assigned.
func (n *Volumes) automount(t *kernel.Tx, r Record, table win32.Layout, p win32.Partition, taken map[byte]bool) {
	if n.Windows.Automount == nodespec.AutomountDisabled {
		return
	}
	if table.Style == win32.PARTITION_STYLE_GPT &&
		(p.Type != win32.PARTITION_BASIC_DATA_GUID || p.Attributes&win32.GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER != 0) {
		return
	}
	for letter := byte('D'); letter <= 'Z'; letter++ {
		if _, used := n.Letters[letter]; !used && !taken[letter] {
			taken[letter] = true
			n.SetLetter(t, letter, win32.GUID(r.GUID))
			return
		}
	}
}

// wantedLetter gives a new volume its configured letter.
func (n *Volumes) wantedLetter(t *kernel.Tx, r Record, letter string, taken map[byte]bool) error {
	if len(letter) != 1 || !isLetter(letter[0]) {
		return fmt.Errorf("drive letter %q, want A to Z", letter)
	}
	l := letter[0] &^ 0x20
	if _, used := n.Letters[l]; used || taken[l] {
		return fmt.Errorf("drive letter %q is already in use", letter)
	}
	taken[l] = true
	n.SetLetter(t, l, win32.GUID(r.GUID))
	return nil
}

// pathNames returns where a volume is mounted: letters first, then folders, with
// all paths of the folder's own volume.
func (n *Volumes) pathNames(guid win32.GUID) []string { return n.pathNamesBut(guid, nil) }

func (n *Volumes) pathNamesBut(guid win32.GUID, visited []win32.GUID) []string {
	if slices.Contains(visited, guid) {
		return nil // volumes that are mounted in each other
	}
	visited = append(visited, guid)
	var names []string
	for letter, g := range n.Letters {
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

// DOSRoot returns the first path at which a volume is mounted, `C:\`. ok is false
// if it is not mounted.
func (n *Volumes) DOSRoot(v *Volume) (string, bool) {
	names := n.pathNames(v.guid())
	if len(names) == 0 {
		return "", false
	}
	return names[0], true
}

// DriveLetter parses `X:\`.
func DriveLetter(root string) (letter byte, ok bool) {
	if len(root) == 3 && isLetter(root[0]) && root[1] == ':' && (root[2] == '\\' || root[2] == '/') {
		return root[0] &^ 0x20, true
	}
	return 0, false
}

// VolumePathNames implements [win32.Volumes]. It returns ERROR_INVALID_NAME for a
// malformed volume name, ERROR_FILE_NOT_FOUND for an unknown volume, and no names
// for a volume that is not mounted.
//
// Source: document, GetVolumePathNamesForVolumeNameW.
// Source of ERROR_INVALID_NAME, ERROR_FILE_NOT_FOUND: Windows, kernel32/tests/volume.c of Wine,
// which runs on Windows.
func (n *Volumes) VolumePathNames(vol string) (names []string, err error) {
	err = n.Do(func(*kernel.Tx) error {
		guid, ok := ParseVolumeName(vol)
		if !ok {
			return win32.ERROR_INVALID_NAME
		}
		if n.ByGUID(guid) == nil {
			return win32.ERROR_FILE_NOT_FOUND
		}
		names = n.pathNames(guid)
		return nil
	})
	return names, err
}

// ParseVolumeName parses a volume name in the form that the mount functions
// require, exactly `\\?\Volume{xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}\`
// (SetVolumeMountPointW's page).
func ParseVolumeName(name string) (win32.GUID, bool) {
	text, ok := CutPrefixFold(name, `\\?\Volume{`)
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

// VolumeNames implements [win32.Volumes].
//
// Source: document, FindFirstVolumeW. That offline volumes are listed: code of Arsenal Image
// Mounter.
func (n *Volumes) VolumeNames() (names []string, err error) {
	err = n.Do(func(*kernel.Tx) error {
		for _, v := range n.List {
			if v.visible() {
				names = append(names, v.Name())
			}
		}
		return nil
	})
	return names, err
}
