//go:build !linux

package port

import "errors"

// Reserve fails: the lab runs on Linux only.
func Reserve() (address string, release func(), err error) {
	return "", nil, errors.ErrUnsupported
}
