// Package wmi formats volumes and makes SMB mappings through WMI, Windows'
// documented way for both: MSFT_Volume.Format and MSFT_SmbGlobalMapping.
//
// A [Client] works for one namespace. It has one operating system thread in a COM
// apartment of its own, on which its jobs are done one after the other; that thread
// begins with the first job. A job connects, does its work and releases every object
// and VARIANT that it got, whatever happened; they are counted. Security is set on the
// connection, not for the process: what a driver does with COM elsewhere is its own.
//
// # What is read
//
// A property that is null is not 0, false or "": reading it is an error that names it.
// Names in queries and in paths of objects are checked or escaped by the types that
// hold them. WMI's HRESULTs and the return values of methods become numbers of package
// win32; that a class or namespace is missing is [backend.ErrUnavailable].
//
// What has been verified, and on what: docs/evidence/verification.md.
package wmi
