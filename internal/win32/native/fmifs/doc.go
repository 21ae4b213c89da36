// Package fmifs formats a volume with FormatEx of fmifs.dll, in a child process
// that lives for that one format.
//
// fmifs.dll is the library of format.com. It is undocumented, changes the C
// locale of its process, cannot be stopped, and a fault in it ends its process.
// So [Helper] starts its own executable again as the helper. [Main] is that
// child: it calls FormatEx and passes on the events that it gets. The parent
// interprets them.
//
// # Protocol
//
// The volume and the size of its clusters are arguments, which both sides check; there is no
// shell. The child writes lines:
//
//	csi-proxy format-helper 1     the first line; the child then waits until it reads "go"
//	event 11 0100000000000000     an event of FormatEx: its number, its packet in hex
//	missing …                     there is no FormatEx; nothing has been done
//	refused …                     the arguments are wrong; nothing has been done
//	returned                      FormatEx has returned
//
// A format has succeeded if the event of success arrived, FormatEx has returned,
// and the exit code is 0.
//
// # How it ends
//
// The child starts only after its parent has put it into a job object. The job
// kills it when the parent's handle is closed, however the parent ends. The child
// also exits when its standard input ends. The parent kills a child that has been
// silent for [Helper.SilenceLimit].
//
// What has been verified, and on what: docs/develop/verification.md.
package fmifs
