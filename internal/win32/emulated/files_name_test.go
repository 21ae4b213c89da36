package emulated

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

func TestFinalPath(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	c := n.must(`C:\junction\sub`, readable, win32.FILE_OPEN, synch)
	root := n.must(`C:\`, readable, win32.FILE_OPEN, synch)
	u := n.must(`U:\deep`, readable, win32.FILE_OPEN, synch)
	disk, err := n.CreateFile(`\\.\PhysicalDrive0`, 0, shareAll, win32.OPEN_EXISTING, 0)
	ok(t, err)
	defer n.shut(c, root, u, disk)
	system, err := n.VolumeNameForMountPoint(`C:\`)
	ok(t, err)
	for _, c := range []struct {
		what  string
		h     win32.Handle
		flags uint32
		want  string
		errno win32.Errno
	}{
		{what: "by letter", h: c, flags: win32.VOLUME_NAME_DOS, want: `\\?\C:\dir\sub`},
		{what: "opened name by letter", h: c, flags: win32.VOLUME_NAME_DOS | 8, want: `\\?\C:\dir\sub`},
		{what: "root by letter", h: root, flags: win32.VOLUME_NAME_DOS, want: `\\?\C:\`},
		{what: "by volume name", h: c, flags: win32.VOLUME_NAME_GUID, want: system + `dir\sub`},
		{what: "root by volume name", h: root, flags: win32.VOLUME_NAME_GUID, want: system},
		{what: "no letter", h: u, flags: win32.VOLUME_NAME_DOS, errno: win32.ERROR_PATH_NOT_FOUND},
		{what: "no letter, by volume name", h: u, flags: win32.VOLUME_NAME_GUID, want: n.unlettered + `deep`},
		{what: "a name that no host asks for", h: c, flags: 4, errno: win32.ERROR_NOT_SUPPORTED},
		{what: "a disk", h: disk, errno: win32.ERROR_INVALID_FUNCTION},
		{what: "no handle", errno: win32.ERROR_INVALID_HANDLE},
	} {
		got, err := n.FinalPath(c.h, c.flags)
		wantErrno(t, c.what, err, c.errno)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	// A volume mounted at a folder has the folder's path.
	wantErrno(t, "mount", n.SetMountPoint(`C:\empty\`, n.unlettered), 0)
	if got, err := n.FinalPath(u, win32.VOLUME_NAME_DOS); err != nil || got != `\\?\C:\empty\deep` {
		t.Errorf("mounted in a folder: %q, %v", got, err)
	}
}

func TestAttributes(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.mkdir(`C:\trailing.`, `C:\con`, `C:\`+strings.Repeat(`long\`, 1)[:4])
	const (
		dir  = win32.FILE_ATTRIBUTE_DIRECTORY
		link = dir | win32.FILE_ATTRIBUTE_REPARSE_POINT
	)
	for _, c := range []struct {
		path  string
		want  uint32
		errno win32.Errno
	}{
		{path: `C:\dir`, want: dir},
		{path: `c:/DIR/sub`, want: dir},
		{path: `C:\dir\`, want: dir},
		{path: `C:\dir\file`, want: win32.FILE_ATTRIBUTE_ARCHIVE},
		{path: `C:\.\dir\..\dir\\sub.`, want: dir},
		{path: `C:\..\..\dir`, want: dir},
		{path: `C:\dir  . .`, want: dir},
		{path: `C:\dir.\sub`, want: dir},
		{path: `\\?\C:\dir`, want: dir},
		{path: `\\.\C:\dir`, want: dir},
		{path: n.unlettered + `deep`, want: dir},
		{path: `C:\mount`, want: link},
		{path: `C:\nowhere`, want: link},
		{path: `C:\mount\deep`, want: dir},
		{path: `C:\filelink`, want: win32.FILE_ATTRIBUTE_ARCHIVE | win32.FILE_ATTRIBUTE_REPARSE_POINT},
		{path: `\\?\C:\trailing.`, want: dir},
		{path: `\\?\C:\con`, want: dir},
		{path: `C:\`, want: dir | win32.FILE_ATTRIBUTE_HIDDEN | win32.FILE_ATTRIBUTE_SYSTEM},
		// A reserved name is a device in any directory, with any extension.
		{path: `C:\dir\NUL`, want: win32.FILE_ATTRIBUTE_ARCHIVE},
		{path: `C:\nowhere else\com1.txt`, want: win32.FILE_ATTRIBUTE_ARCHIVE},
		{path: `C:\dir\Aux .x`, want: win32.FILE_ATTRIBUTE_ARCHIVE},
		{path: `C:\dir\LPT³`, want: win32.FILE_ATTRIBUTE_ARCHIVE},
		{path: `C:\dir\COM0`, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `C:\dir\console`, errno: win32.ERROR_FILE_NOT_FOUND},

		{path: `C:\trailing.`, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `\\?\C:\dir.`, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `\\?\C:/dir`, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `\\?\C:\dir/sub`, errno: win32.ERROR_INVALID_NAME},
		{path: `\\?\C:\dir\..`, errno: win32.ERROR_INVALID_NAME},
		{path: `C:\missing`, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `C:\missing\x`, errno: win32.ERROR_PATH_NOT_FOUND},
		{path: `C:\dir\file\x`, errno: win32.ERROR_PATH_NOT_FOUND},
		{path: `C:\dir\file\`, errno: win32.ERROR_DIRECTORY},
		{path: `C:\dir\a?b`, errno: win32.ERROR_INVALID_NAME},
		{path: "C:\\a\x00b", errno: win32.ERROR_INVALID_NAME},
		{path: `C:\` + strings.Repeat("x", 256), errno: win32.ERROR_INVALID_NAME},
		{path: `C:\` + strings.Repeat("x", 40000), errno: win32.ERROR_FILENAME_EXCED_RANGE},
		{path: `Z:\x`, errno: win32.ERROR_PATH_NOT_FOUND},
		{path: n.blank, errno: win32.ERROR_UNRECOGNIZED_VOLUME},
		{path: `\\server\share\x`, errno: win32.ERROR_BAD_NETPATH},
		{path: `\\?\UNC\server\share\x`, errno: win32.ERROR_BAD_NETPATH},
		{path: `C:\circle\x`, errno: win32.ERROR_CANT_RESOLVE_FILENAME},
		{path: `dir`, errno: win32.ERROR_BAD_PATHNAME},
		{path: `\dir`, errno: win32.ERROR_BAD_PATHNAME},
		{path: `C:dir`, errno: win32.ERROR_BAD_PATHNAME},
		{path: `C:`, errno: win32.ERROR_BAD_PATHNAME},
		{path: ``, errno: win32.ERROR_PATH_NOT_FOUND},
	} {
		got, err := n.Attributes(c.path)
		wantErrno(t, fmt.Sprintf("attributes of %.60q", c.path), err, c.errno)
		if got != c.want {
			t.Errorf("attributes of %.60q are %#x, want %#x", c.path, got, c.want)
		}
	}
}

// FuzzAttributes: no path makes the node panic, and the two queries agree.
func FuzzAttributes(f *testing.F) {
	for _, s := range []string{`C:\dir`, `\\?\C:\dir`, `c:/dir/.`, `\\.\C:\`, `\\server\share\`, `C:\CON`, ``, `\\?\`, `C:\ . .`, "C:\\\xff\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		n := newFileNode(t)
		n.populate()
		attributes, err := n.Attributes(path)
		if _, ok := err.(win32.Errno); err != nil && !ok {
			t.Errorf("%q: %v (%T), want an Errno", path, err, err)
		}
		if err == nil && attributes == 0 {
			t.Errorf("%q has the attributes 0", path)
		}
		if root, err := n.VolumePathName(path); err == nil && !strings.HasSuffix(root, `\`) {
			t.Errorf("%q is on %q", path, root)
		}
	})
}
