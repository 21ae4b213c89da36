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
