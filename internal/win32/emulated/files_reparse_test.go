package emulated

import (
	"fmt"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
)

// A name may pass 63 links, but not 64.
func TestLinkLimit(t *testing.T) {
	n := newFileNode(t)
	n.mkdir(`C:\l0`)
	for i := range 64 {
		n.link(fmt.Sprintf(`C:\l%d`, i+1), n.junction(fmt.Sprintf(`C:\l%d`, i)))
	}
	h := n.must(`C:\l63`, readable, win32.FILE_OPEN, synch)
	if got := n.final(h); got != `C:\l0` {
		t.Errorf("63 links lead to %q", got)
	}
	n.shut(h)
	_, err := n.create(0, n.nt(`C:\l64`), readable, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "64 links", err, win32.STATUS_REPARSE_POINT_NOT_RESOLVED)
}

func TestUnknownReparseTag(t *testing.T) {
	n := newFileNode(t)
	h := n.must(`C:\cloud`, writable, win32.FILE_CREATE, folder)
	_, err := n.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, []byte{0x1a, 0x00, 0x00, 0x90, 2, 0, 0, 0, 7, 7}, nil)
	wantErrno(t, "set", err, 0)
	n.shut(h)
	_, err = n.create(0, n.nt(`C:\cloud\x`), readable, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "pass through it", err, win32.STATUS_IO_REPARSE_TAG_NOT_HANDLED)
	n.shut(n.must(`C:\cloud`, readable, win32.FILE_OPEN, synch|win32.FILE_OPEN_REPARSE_POINT))

	// A third party's buffer has a GUID in its header.
	h = n.must(`C:\other`, writable, win32.FILE_CREATE, folder)
	defer n.shut(h)
	_, err = n.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, append([]byte{0x42, 0, 0, 0, 0, 0, 0, 0, 1}, make([]byte, 15)...), nil)
	wantErrno(t, "set a third party's", err, 0)
	_, err = n.DeviceIoControl(h, win32.FSCTL_GET_REPARSE_POINT, nil, make([]byte, 23))
	wantErrno(t, "get it into less than its header", err, win32.ERROR_INSUFFICIENT_BUFFER)
}

// A filter driver opens the files behind its tags, except those that stand for other files.
func TestFilterTags(t *testing.T) {
	for value, want := range map[string]win32.NTStatus{behavior.FilterTagsRefused: win32.STATUS_IO_REPARSE_TAG_NOT_HANDLED, behavior.FilterTagsOpened: 0} {
		n := newFileNodeOn(t, behavior.Windows{FilterTags: value})
		for name, tag := range map[string]uint32{"dedup": 0x80000013, "surrogate": 0xA0000019} {
			h := n.must(`C:\`+name, writable, win32.FILE_CREATE, folder)
			_, err := n.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, le.AppendUint32(le.AppendUint32(nil, tag), 0), nil)
			wantErrno(t, "set", err, 0)
			n.shut(h)
			for _, attributes := range []uint32{0, win32.OBJ_DONT_REPARSE} {
				want := want
				if name == "surrogate" {
					want = win32.STATUS_IO_REPARSE_TAG_NOT_HANDLED
				}
				root := n.must(`C:\`, readable, win32.FILE_OPEN, synch)
				h, err := n.NtCreateFile(root, name, readable, attributes, shareAll, win32.FILE_OPEN, synch)
				wantStatus(t, value+": "+name, err, want)
				if err == nil {
					n.shut(h)
				}
				n.shut(root)
			}
		}
	}
}

func TestReparseControls(t *testing.T) {
	n := newFileNode(t)
	n.touch(`C:\file`, `C:\big`)
	n.resize(`C:\big`, 1)
	all := func(path string) win32.Handle {
		return n.must(path, writable, win32.FILE_OPEN, synch|win32.FILE_OPEN_REPARSE_POINT)
	}
	dir, empty, file, big := all(`C:\dir`), all(`C:\empty`), all(`C:\file`), all(`C:\big`)
	reader := n.must(`C:\empty`, readable, win32.FILE_OPEN, synch)
	attrs := n.must(`C:\empty`, win32.FILE_WRITE_ATTRIBUTES|win32.SYNCHRONIZE, win32.FILE_OPEN, synch)
	defer n.shut(dir, empty, file, big, reader, attrs)
	j := n.junction(`C:\dir`).Encode()
	s := relative(`dir`).Encode()
	mountHeader := []byte{3, 0, 0, 0xa0, 0, 0, 0, 0}
	for _, c := range []struct {
		what  string
		h     win32.Handle
		code  uint32
		in    []byte
		out   int
		n     int
		errno win32.Errno
	}{
		{what: "get where there is none", h: empty, code: win32.FSCTL_GET_REPARSE_POINT, out: 1000, errno: win32.ERROR_NOT_A_REPARSE_POINT},
		{what: "delete where there is none", h: empty, code: win32.FSCTL_DELETE_REPARSE_POINT, in: mountHeader, errno: win32.ERROR_NOT_A_REPARSE_POINT},
		{what: "set without write access", h: reader, code: win32.FSCTL_SET_REPARSE_POINT, in: j, errno: win32.ERROR_ACCESS_DENIED},
		{what: "set with an output buffer", h: empty, code: win32.FSCTL_SET_REPARSE_POINT, in: j, out: 1, errno: win32.ERROR_INVALID_PARAMETER},
		{what: "set nothing", h: empty, code: win32.FSCTL_SET_REPARSE_POINT, errno: win32.ERROR_INVALID_REPARSE_DATA},
		{what: "set a part", h: empty, code: win32.FSCTL_SET_REPARSE_POINT, in: j[:len(j)-2], errno: win32.ERROR_INVALID_REPARSE_DATA},
		{what: "set on a directory with entries", h: dir, code: win32.FSCTL_SET_REPARSE_POINT, in: j, errno: win32.ERROR_DIR_NOT_EMPTY},
		{what: "set a junction on a file", h: file, code: win32.FSCTL_SET_REPARSE_POINT, in: j, errno: win32.ERROR_DIRECTORY},
		{what: "set a symbolic link on a file with contents", h: big, code: win32.FSCTL_SET_REPARSE_POINT, in: s, errno: win32.ERROR_INVALID_REPARSE_DATA},
		{what: "set a symbolic link on an empty file", h: file, code: win32.FSCTL_SET_REPARSE_POINT, in: s},
		{what: "set a junction with the right to write attributes alone", h: attrs, code: win32.FSCTL_SET_REPARSE_POINT, in: j},
		{what: "set another tag", h: empty, code: win32.FSCTL_SET_REPARSE_POINT, in: s, errno: win32.ERROR_REPARSE_TAG_MISMATCH},
		{what: "get", h: empty, code: win32.FSCTL_GET_REPARSE_POINT, out: 16384, n: len(j)},
		{what: "get into exactly enough", h: empty, code: win32.FSCTL_GET_REPARSE_POINT, out: len(j), n: len(j)},
		{what: "get a part", h: empty, code: win32.FSCTL_GET_REPARSE_POINT, out: 10, n: 10, errno: win32.ERROR_MORE_DATA},
		{what: "get into too little", h: empty, code: win32.FSCTL_GET_REPARSE_POINT, out: 7, errno: win32.ERROR_INSUFFICIENT_BUFFER},
		{what: "delete without write access", h: reader, code: win32.FSCTL_DELETE_REPARSE_POINT, in: mountHeader, errno: win32.ERROR_ACCESS_DENIED},
		{what: "delete by its data", h: empty, code: win32.FSCTL_DELETE_REPARSE_POINT, in: j, errno: win32.ERROR_INVALID_REPARSE_DATA},
		{what: "delete another tag", h: file, code: win32.FSCTL_DELETE_REPARSE_POINT, in: mountHeader, errno: win32.ERROR_REPARSE_TAG_MISMATCH},
		{what: "delete", h: empty, code: win32.FSCTL_DELETE_REPARSE_POINT, in: mountHeader},
		{what: "unknown code", h: empty, code: 0x90001, errno: win32.ERROR_INVALID_FUNCTION},
		{what: "a volume's code", h: empty, code: win32.FSCTL_EXTEND_VOLUME, in: make([]byte, 8), errno: win32.ERROR_INVALID_FUNCTION},
	} {
		out := make([]byte, c.out)
		var got int
		err := n.WithPrivilege(win32.SE_CREATE_SYMBOLIC_LINK_NAME, func(n win32.API) (err error) {
			got, err = n.DeviceIoControl(c.h, c.code, c.in, out)
			return err
		})
		wantErrno(t, c.what, err, c.errno)
		if got != c.n {
			t.Errorf("%s: %d bytes, want %d", c.what, got, c.n)
		}
		if c.n > 0 && string(out[:got]) != string(j[:got]) {
			t.Errorf("%s: got %x, want the start of %x", c.what, out[:got], j)
		}
	}
}

// Only symbolic links need a privilege.
func TestSymbolicLinkNeedsPrivilege(t *testing.T) {
	set := func(n win32.API, h win32.Handle, b []byte) error {
		_, err := n.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, b, nil)
		return err
	}
	n := newFileNode(t)
	n.mkdir(`C:\a`, `C:\b`)
	a, b := n.must(`C:\a`, writable, win32.FILE_OPEN, synch), n.must(`C:\b`, writable, win32.FILE_OPEN, synch)
	wantErrno(t, "a symbolic link", set(n, a, relative("x").Encode()), win32.ERROR_PRIVILEGE_NOT_HELD)
	wantErrno(t, "a junction", set(n, b, n.junction(`C:\`).Encode()), 0)
	wantErrno(t, "another privilege", n.WithPrivilege(win32.SE_LOAD_DRIVER_NAME, func(n win32.API) error {
		return set(n, a, relative("x").Encode())
	}), win32.ERROR_PRIVILEGE_NOT_HELD)
	wantErrno(t, "with the privilege", setReparse(n, a, relative("x").Encode()), 0)
	n.shut(a, b)
}
