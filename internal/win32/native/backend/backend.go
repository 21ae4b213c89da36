// Package backend chooses between two ways to do the same thing on Windows.
// Formatting and SMB mappings are available through WMI, which is documented, and
// through a flat function, which is not. The preferred backend is used until it
// reports that this Windows does not have it ([ErrUnavailable]). From then on the
// other one is used, and one log line says so.
package backend

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Name is the name of a backend, as in flags.
type Name string

// The backends.
const (
	WMI    Name = "wmi"
	Native Name = "native"
)

// Parse returns the backend with that name.
func Parse(s string) (Name, error) {
	switch n := Name(s); n {
	case WMI, Native:
		return n, nil
	}
	return "", fmt.Errorf("unknown backend %q: want %s or %s", s, WMI, Native)
}

// ErrUnavailable is returned by a backend that this Windows does not have. The
// backend has then done nothing, and later calls will fail too.
var ErrUnavailable = fmt.Errorf("not available on this Windows: %w", win32.ERROR_NOT_SUPPORTED)

// Option is one of the two backends of a [Choice].
type Option[B any] struct {
	Name Name
	Use  B
}

// Choice is a preferred backend and a second one for a Windows that lacks the
// first. It is safe for concurrent use.
type Choice[B any] struct {
	what   string // "formatting", for the log
	log    *slog.Logger
	first  Option[B]
	second Option[B]

	mu    sync.Mutex
	moved error // why the second one is used; nil while the first one is
}

// Choose orders two options by the name of the preferred one.
func Choose[B any](what string, log *slog.Logger, prefer Name, a, b Option[B]) *Choice[B] {
	if b.Name == prefer {
		a, b = b, a
	}
	return &Choice[B]{what: what, log: log, first: a, second: b}
}

// Do calls f with the backend in use. If both are unavailable, the error has the
// reason of each.
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
		c.log.Warn("Switched to the other backend for good", "operation", c.what, "unavailable", c.first.Name, "backend", c.second.Name, "err", why)
	}
}

// FormatLimit is the longest that a format may take before it counts as hung, whichever part of
// Windows formats: Windows does not say how long it may take, and formats of more than two minutes
// were seen (azuredisk-csi-driver issue 2690). Callers wait for less, and a later call joins it.
const FormatLimit = 30 * time.Minute
