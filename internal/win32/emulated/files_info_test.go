package emulated

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

func TestQueryInformation(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	ok(t, n.PutFile(`C:\dir\file`, false, 77))
	file := n.must(`C:\dir\file`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	link := n.must(`C:\mount`, readable, win32.FILE_OPEN, synch|win32.FILE_OPEN_REPARSE_POINT)
	defer n.shut(file, link)
	buf := make([]byte, 64)
	query := func(h win32.Handle, class uint32) []byte {
		t.Helper()
		used, err := n.QueryInformation(h, class, buf)
		if err != nil {
			t.Fatalf("class %d: %v", class, err)
		}
		return buf[:used]
	}
	if tag, err := win32.DecodeAttributeTag(query(link, win32.FileAttributeTagInformation)); err != nil ||
		tag != (win32.AttributeTag{Attributes: win32.FILE_ATTRIBUTE_DIRECTORY | win32.FILE_ATTRIBUTE_REPARSE_POINT, ReparseTag: win32.IO_REPARSE_TAG_MOUNT_POINT}) {
		t.Errorf("link: %+v, %v", tag, err)
	}
	if got := le.Uint32(query(file, win32.FileBasicInformation)[32:]); got != win32.FILE_ATTRIBUTE_ARCHIVE {
		t.Errorf("file: attributes %#x", got)
	}
	standard := func(what string, want win32.FileStandard) {
		t.Helper()
		if got := query(file, win32.FileStandardInformation); !bytes.Equal(got, want.Encode()) {
			t.Errorf("%s: % x, want % x", what, got, want.Encode())
		}
	}
	standard("file", win32.FileStandard{EndOfFile: 77, Links: 1})
	wantStatus(t, "mark for deletion", n.SetInformation(file, win32.FileDispositionInformation, []byte{1}), 0)
	standard("file marked for deletion", win32.FileStandard{EndOfFile: 77, DeletePending: true})
	wantStatus(t, "unmark", n.SetInformation(file, win32.FileDispositionInformation, []byte{0}), 0)

	_, err := n.QueryInformation(0, win32.FileBasicInformation, buf)
	wantStatus(t, "no handle", err, win32.STATUS_INVALID_HANDLE)
}

// What the table of package filestatus does not have.
func TestSetInformationRefusals(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	file := n.must(`C:\dir\file`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	root := n.must(`E:\`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	defer n.shut(file, root)
	for what, c := range map[string]struct {
		h      win32.Handle
		class  uint32
		in     []byte
		status win32.NTStatus
	}{
		"no handle":                 {0, win32.FileBasicInformation, make([]byte, 40), win32.STATUS_INVALID_HANDLE},
		"deletion of the root":      {root, win32.FileDispositionInformation, []byte{1}, win32.STATUS_CANNOT_DELETE},
		"flags that no host passes": {file, win32.FileDispositionInformationEx, win32.EncodeDisposition(0x41), win32.STATUS_NOT_SUPPORTED},
	} {
		wantStatus(t, what, n.SetInformation(c.h, c.class, c.in), c.status)
	}
}

// What a deleted file is called, by its path and by a handle.
func TestDeletion(t *testing.T) {
	n := newFileNode(t)
	n.touch(`C:\file`)
	a := n.must(`C:\file`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	b := n.must(`C:\file`, readable, win32.FILE_OPEN, synch)
	wantStatus(t, "POSIX delete", n.SetInformation(a, win32.FileDispositionInformationEx,
		win32.EncodeDisposition(win32.FILE_DISPOSITION_DELETE|win32.FILE_DISPOSITION_POSIX_SEMANTICS)), 0)
	_, err := n.Attributes(`C:\file`)
	wantErrno(t, "its attributes", err, win32.ERROR_ACCESS_DENIED)
	n.shut(a)
	_, err = n.Attributes(`C:\file`)
	wantErrno(t, "its attributes once the handle is closed", err, win32.ERROR_FILE_NOT_FOUND)
	if at, err := n.FinalPath(b, win32.VOLUME_NAME_DOS); err != nil || !strings.HasPrefix(at, `\\?\C:\$Extend\$Deleted\`) {
		t.Errorf("what is deleted and still open is at %q, %v", at, err)
	}
	n.shut(b)
}
