// Package win32 is the boundary between CSI Proxy and Windows: the calls that CSI
// Proxy makes ([API]), the numbers and byte layouts that those calls carry, and
// the errors that they return.
//
// Two packages implement [API]: internal/win32/native, which calls the Windows
// that it runs on, and internal/win32/emulated, which is a node in memory and
// files. Nothing above this boundary has two implementations, so all decisions
// are made by the same code on Windows and in every test on other systems.
//
// # Strings and bytes
//
// Strings are Go strings in UTF-8 (for the conversion see [UTF16]); the native
// side refuses a NUL inside a string. Buffers of control codes and information
// classes are bytes in Windows' own layout, which is the same on amd64 and arm64,
// little-endian. A driver's output cannot be trusted: every Decode function
// checks each length and offset against the bytes that are there.
//
// # Errors
//
// kernel32 functions return [Errno], Nt functions return [NTStatus]. Both carry
// their Windows name and English text, so no message depends on the language of
// the installed Windows. [Code] converts either to an Errno.
//
// # Sources
//
// Numbers and offsets are those of winioctl.h, ntddstor.h, ntifs.h and winerror.h
// of the Windows SDK. layout_test.go checks every exported constant and every
// encoded member against mingw-w64's copies of these headers; where mingw-w64
// lacks one (DISK_ATTRIBUTES), the test has the documented literal. This package
// builds on every system and imports neither os nor syscall nor x/sys.
package win32
