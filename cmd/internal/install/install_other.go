//go:build !windows

package install

import (
	"errors"
	"runtime"
)

var errNoWindows = errors.New("services need Windows, and this is " + runtime.GOOS)

func (*command) install() (int, error)   { return exitFailure, errNoWindows }
func (*command) upgrade() (int, error)   { return exitFailure, errNoWindows }
func (*command) status() (int, error)    { return exitFailure, errNoWindows }
func (*command) uninstall() (int, error) { return exitFailure, errNoWindows }
