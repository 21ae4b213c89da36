package win32

import "syscall"

// Unwrap returns the number as Go's own type, so that a driver's errors.Is with a
// constant of golang.org/x/sys/windows, and its errors.As with a syscall.Errno,
// work as with the errors of the published library.
func (e Errno) Unwrap() error { return syscall.Errno(e) }

// Unwrap returns s.Errno as Go's own type, or nil for a status that this package
// does not know.
func (s NTStatus) Unwrap() error {
	if _, e, ok := statusInfo(s); ok {
		return syscall.Errno(e)
	}
	return nil
}
