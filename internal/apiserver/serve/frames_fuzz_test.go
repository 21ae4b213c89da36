package serve_test

import (
	"io"
	"testing"
	"time"

	"golang.org/x/net/http2"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
)

// FuzzFrames: whatever a client sends, the server keeps running, and other callers' calls succeed.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), false)
	f.Add([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}, true)
	f.Add([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88}, true)
	f.Add([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0, 1}, true)
	f.Add([]byte{0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff}, true)
	f.Add([]byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, true)
	f.Fuzz(func(t *testing.T, data []byte, preface bool) {
		l := newMemory()
		stop := inMemory(t, quiet, l, rescans())
		c := l.dial()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		go io.Copy(io.Discard, c)
		if preface {
			io.WriteString(c, http2.ClientPreface)
		}
		c.Write(data)
		if _, err := diskv1.NewDiskClient(l.client(t)).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
			t.Errorf("another caller's call: %v", err)
		}
		c.Close()
		stop()
	})
}
