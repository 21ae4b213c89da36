package emulated

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

func basic(attributes uint32) []byte {
	b := make([]byte, sizeofBasic)
	le.PutUint32(b[basicAttributes:], attributes)
	return b
}

func TestQueryInformation(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.resize(`C:\dir\file`, 77)
	file := n.must(`C:\dir\file`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	link := n.must(`C:\mount`, readable, win32.FILE_OPEN, synch|win32.FILE_OPEN_REPARSE_POINT)
	blind := n.must(`C:\dir`, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.FILE_OPEN, synch)
	defer n.shut(file, link, blind)
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
	again := n.must(`C:\DIR\FILE`, readable, win32.FILE_OPEN, synch)
	if a, b := string(query(file, win32.FileInternalInformation)), string(query(again, win32.FileInternalInformation)); a != b || len(a) != 8 {
		t.Errorf("the same file has the numbers %x and %x", a, b)
	}
	n.shut(again)

	_, err := n.QueryInformation(file, 9999, buf)
	wantStatus(t, "unknown class", err, win32.STATUS_INVALID_INFO_CLASS)
	for class, size := range map[uint32]int{win32.FileBasicInformation: 40, win32.FileStandardInformation: 24, win32.FileInternalInformation: 8, win32.FileAttributeTagInformation: 8} {
		_, err := n.QueryInformation(file, class, buf[:size-1])
		wantStatus(t, fmt.Sprintf("class %d, one byte too few", class), err, win32.STATUS_INFO_LENGTH_MISMATCH)
	}
	for _, class := range []uint32{win32.FileBasicInformation, win32.FileAttributeTagInformation} {
		_, err := n.QueryInformation(blind, class, buf)
		wantStatus(t, fmt.Sprintf("class %d without FILE_READ_ATTRIBUTES", class), err, win32.STATUS_ACCESS_DENIED)
	}
	_, err = n.QueryInformation(0, win32.FileBasicInformation, buf)
	wantStatus(t, "no handle", err, win32.STATUS_INVALID_HANDLE)
}

func renameTo(root win32.Handle, name string, replace bool) []byte {
	b := make([]byte, renameName)
	if replace {
		b[0] = 1
	}
	le.PutUint64(b[renameRoot:], uint64(root))
	for _, r := range name { // letters of one unit each
		b = le.AppendUint16(b, uint16(r))
	}
	le.PutUint32(b[renameNameLength:], uint32(len(b)-renameName))
	for len(b) < sizeofRename {
		b = append(b, 0)
	}
	return b
}

func TestSetInformation(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.touch(`C:\taken`)
	all := n.must(`C:\dir\file`, readable|win32.DELETE|kernel.FileWriteData|win32.FILE_WRITE_ATTRIBUTES, win32.FILE_OPEN, synch)
	none := n.must(`C:\dir\file`, readable, win32.FILE_OPEN, synch)
	dir := n.must(`C:\dir`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	root := n.must(`E:\`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	sub := n.must(`C:\dir\sub`, readable, win32.FILE_OPEN, synch)
	strict, err := n.create(0, n.nt(`C:\empty`), readable, win32.FILE_SHARE_READ, win32.FILE_OPEN, synch)
	if err != nil {
		t.Fatal(err)
	}
	defer n.shut(all, none, dir, root, sub, strict)
	del := win32.EncodeDisposition(win32.FILE_DISPOSITION_DELETE)
	for _, c := range []struct {
		what   string
		h      win32.Handle
		class  uint32
		in     []byte
		status win32.NTStatus
	}{
		{what: "unknown class", h: all, class: 9999, in: del, status: win32.STATUS_INVALID_INFO_CLASS},
		{what: "no handle", class: win32.FileBasicInformation, in: basic(0), status: win32.STATUS_INVALID_HANDLE},
		{what: "basic, short", h: all, class: win32.FileBasicInformation, in: basic(0)[:39], status: win32.STATUS_INFO_LENGTH_MISMATCH},
		{what: "size, short", h: all, class: win32.FileEndOfFileInformation, in: make([]byte, 7), status: win32.STATUS_INFO_LENGTH_MISMATCH},
		{what: "disposition, short", h: all, class: win32.FileDispositionInformation, status: win32.STATUS_INFO_LENGTH_MISMATCH},
		{what: "disposition with flags, short", h: all, class: win32.FileDispositionInformationEx, in: del[:3], status: win32.STATUS_INFO_LENGTH_MISMATCH},
		{what: "rename, short", h: all, class: win32.FileRenameInformation, in: renameTo(0, "x", false)[:23], status: win32.STATUS_INFO_LENGTH_MISMATCH},
		{what: "basic without FILE_WRITE_ATTRIBUTES", h: none, class: win32.FileBasicInformation, in: basic(1), status: win32.STATUS_ACCESS_DENIED},
		{what: "size without FILE_WRITE_DATA", h: none, class: win32.FileEndOfFileInformation, in: make([]byte, 8), status: win32.STATUS_ACCESS_DENIED},
		{what: "disposition without DELETE", h: none, class: win32.FileDispositionInformation, in: []byte{1}, status: win32.STATUS_ACCESS_DENIED},
		{what: "disposition with flags without DELETE", h: none, class: win32.FileDispositionInformationEx, in: del, status: win32.STATUS_ACCESS_DENIED},
		{what: "rename without DELETE", h: none, class: win32.FileRenameInformation, in: renameTo(0, "x", false), status: win32.STATUS_ACCESS_DENIED},
		{what: "attributes left alone", h: all, class: win32.FileBasicInformation, in: basic(0)},
		{what: "a file made a directory", h: all, class: win32.FileBasicInformation, in: basic(win32.FILE_ATTRIBUTE_DIRECTORY), status: win32.STATUS_INVALID_PARAMETER},
		{what: "a directory with entries", h: dir, class: win32.FileDispositionInformation, in: []byte{1}, status: win32.STATUS_DIRECTORY_NOT_EMPTY},
		{what: "the root", h: root, class: win32.FileDispositionInformation, in: []byte{1}, status: win32.STATUS_CANNOT_DELETE},
		{what: "unknown disposition flags", h: all, class: win32.FileDispositionInformationEx, in: win32.EncodeDisposition(0x41), status: win32.STATUS_INVALID_PARAMETER},

		{what: "rename in place", h: all, class: win32.FileRenameInformation, in: renameTo(0, "file2", false)},
		{what: "rename to an absolute name", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\moved`, false)},
		{what: "rename relative to a handle", h: all, class: win32.FileRenameInformation, in: renameTo(sub, `file`, false)},
		{what: "rename through a link", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\symlink\file`, false)},
		{what: "rename over something", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\taken`, true)},
		{what: "no name", h: all, class: win32.FileRenameInformation, in: renameTo(0, "", false), status: win32.STATUS_INVALID_PARAMETER},
		{what: "a name of an odd length", h: all, class: win32.FileRenameInformation, in: oddName(renameTo(0, "ab", false), 3), status: win32.STATUS_INVALID_PARAMETER},
		{what: "a name longer than the buffer", h: all, class: win32.FileRenameInformation, in: oddName(renameTo(0, "ab", false), 0xfffffffe), status: win32.STATUS_INVALID_PARAMETER},
		{what: "a bad name", h: all, class: win32.FileRenameInformation, in: renameTo(0, "a?", false), status: win32.STATUS_OBJECT_NAME_INVALID},
		{what: "a name that is taken", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\empty`, false), status: win32.STATUS_OBJECT_NAME_COLLISION},
		{what: "to another volume", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\E:\x`, false), status: win32.STATUS_NOT_SAME_DEVICE},
		{what: "through a mount point", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\mount\x`, false), status: win32.STATUS_NOT_SAME_DEVICE},
		{what: "to a volume's root", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\E:\`, false), status: win32.STATUS_OBJECT_NAME_INVALID},
		{what: "to nowhere", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\missing\x`, false), status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{what: "relative to no handle", h: all, class: win32.FileRenameInformation, in: renameTo(0x1234, `x`, false), status: win32.STATUS_INVALID_HANDLE},
		{what: "into a directory whose writing is not shared", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\empty\x`, false), status: win32.STATUS_SHARING_VIOLATION},
		{what: "a directory that something is open in", h: dir, class: win32.FileRenameInformation, in: renameTo(0, `dir2`, false), status: win32.STATUS_ACCESS_DENIED},
		{what: "the root", h: root, class: win32.FileRenameInformation, in: renameTo(0, `x`, false), status: win32.STATUS_INVALID_PARAMETER},
	} {
		wantStatus(t, c.what, n.SetInformation(c.h, c.class, c.in), c.status)
	}
	if got := n.final(all); got != `C:\taken` {
		t.Errorf("after the renames the file is at %q", got)
	}
}

func oddName(b []byte, length uint32) []byte {
	le.PutUint32(b[renameNameLength:], length)
	return b
}

func TestDeletion(t *testing.T) {
	n := newFileNode(t)
	n.touch(`C:\file`)
	a := n.must(`C:\file`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	b := n.must(`C:\file`, readable, win32.FILE_OPEN, synch)
	wantStatus(t, "POSIX delete", n.SetInformation(a, win32.FileDispositionInformationEx,
		win32.EncodeDisposition(win32.FILE_DISPOSITION_DELETE|win32.FILE_DISPOSITION_POSIX_SEMANTICS|win32.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE)), 0)
	_, err := n.create(0, `\??\C:\file`, readable, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "open it", err, win32.STATUS_DELETE_PENDING)
	_, err = n.Attributes(`C:\file`)
	wantErrno(t, "its attributes", err, win32.ERROR_ACCESS_DENIED)
	d := n.must(`C:\doomed`, readable|win32.DELETE, win32.FILE_CREATE, folder)
	wantStatus(t, "delete a directory", n.SetInformation(d, win32.FileDispositionInformation, []byte{1}), 0)
	_, err = n.create(0, `\??\C:\doomed\x`, readable, shareAll, win32.FILE_CREATE, synch)
	wantStatus(t, "create in it", err, win32.STATUS_DELETE_PENDING)
	_, err = n.create(0, `\??\C:\doomed\x\y`, readable, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "open something below it", err, win32.STATUS_DELETE_PENDING)
	n.shut(d)
	n.shut(a)
	_, err = n.Attributes(`C:\file`)
	wantErrno(t, "its attributes once the handle is closed", err, win32.ERROR_FILE_NOT_FOUND)
	if at, err := n.FinalPath(b, win32.VOLUME_NAME_DOS); err != nil || !strings.HasPrefix(at, `\\?\C:\$Extend\$Deleted\`) {
		t.Errorf("what is deleted and still open is at %q, %v", at, err)
	}
	n.shut(b)

	h := n.must(`C:\temporary`, win32.DELETE|win32.SYNCHRONIZE, win32.FILE_CREATE, synch|win32.FILE_DELETE_ON_CLOSE)
	n.shut(h)
	_, err = n.Attributes(`C:\temporary`)
	wantErrno(t, "deleted on close", err, win32.ERROR_FILE_NOT_FOUND)
}
