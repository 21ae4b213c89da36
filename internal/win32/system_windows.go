package win32

import "syscall"

// Unwrap is what Go's own packages call the number, so that a driver's errors.Is
// with a constant of golang.org/x/sys/windows, and its errors.As with a
// syscall.Errno, find it as they find it in the errors of the published library.
func (e Errno) Unwrap() error { return syscall.Errno(e) }

// Unwrap is Unwrap of s.Errno; nil for a status that this package does not know.
func (s NTStatus) Unwrap() error {
	if _, e, ok := statusInfo(s); ok {
		return syscall.Errno(e)
	}
	return nil
}
