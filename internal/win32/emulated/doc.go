// Package emulated is a Windows node in memory and files: it returns for the calls
// of [win32.API] the bytes and the error numbers that Windows returns, on any
// operating system. It is the counterpart of internal/win32/native, so that all
// code above the boundary runs unchanged on a laptop.
//
// A passing test over this package shows that our code fits our reading of Windows.
// It does not show that Windows behaves this way: nothing here has been compared with
// a run on Windows. Each refusal, and each answer of a call that succeeds, has a label, a
// comment such as "Source: document, CreateFileW", which says who says so: Windows printed
// it, Microsoft's code, a document of Microsoft, a specification, another program, or
// inference. test/rules describes the labels and fails without one. An unknown call, path or control code is refused as Windows
// refuses unknown ones; it never succeeds.
//
// # What it models
//
//   - Disks with partition tables (package disk).
//   - Volumes and the mount manager (package volume).
//   - The files of volumes and shares, without contents (package files).
//   - SMB servers, and global mappings of their shares (package smb).
//   - Services (package services); the serial number in the SMBIOS tables.
//   - An iSCSI initiator and its targets (package iscsi).
//   - Handles with access rights and share modes (package kernel), and what happens to
//     them when their disk or volume is removed or Windows restarts.
//
// # What it does not model
//
// Timing other than configured delays; access control (the caller is LocalSystem); and what
// the packages of the rooms say.
//
// # State
//
// One call is one transaction: see package kernel. When the node is opened again, it is
// like Windows after the end of the process that used it: handles are closed,
// and files marked for deletion are deleted. Two
// operations take several transactions: a format with a duration, and a restart
// of Windows.
package emulated
