// Package fmifs formats a volume with FormatEx2 of fmifs.dll, in a child process
// that lives for that one format.
//
// fmifs.dll is what format.com uses. It is not documented, changes the C locale
// of its process, offers no way to stop it, and a fault in it would end its
// process. So [Helper] starts its own executable once more as the helper, and
// [Main] is what that child does: nothing but to call FormatEx2 and to pass on
// what it hears from it. What that means is decided here, by the parent.
//
// # What is passed
//
// The volume and the options are arguments, checked on both sides; there is no
// shell. The child says, a line each:
//
//	csi-proxy format-helper 1     first of all; it waits until it reads "go"
//	event 11 0100000000000000     an event of FormatEx2: its number, its packet in hex
//	missing …                     there is no FormatEx2; nothing has been done
//	refused …                     the arguments are wrong; nothing has been done
//	returned                      FormatEx2 has returned
//
// A format has succeeded if the event that says so was heard, FormatEx2 has
// returned, and the exit code is 0.
//
// # How it ends
//
// The child does not begin before its parent has put it into a job object that
// kills it when the parent's handle is closed, by whatever end of the parent; and
// it ends when its standard input does. The parent kills it when it has been
// silent for [Helper.Patience].
//
// What has been verified, and on what: docs/evidence/verification.md.
package fmifs
