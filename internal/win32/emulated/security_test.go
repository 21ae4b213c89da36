package emulated

import (
	"bytes"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// root opens the root directory of a volume.
func (n *fileNode) root(vol string, access uint32) win32.Handle {
	n.t.Helper()
	h, err := n.create(0, `\??\`+vol[4:], access|win32.SYNCHRONIZE, shareAll, win32.FILE_OPEN, folder)
	ok(n.t, err)
	return h
}

func (n *fileNode) rootSecurity(vol string) []byte {
	s, err := n.Show()
	ok(n.t, err)
	for _, v := range s.Volumes {
		if v.ID == vol {
			return v.RootSecurity
		}
	}
	n.t.Fatalf("no volume %q", vol)
	return nil
}

func TestSetSecurity(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	list := win32.EncodeDACL([]win32.ACE{{Mask: win32.FILE_ALL_ACCESS, SID: win32.SID{Authority: 5, Sub: []uint32{18}}}})
	h := n.root(n.unlettered, win32.WRITE_DAC)
	reader := n.root(n.unlettered, win32.FILE_READ_ATTRIBUTES)
	wantStatus(t, "no handle", n.SetSecurity(0, list), win32.STATUS_INVALID_HANDLE)
	wantStatus(t, "half a descriptor", n.SetSecurity(h, list[:len(list)-1]), win32.STATUS_INVALID_SECURITY_DESCR)
	wantStatus(t, "without the right", n.SetSecurity(reader, list), win32.STATUS_ACCESS_DENIED)
	buf := make([]byte, 1024)
	both := n.root(n.unlettered, win32.READ_CONTROL)
	for name, c := range map[string]struct {
		h    win32.Handle
		buf  []byte
		want win32.NTStatus
	}{
		"no handle":         {0, buf, win32.STATUS_INVALID_HANDLE},
		"a short buffer":    {both, buf[:20], win32.STATUS_BUFFER_TOO_SMALL},
		"without the right": {reader, buf, win32.STATUS_ACCESS_DENIED},
	} {
		_, err := n.QuerySecurity(c.h, c.buf)
		wantStatus(t, "query, "+name, err, c.want)
	}
	first := n.rootSecurity(n.unlettered)
	if size, err := n.QuerySecurity(both, buf); err != nil || !bytes.Equal(buf[:size], first) {
		t.Errorf("the descriptor that is read is %x, %v, want %x", buf[:size], err, first)
	}
	wantStatus(t, "a list", n.SetSecurity(h, list), 0)
	if got := n.rootSecurity(n.unlettered); !bytes.Equal(got, list) || bytes.Equal(first, list) {
		t.Errorf("the descriptor is %x, was %x, want %x", got, first, list)
	}
	n.shut(h, reader, both)
}
