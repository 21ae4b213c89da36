// Package native implements [win32.API] on the Windows that the program runs on.
//
// The package makes no decisions: a method converts Go values to the arguments of
// one Windows function, calls it, and converts the result. Loops only enlarge
// string buffers or walk an enumeration. Code that interprets results is in files
// that build on every system, and is tested there.
//
// # Paths
//
// Paths are passed unchanged: they are not cleaned, made absolute or prefixed
// with `\\?\`. A plain path of more than 260 units works only where Windows
// allows it (Go programs are long-path aware on Windows 10 1607 and later, which
// covers CreateFileW and GetFileAttributesW). NT names relative to a handle may
// have the 32767 units of a UNICODE_STRING. A string with a NUL inside fails with
// ERROR_INVALID_NAME (STATUS_OBJECT_NAME_INVALID for an NT name) before any call.
//
// # Handles are synchronous
//
// Windows may use our buffers only during the call, so no handle is asynchronous:
// CreateFile refuses FILE_FLAG_OVERLAPPED, and NtCreateFile requires
// FILE_SYNCHRONOUS_IO_NONALERT.
//
// # Errors
//
// Every error is or wraps a [win32.Errno] or a [win32.NTStatus].
//
// # Backends
//
// There are two ways to format and to map SMB shares: WMI (package wmi) and
// undocumented flat functions. [Options] chooses the first to try; package
// backend falls back to the other.
//
// What has been verified, and on what: docs/develop/verification.md.
//
//go:generate go run golang.org/x/sys/windows/mkwinsyscall -output zsyscall_windows.go devices_windows.go files_windows.go firmware_windows.go iscsi_windows.go logon_windows.go smb_windows.go
package native
