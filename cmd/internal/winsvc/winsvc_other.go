//go:build !windows

package winsvc

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Run fails with errors.ErrUnsupported, because this system has no Windows services.
func Run(Program, func(code int)) (int, error) {
	return 0, fmt.Errorf("run as the service %s: this needs Windows: %w", Name, errors.ErrUnsupported)
}

// TerminateTime returns 0: nothing is known to limit the time after SIGTERM.
func TerminateTime() time.Duration { return 0 }

// Find finds nothing: this system has no Windows services.
func Find() ([]Installed, error) { return nil, nil }

// OpenEvents fails with errors.ErrUnsupported, because this system has no Windows event log.
func OpenEvents(string) (add func(level slog.Level, id uint32, text string) error, err error) {
	return nil, fmt.Errorf("open the event log: this needs Windows: %w", errors.ErrUnsupported)
}
