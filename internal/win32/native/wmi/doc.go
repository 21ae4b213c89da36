// Package wmi formats volumes, maps SMB shares, and asks why a disk is offline through WMI,
// Windows' documented interface for these: MSFT_Volume.Format, MSFT_SmbGlobalMapping and
// MSFT_Disk.OfflineReason.
//
// A [Client] works with one namespace. It runs its jobs on operating system threads of its
// own, in COM's multithreaded apartment; jobs that list have other threads than jobs that
// change something. Methods are called semisynchronously, with a limit of time. A thread on
// which a call does not return is replaced, a bounded number of times. A job connects, does
// its work and always releases every object and VARIANT that it got; they are counted.
// Security is set on the connection, not for the process, so it does not affect a driver's
// own use of COM.
//
// # Values and errors
//
// A property that is null is not 0, false or "": reading it is an error with its
// name. Names in queries and object paths are checked or escaped by the types
// that hold them. WMI's HRESULTs and the return values of methods become numbers
// of package win32; a missing class or namespace becomes
// [backend.ErrUnavailable]. The error of a method has the number in Windows' error object,
// if there is one.
//
// What has been verified, and on what: docs/develop/verification.md.
package wmi
