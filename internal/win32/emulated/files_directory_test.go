package emulated

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// list reads all names, with a buffer of size bytes.
func (n *fileNode) list(h win32.Handle, size int) ([]win32.DirEntry, error) {
	var all []win32.DirEntry
	buf := make([]byte, size)
	for first := true; ; first = false {
		for i := range buf {
			buf[i] = 0xcc
		}
		used, err := n.QueryDirectory(h, first, buf)
		if err != nil {
			return all, err
		}
		es, err := win32.DecodeDirectory(buf[:used])
		ok(n.t, err)
		all = append(all, es...)
	}
}

func names(es []win32.DirEntry) []string {
	var s []string
	for _, e := range es {
		s = append(s, e.Name)
	}
	return s
}

func TestQueryDirectory(t *testing.T) {
	n := newFileNode(t)
	n.mkdir(`C:\list`, `C:\list\B`)
	n.touch(`C:\list\a`, `C:\list\c`, `C:\list\a long name, longer than the others`)
	n.link(`C:\list\link`, n.junction(`C:\dir`))
	ok(t, n.PutFile(`C:\list\c`, false, 5000))
	h := n.must(`C:\list`, readable, win32.FILE_OPEN, folder)
	defer n.shut(h)
	want := []string{".", "..", "a", "a long name, longer than the others", "B", "c", "link"}
	// The listing is the same for any buffer that is large enough for the longest
	// entry.
	for _, size := range []int{144, 145, 150, 200, 300, 500, 4096} {
		es, err := n.list(h, size)
		wantStatus(t, "at the end", err, win32.STATUS_NO_MORE_FILES)
		if got := names(es); !slices.Equal(got, want) {
			t.Errorf("%d bytes at a time: %q, want %q", size, got, want)
		}
		for _, e := range es {
			attr, tag, length := uint32(win32.FILE_ATTRIBUTE_DIRECTORY), uint32(0), int64(0)
			switch e.Name {
			case "..":
				attr |= win32.FILE_ATTRIBUTE_HIDDEN | win32.FILE_ATTRIBUTE_SYSTEM // the root's
			case "a", "a long name, longer than the others":
				attr = win32.FILE_ATTRIBUTE_ARCHIVE
			case "c":
				attr, length = win32.FILE_ATTRIBUTE_ARCHIVE, 5000
			case "link":
				attr, tag = attr|win32.FILE_ATTRIBUTE_REPARSE_POINT, win32.IO_REPARSE_TAG_MOUNT_POINT
			}
			if e.Attributes != attr || e.ReparseTag != tag || e.Size != length {
				t.Errorf("%q: attributes %#x, tag %#x, size %d; want %#x, %#x, %d", e.Name, e.Attributes, e.ReparseTag, e.Size, attr, tag, length)
			}
		}
	}
	// Nothing is left before a restart; everything is listed after it.
	_, err := n.QueryDirectory(h, false, make([]byte, 4096))
	wantStatus(t, "after the end", err, win32.STATUS_NO_MORE_FILES)
	if _, err := n.QueryDirectory(h, true, make([]byte, 4096)); err != nil {
		t.Errorf("restart: %v", err)
	}
}

func TestQueryDirectoryRefusals(t *testing.T) {
	n := newFileNode(t)
	n.touch(`C:\dir\sub\` + strings.Repeat("x", 100))
	buf := make([]byte, 4096)

	h := n.must(`C:\dir\sub`, readable, win32.FILE_OPEN, synch)
	if _, err := n.QueryDirectory(h, true, buf[:72+70+6]); err != nil { // "." and ".."
		t.Fatal(err)
	}
	used, err := n.QueryDirectory(h, false, buf[:100])
	wantStatus(t, "a buffer too small for the name", err, win32.STATUS_BUFFER_OVERFLOW)
	if used != 100 || le.Uint32(buf[60:]) != 200 {
		t.Errorf("%d bytes are filled and the name length is %d, want 100 and 200", used, le.Uint32(buf[60:]))
	}
	used, err = n.QueryDirectory(h, false, buf)
	wantStatus(t, "the same with a larger buffer", err, 0)
	if es, err := win32.DecodeDirectory(buf[:used]); err != nil || len(es) != 1 || len(es[0].Name) != 100 {
		t.Errorf("the listing is %v, %v", names(es), err)
	}
	n.shut(h)

	// The empty root of a volume does not even have "." and "..".
	h = n.must(`E:\`, readable, win32.FILE_OPEN, synch)
	_, err = n.QueryDirectory(h, false, buf)
	wantStatus(t, "an empty root", err, win32.STATUS_NO_SUCH_FILE)
	_, err = n.QueryDirectory(h, false, buf)
	wantStatus(t, "an empty root again", err, win32.STATUS_NO_MORE_FILES)
	n.shut(h)

	_, err = n.QueryDirectory(h, true, buf)
	wantStatus(t, "a closed handle", err, win32.STATUS_INVALID_HANDLE)
	disk, err := n.CreateFile(`\\.\PhysicalDrive0`, 0, shareAll, win32.OPEN_EXISTING, 0)
	ok(t, err)
	_, err = n.QueryDirectory(disk, true, buf)
	wantStatus(t, "a disk", err, win32.STATUS_INVALID_DEVICE_REQUEST)
	n.shut(disk)
}
