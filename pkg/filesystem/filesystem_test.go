package filesystem_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const pods = `C:\var\lib\kubelet\pods`

// service returns a filesystem service over an emulated node. If hook is not nil, it
// makes the Win32 calls.
func service(t *testing.T, hook func(*win32.Call) error) (*filesystem.Filesystem, *node.Node) {
	t.Helper()
	em := nodetest.Open(t, nodespec.Config{Directories: []string{pods}}, emulated.Machine{})
	n := node.New(em)
	if hook != nil {
		n.API = win32.Observe(em, hook)
	}
	s, err := filesystem.New(filesystemapi.On(n))
	if err != nil {
		t.Fatal(err)
	}
	return s, n
}

// A malformed path is refused before Windows is called. Of two, the target is named.
func TestMalformedTargetIsNamed(t *testing.T) {
	s, _ := service(t, func(c *win32.Call) error { t.Errorf("Windows was called: %v", c); return c.Do() })
	_, err := s.CreateSymlink(t.Context(), &filesystem.CreateSymlinkRequest{SourcePath: `C:\also*bad`, TargetPath: `C:\a:b`})
	if !errors.Is(err, hosterr.ErrInvalid) || err.Error() != `path contains invalid characters: C:\a:b` {
		t.Errorf("CreateSymlink = %v, want ErrInvalid with the published text", err)
	}
	if out, err := s.PathValid(t.Context(), nil); !errors.Is(err, hosterr.ErrInvalid) || out == nil {
		t.Errorf("PathValid(nil) = %v, %v; want ErrInvalid and a response", out, err)
	}
}

func TestPathValid(t *testing.T) {
	var answer error
	s, _ := service(t, func(c *win32.Call) error {
		if c.Name == "Attributes" && answer != nil {
			return answer
		}
		return c.Do()
	})
	for _, c := range []struct {
		name, path string
		answer     error
		valid      bool
		want       string
	}{
		{"existing", pods, nil, true, ""},
		{"missing", pods + `\nothing`, nil, false, ""},
		{"missing parent", pods + `\nothing\x`, nil, false, ""},
		{"invalid name", `C:\a`, win32.ERROR_INVALID_NAME, false, ""},
		{"stale session", `\\server\share`, win32.ERROR_ACCESS_DENIED, false, `failed to get path \\server\share attribute: Access is denied.`},
		{"no such server", `\\server\share`, win32.ERROR_BAD_NETPATH, false, `failed to get path \\server\share attribute: The network path was not found.`},
		{"NUL", "C:\\a\x00b", nil, false, `invalid path: invalid argument`},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer = c.answer
			out, err := s.PathValid(t.Context(), &filesystem.PathValidRequest{Path: c.path})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if out == nil || out.Valid != c.valid || got != c.want {
				t.Errorf("PathValid(%q) = %+v, %v; want %t, %q", c.path, out, err, c.valid, c.want)
			}
		})
	}
}

func TestChangesOfOnePathAreSerialized(t *testing.T) {
	var inside, most atomic.Int32
	host := &slowHost{work: func() {
		most.Store(max(most.Load(), inside.Add(1)))
		time.Sleep(time.Second)
		inside.Add(-1)
	}}
	synctest.Test(t, func(t *testing.T) {
		s, err := filesystem.New(host)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		start := time.Now()
		// Two spellings of one directory, and a path below it.
		for _, path := range []string{pods + `\a`, strings.ToUpper(pods) + `\A`, pods + `\a\b`} {
			go func() {
				_, err := s.Rmdir(t.Context(), &filesystem.RmdirRequest{Path: path, Force: true})
				done <- err
			}()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if most.Load() != 1 || time.Since(start) != 3*time.Second {
			t.Errorf("%d calls ran concurrently, %v in total; want one after the other, 3 s", most.Load(), time.Since(start))
		}
		// Changes of another directory do not wait. A request that waits returns when its context ends.
		start = time.Now()
		for _, path := range []string{pods + `\a`, pods + `\b`} {
			go func() {
				_, err := s.Mkdir(t.Context(), &filesystem.MkdirRequest{Path: path})
				done <- err
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := s.Mkdir(ctx, &filesystem.MkdirRequest{Path: pods + `\a`}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Mkdir of a path in use, with a timeout of 100 ms = %v, want DeadlineExceeded", err)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("changes of two directories took %v, want 1 s", d)
		}
	})
}

// slowHost is another implementation of HostAPI. It uses neither nodes nor contexts.
type slowHost struct {
	filesystemapi.HostAPI
	work func()
}

func (h *slowHost) Rmdir(string, bool) error { h.work(); return nil }
func (h *slowHost) Mkdir(string) error       { h.work(); return nil }
