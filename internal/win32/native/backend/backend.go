// Package backend is the choice between two ways to do the same thing on
// Windows: formatting and SMB mappings can be had through WMI, which is
// documented, or through a flat function, which is not. The first choice is
// used until it says that this Windows does not have it ([ErrUnavailable]);
// from then on it is the other one's turn, and the log says so, once.
package backend

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Name is the name of a backend, as flags give it.
type Name string

// The backends.
const (
	WMI    Name = "wmi"
	Native Name = "native"
)

// Parse is the backend of that name.
func Parse(s string) (Name, error) {
	switch n := Name(s); n {
	case WMI, Native:
		return n, nil
	}
	return "", fmt.Errorf("%q is no backend: want %s or %s", s, WMI, Native)
}

// ErrUnavailable is answered by a backend that this Windows does not have.
// Nothing has been done then, and it will be so the next time.
var ErrUnavailable = fmt.Errorf("this Windows does not have it: %w", win32.ERROR_NOT_SUPPORTED)

// Option is one way to do what the other option of a [Choice] does too.
type Option[B any] struct {
	Name Name
	Use  B
}

// Choice is a way to do something, and another one where Windows lacks the
// first. It may be used by several goroutines at once.
type Choice[B any] struct {
	what   string // "formatting", for the log
	log    *slog.Logger
	first  Option[B]
	second Option[B]

	mu    sync.Mutex
	moved error // why the second is used; nil while the first is
}

// Choose orders two options by the name of the preferred one.
func Choose[B any](what string, log *slog.Logger, prefer Name, a, b Option[B]) *Choice[B] {
	if b.Name == prefer {
		a, b = b, a
	}
	return &Choice[B]{what: what, log: log, first: a, second: b}
}

// Do calls f with the backend in use. Where both are unavailable the error says
// why of each.
func (c *Choice[B]) Do(f func(B) error) error {
	c.mu.Lock()
	moved := c.moved
	c.mu.Unlock()
	if moved == nil {
		err := f(c.first.Use)
		if !errors.Is(err, ErrUnavailable) {
			return err
		}
		moved = err
		c.move(err)
	}
	err := f(c.second.Use)
	if errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("by %s: %w; by %s: %w", c.first.Name, moved, c.second.Name, err)
	}
	return err
}

func (c *Choice[B]) move(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moved == nil {
		c.moved = why
		c.log.Warn("A backend is missing here, and the other one is used from now on", "for", c.what, "missing", c.first.Name, "used", c.second.Name, "err", why)
	}
}
