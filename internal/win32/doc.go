// Package win32 is the boundary between CSI Proxy and Windows: the calls it
// makes ([API]), the numbers and byte layouts those calls carry, and the errors
// they answer with.
//
// Two things implement [API]: internal/win32/native, which asks the Windows it
// runs on, and internal/win32/emulated, which is a node made of state. Nothing
// above this boundary has two implementations, so all that decides anything is
// the same code on Windows and in every test run elsewhere.
//
// # Strings and bytes
//
// Strings are Go strings in UTF-8 ([UTF16] says how they become Windows'); the
// native side refuses a NUL inside. Buffers of control codes and information classes are
// bytes in Windows' own layout (amd64 and arm64 agree, little-endian). What a
// driver answered is bytes with claims in them: every Decode function checks
// each length and offset against the bytes that are there.
//
// # Errors
//
// kernel32 functions answer [Errno], Nt functions answer [NTStatus]. Both carry
// their Windows name and English text, so no message depends on the language of
// the Windows installed. [Code] brings either to an Errno.
//
// # Sources
//
// Numbers and offsets are those of winioctl.h, ntddstor.h, ntifs.h and
// winerror.h of the Windows SDK, held to mingw-w64's copies by layout_test.go,
// every exported constant and every encoded member; where mingw-w64 lacks one
// (DISK_ATTRIBUTES) the test pins the documented literal. This package builds everywhere and imports
// neither os nor syscall nor x/sys.
package win32
