package winfs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// A device that is missing for a moment does not mean that a path does not exist, in
// whichever call it is missing. One that stays away is unavailable, and does not make an
// operation that succeeds without the path succeed.
func TestMissingDeviceIsNoMissingPath(t *testing.T) {
	const dir, link, target = pods + `\dir`, pods + `\link`, pods + `\target`
	operations := map[string]func(context.Context, *node.Node) (bool, error){
		"Exists":           func(ctx context.Context, n *node.Node) (bool, error) { return winfs.Exists(ctx, n, dir) },
		"LinkTargetExists": func(ctx context.Context, n *node.Node) (bool, error) { return winfs.LinkTargetExists(ctx, n, link) },
		"Look": func(ctx context.Context, n *node.Node) (bool, error) {
			kind, _, err := winfs.Look(ctx, n, link)
			return kind == winfs.Linked, err
		},
		"Readlink": func(ctx context.Context, n *node.Node) (bool, error) {
			_, ok, err := winfs.Readlink(ctx, n, link)
			return ok, err
		},
		"MkdirAll": func(ctx context.Context, n *node.Node) (bool, error) {
			return true, winfs.MkdirAll(ctx, n, pods+`\new\dir`)
		},
		"Symlink": func(ctx context.Context, n *node.Node) (bool, error) {
			return true, winfs.Symlink(ctx, n, target, pods+`\new`)
		},
		"Remove":         func(ctx context.Context, n *node.Node) (bool, error) { return true, winfs.Remove(ctx, n, link) },
		"RemoveAll":      func(ctx context.Context, n *node.Node) (bool, error) { return true, winfs.RemoveAll(ctx, n, dir) },
		"RemoveContents": func(ctx context.Context, n *node.Node) (bool, error) { return true, winfs.RemoveContents(ctx, n, dir) },
	}
	for name, do := range operations {
		for _, code := range []win32.Errno{win32.ERROR_NO_SUCH_DEVICE, win32.ERROR_DEVICE_NOT_CONNECTED} {
			prepared := func() *world {
				w := newWorld(t)
				w.dir(dir)
				w.dir(target)
				if err := winfs.Symlink(t.Context(), w.Node, target, link); err != nil {
					t.Fatal(err)
				}
				return w
			}
			// The nth call that opens something fails, and from then on as many as fail.
			fail := func(w *world, nth, fail int) {
				w.hook = func(c *win32.Call) error {
					if c.Name == "NtCreateFile" {
						if nth--; nth < 0 && fail > 0 {
							fail--
							return code
						}
					}
					return c.Do()
				}
			}
			opens := 0
			w := prepared()
			w.hook = func(c *win32.Call) error {
				if c.Name == "NtCreateFile" {
					opens++
				}
				return c.Do()
			}
			if ok, err := do(t.Context(), w.Node); !ok || err != nil {
				t.Fatalf("%s of an undisturbed node: %t, %v", name, ok, err)
			}
			for nth := range opens {
				w := prepared()
				fail(w, nth, 2)
				if ok, err := do(t.Context(), w.Node); (!ok || err != nil) && !errors.Is(err, hosterr.ErrUnavailable) {
					t.Errorf("%s, %v for a moment from call %d on: %t, %v, want the answer, or unavailable", name, code, nth+1, ok, err)
				}
			}
			w = prepared()
			fail(w, 0, 2)
			if ok, err := do(t.Context(), w.Node); !ok || err != nil {
				t.Errorf("%s, %v in the first two calls: %t, %v, want the answer", name, code, ok, err)
			}
			w = prepared()
			fail(w, 0, 1<<30)
			ok, err := do(t.Context(), w.Node)
			if !errors.Is(err, hosterr.ErrUnavailable) || !win32.IsCode(err, code) {
				t.Errorf("%s, %v for good: %t, %v, want unavailable", name, code, ok, err)
			}
			if w.slept != 5*time.Second {
				t.Errorf("%s, %v for good: waited %s, want %s", name, code, w.slept, 5*time.Second)
			}
			w = prepared()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			fail(w, 0, 1<<30)
			cancel()
			if _, err := do(ctx, w.Node); !errors.Is(err, context.Canceled) || hosterr.KindOf(err) != nil {
				t.Errorf("%s after its caller is gone: %v", name, err)
			}
		}
	}
}

// A name that another request removes exists until the last handle is closed. An operation
// waits for that as long as for a file that is in use.
func TestNameThatIsBeingRemoved(t *testing.T) {
	const target, link = pods + `\target`, pods + `\link`
	for name, do := range map[string]func(context.Context, *node.Node) error{
		"Exists": func(ctx context.Context, n *node.Node) error {
			_, err := winfs.Exists(ctx, n, target)
			return err
		},
		"MkdirAll": func(ctx context.Context, n *node.Node) error { return winfs.MkdirAll(ctx, n, target) },
		"Symlink":  func(ctx context.Context, n *node.Node) error { return winfs.Symlink(ctx, n, target, link) },
	} {
		for failures, want := range map[int]error{0: nil, 1: nil, 7: nil, 1 << 30: hosterr.ErrUnavailable} {
			w := newWorld(t)
			w.dir(target)
			w.hook = func(c *win32.Call) error {
				if c.Name == "NtCreateFile" && strings.HasSuffix(c.Path, `\target`) && failures > 0 {
					failures--
					return win32.STATUS_DELETE_PENDING
				}
				return c.Do()
			}
			err := do(t.Context(), w.Node)
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v; %d failures are left", name, err, want, failures)
			}
			if limit := 2 * time.Second; want != nil && w.slept != limit || w.slept > limit {
				t.Errorf("%s: waited %v, want %v at most, and if it stays", name, w.slept, limit)
			}
		}
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.hook = func(c *win32.Call) error {
			if c.Name == "NtCreateFile" && strings.HasSuffix(c.Path, `\target`) {
				cancel()
				return win32.STATUS_DELETE_PENDING
			}
			return c.Do()
		}
		if err := do(ctx, w.Node); !errors.Is(err, context.Canceled) || hosterr.KindOf(err) != nil || w.slept > 10*time.Millisecond {
			t.Errorf("%s, whose caller leaves: %v after %v", name, err, w.slept)
		}
	}
}
