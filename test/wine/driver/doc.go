// Package driver gives Wine the disks and volumes of the emulated node. Wine's
// own disks support no control codes.
//
// # The path of a request
//
// A kernel driver (c/node.c) owns `\\.\PhysicalDriveN`, `\\?\Volume{…}`, the
// paths of the disk interfaces and the front of the mount manager. It knows
// nothing about disks: it holds each request until a program has fetched it and
// sent the reply. That program is the test itself, in which a [Server] calls an
// emulated node. So the path is
//
//	services → internal/win32/native → Windows' DLLs (Wine's) → driver → Server → emulated node
//
// and there is only one model of a disk. Next to the driver there are four DLLs,
// which call the same server: fmifs.dll (FormatEx and its callback),
// iscsidsc.dll, netapi32.dll for the NetUse functions, and cfgmgr32.dll for
// CM_Get_Device_Interface_List and CM_Reenumerate_DevNode.
//
// # What this shows
//
// It checks our native code against our model of Windows, through Wine's
// implementation of kernel32, ntdll and setupapi, which is independent of us: the
// layout of structures, the growth of buffers, the conversion of NTSTATUS, the
// order of calls. It does not show how Windows behaves. The DLLs are our reading
// of published or undocumented interfaces.
//
// Differences between the driver and a disk of Windows:
//
//   - The driver does not learn the access of an open, so a handle gets access
//     to the model's data when it is first used for data. Wine itself refuses
//     control codes for which a handle lacks the access.
//   - Opening can only fail because the name does not exist: Wine does not wait
//     for the driver. Any other error of the model is returned by the first
//     request.
//   - Wine's ntdll handles FSCTL_LOCK_VOLUME itself, and a driver cannot serve
//     files under Wine: nothing on a volume can be opened.
//   - NTSTATUS cannot represent every Win32 number; see statuses.
//   - Wine runs a driver in one thread. A waiting request does not delay
//     others.
package driver
