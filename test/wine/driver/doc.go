// Package driver gives the Windows that is Wine disks and volumes: those of the
// emulated node. What Wine has of its own answers no control codes.
//
// # How a request goes
//
// A kernel driver (c/node.c) owns `\\.\PhysicalDriveN`, `\\?\Volume{…}`, the disk
// interfaces' paths and the front of the mount manager, and knows nothing: each
// request waits in it until a program has fetched and answered it. That program is
// the test itself, in which a [Server] asks an emulated node. So the way is
//
//	services → internal/win32/native → Windows' DLLs (Wine's) → driver → Server → emulated node
//
// and there is one model of a disk and no second. Beside the driver stand four
// DLLs, which ask the same server: fmifs.dll (FormatEx2 and its callback),
// iscsidsc.dll, netapi32.dll for the NetUse functions, and cfgmgr32.dll for
// CM_Reenumerate_DevNode.
//
// # What that proves, and what not
//
// It proves our native code against our model of Windows, by way of Wine's
// implementation of kernel32, ntdll and setupapi, which knows nothing of us: how
// structures are laid out, how buffers grow, which numbers become of NTSTATUS, in
// which order calls are made. It is not Windows' opinion of anything. The DLLs are
// our reading of undocumented or published interfaces.
//
// Where the driver is less than a disk of Windows:
//
//   - It is not told with which access a file is opened, so a handle gets access to
//     data in the model when it is first used for data. Wine itself refuses control
//     codes for which a handle lacks the access.
//   - Opening cannot fail but by there being no such name: Wine does not wait for
//     the driver. Another error of the model is that of the first request.
//   - Wine's ntdll answers FSCTL_LOCK_VOLUME itself, and serves no files by a
//     driver: nothing on a volume can be opened.
//   - NTSTATUS cannot say every Win32 number; see statuses.
//   - Wine runs a driver in one thread. A request that waits holds up no other.
package driver
