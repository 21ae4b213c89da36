//go:build !windows

package winsvc

import (
	"errors"
	"fmt"
)

// Run runs p as the Windows service of this name and returns its exit code.
// Here there are no Windows services, and it is an error that is
// errors.ErrUnsupported.
func Run(name string, _ Program) (int, error) {
	return 0, fmt.Errorf("running as the Windows service %s needs Windows: %w", name, errors.ErrUnsupported)
}
