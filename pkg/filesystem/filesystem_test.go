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

func TestLinkLifeCycle(t *testing.T) {
	s, _ := service(t, nil)
	ctx := t.Context()
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	const staging, target = `C:\var\lib\kubelet\plugins\disk\staging`, pods + `\pod1\mount`
	_, err := s.Mkdir(ctx, &filesystem.MkdirRequest{Path: staging})
	do("make the staging directory", err)
	_, err = s.Mkdir(ctx, &filesystem.MkdirRequest{Path: pods + `\pod1`})
	do("make the pod's directory", err)
	for range 2 { // the second call is a retry
		_, err = s.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: staging, TargetPath: target})
		do("publish", err)
	}
	exists, err := s.PathExists(ctx, &filesystem.PathExistsRequest{Path: target})
	do("ask", err)
	link, err := s.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: target})
	do("ask", err)
	valid, err := s.PathValid(ctx, &filesystem.PathValidRequest{Path: target})
	do("ask", err)
	if !exists.Exists || !link.IsSymlink || !valid.Valid {
		t.Errorf("published link: exists %t, is a link %t, valid %t", exists.Exists, link.IsSymlink, valid.Valid)
	}
	_, err = s.Mkdir(ctx, &filesystem.MkdirRequest{Path: target + `\data`})
	do("write through the link", err)
	for range 2 {
		out, err := s.Rmdir(ctx, &filesystem.RmdirRequest{Path: target, Force: true})
		do("unpublish", err)
		if out == nil {
			t.Error("Rmdir returned nil, want a response")
		}
	}
	if out, err := s.PathExists(ctx, &filesystem.PathExistsRequest{Path: staging + `\data`}); err != nil || !out.Exists {
		t.Errorf("the staged data after unpublish: %+v, %v; want it to exist", out, err)
	}
	empty, err := s.RmdirContents(ctx, &filesystem.RmdirContentsRequest{Path: staging})
	do("empty", err)
	if empty == nil {
		t.Error("RmdirContents returned nil, want a response")
	}
	_, err = s.Rmdir(ctx, &filesystem.RmdirRequest{Path: staging})
	do("remove the empty directory", err)
	if _, err := s.Rmdir(ctx, &filesystem.RmdirRequest{Path: staging}); !errors.Is(err, hosterr.ErrNotFound) || !strings.HasSuffix(err.Error(), "The system cannot find the file specified.") {
		t.Errorf("Rmdir of a missing path, without force = %v, want ErrNotFound with Windows' text", err)
	}
	if _, err := s.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: staging}); !errors.Is(err, hosterr.ErrNotFound) {
		t.Errorf("IsSymlink of a missing path = %v, want ErrNotFound", err)
	}
}

func TestNilAndMalformedRequests(t *testing.T) {
	touched := ""
	s, _ := service(t, func(c *win32.Call) error { touched = c.String(); return c.Do() })
	ctx := t.Context()
	bad := `C:\a:b`
	for name, err := range map[string]func(nothing bool) error{
		"PathExists": func(nothing bool) error {
			in := &filesystem.PathExistsRequest{Path: bad}
			if nothing {
				in = nil
			}
			_, err := s.PathExists(ctx, in)
			return err
		},
		"Mkdir": func(nothing bool) error {
			in := &filesystem.MkdirRequest{Path: bad}
			if nothing {
				in = nil
			}
			_, err := s.Mkdir(ctx, in)
			return err
		},
		"Rmdir": func(nothing bool) error {
			in := &filesystem.RmdirRequest{Path: bad, Force: true}
			if nothing {
				in = nil
			}
			_, err := s.Rmdir(ctx, in)
			return err
		},
		"RmdirContents": func(nothing bool) error {
			in := &filesystem.RmdirContentsRequest{Path: bad}
			if nothing {
				in = nil
			}
			_, err := s.RmdirContents(ctx, in)
			return err
		},
		"CreateSymlink source": func(nothing bool) error {
			in := &filesystem.CreateSymlinkRequest{SourcePath: bad, TargetPath: pods + `\a`}
			if nothing {
				in = nil
			}
			_, err := s.CreateSymlink(ctx, in)
			return err
		},
		"CreateSymlink target": func(nothing bool) error {
			in := &filesystem.CreateSymlinkRequest{SourcePath: `C:\also*bad`, TargetPath: bad}
			if nothing {
				in = nil
			}
			_, err := s.CreateSymlink(ctx, in)
			return err
		},
		"IsSymlink": func(nothing bool) error {
			in := &filesystem.IsSymlinkRequest{Path: bad}
			if nothing {
				in = nil
			}
			_, err := s.IsSymlink(ctx, in)
			return err
		},
	} {
		if err := err(false); !errors.Is(err, hosterr.ErrInvalid) || err.Error() != `path contains invalid characters: C:\a:b` {
			t.Errorf("%s of %q = %v, want ErrInvalid with the published text", name, bad, err)
		}
		if err := err(true); !errors.Is(err, hosterr.ErrInvalid) {
			t.Errorf("%s(nil) = %v, want ErrInvalid", name, err)
		}
	}
	if out, err := s.PathValid(ctx, nil); !errors.Is(err, hosterr.ErrInvalid) || out == nil {
		t.Errorf("PathValid(nil) = %v, %v; want ErrInvalid and a response", out, err)
	}
	if touched != "" {
		t.Errorf("Windows was called: %s", touched)
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

func TestPanicOfHostIsError(t *testing.T) {
	s, err := filesystem.New(&slowHost{work: func() { panic("boom") }})
	if err != nil {
		t.Fatal(err)
	}
	var p *node.PanicError
	for range 2 { // the panic released the lock
		if _, err := s.Mkdir(t.Context(), &filesystem.MkdirRequest{Path: pods}); !errors.As(err, &p) {
			t.Errorf("Mkdir = %v, want a PanicError", err)
		}
	}
}

func TestMethodsWithoutNode(t *testing.T) {
	if _, err := filesystem.New(nil); !errors.Is(err, hosterr.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
	s, err := filesystem.New(filesystemapi.FilesystemAPI{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PathExists(t.Context(), &filesystem.PathExistsRequest{Path: pods}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("PathExists of the zero host = %v, want errors.ErrUnsupported", err)
	}
}

func TestEndedContextChangesNothing(t *testing.T) {
	s, n := service(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Mkdir(ctx, &filesystem.MkdirRequest{Path: pods + `\a`}); !errors.Is(err, context.Canceled) {
		t.Errorf("Mkdir with an ended context = %v, want Canceled", err)
	}
	// The worker may outlive the call: wait for its lock.
	unlock, err := n.Locks.Paths.Lock(t.Context(), "\x00C:")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if out, err := s.PathExists(t.Context(), &filesystem.PathExistsRequest{Path: pods + `\a`}); err != nil || out.Exists {
		t.Errorf("PathExists = %+v, %v; want that the path does not exist", out, err)
	}
}
