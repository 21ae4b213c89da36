// Package native is [win32.API] on the Windows that the program runs on.
//
// There is nothing to decide here: a method turns Go values into what one
// Windows function wants, calls it, and turns the answer back. Loops only grow
// buffers of strings or walk an enumeration. What reads bytes or meanings out
// of an answer is in files that build everywhere, and is tested there.
//
// # Paths
//
// Paths are passed as they are: nothing is cleaned, made absolute or given a
// `\\?\` in front. A plain path longer than 260 units works only where Windows
// lets it (Go programs are long-path aware on Windows 10 1607 and later, which
// covers CreateFileW and GetFileAttributesW); NT names relative to a handle
// have no limit but the 32767 units of a UNICODE_STRING. A NUL inside a string
// is refused as ERROR_INVALID_NAME (STATUS_OBJECT_NAME_INVALID for an NT name)
// before any call.
//
// # Handles are synchronous
//
// Buffers of ours are given to Windows for the time of the call only, so an
// asynchronous handle is never opened: CreateFile refuses FILE_FLAG_OVERLAPPED
// and NtCreateFile wants FILE_SYNCHRONOUS_IO_NONALERT.
//
// # Errors
//
// Every error is a [win32.Errno] or a [win32.NTStatus], or wraps one.
//
// # Backends
//
// Formatting and SMB mappings can be had in two ways each, by WMI (package wmi) or by
// flat functions that are not documented; [Options] choose, package backend falls back.
//
// What has been verified, and on what: docs/evidence/verification.md.
//
//go:generate go run golang.org/x/sys/windows/mkwinsyscall -output zsyscall_windows.go devices_windows.go files_windows.go firmware_windows.go iscsi_windows.go smb_windows.go
package native
