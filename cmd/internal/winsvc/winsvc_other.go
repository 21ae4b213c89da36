//go:build !windows

package winsvc

import (
	"errors"
	"fmt"
)

// Run fails with errors.ErrUnsupported, because this system has no Windows services.
func Run(name string, _ Program, _ func(code int)) (int, error) {
	return 0, fmt.Errorf("run as the service %s: this needs Windows: %w", name, errors.ErrUnsupported)
}
