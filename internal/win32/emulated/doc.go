// Package emulated is a Windows node made of state: it answers the calls of
// [win32.API] with the bytes and the error numbers that Windows answers, on any
// operating system. It is the other side of the boundary from
// internal/win32/native, so that all code above runs unchanged on a laptop.
//
// A green run over this package proves our code against our reading of Windows.
// It does not prove that Windows behaves so: nothing here was compared with a
// run on Windows. Each refusal names where it was read (a page of docs/contract, of
// Microsoft's, an open specification such as [MS-FSA], an open source) or says
// that it is general knowledge. An unknown call, path or control code is
// refused as Windows refuses the unknown, never answered with success.
//
// # What is modelled
//
//   - Disks as sparse image files with real partition tables: GPT (512 and 4096-byte
//     sectors, header and backup, checksums) and the primary entries of an MBR;
//     offline, read-only and write-protected disks; growth that is seen in two
//     steps; identities (page 83h, serial number, location, SCSI address).
//   - Volumes that arrive and vanish with partitions and disks, keep their names,
//     get drive letters as the mount manager gives them, and are recognised by
//     their bytes. A format writes an NTFS boot sector, its backup and the first
//     MFT records, which is what blkid and Windows look at, and nothing more.
//   - The file namespace of recognised volumes as metadata (package filetree):
//     names, kinds, sizes, attributes, reparse points, share modes, pending
//     deletions. Files have no contents.
//   - SMB servers with shares, accounts and passwords, that can go away and come
//     back; global mappings with their statuses; the files of a share, as long as
//     a mapping lets the node reach it (smb.go).
//   - Services with states that pass through pending ones, dependents, start types
//     and ways to go wrong (services.go); the SMBIOS tables' serial number.
//   - iSCSI portals and targets with CHAP, sessions, persistent logins, and LUNs
//     that are disks while their target is connected (iscsi.go).
//   - Handles with access rights and share modes, and what becomes of them when
//     their disk, volume or Windows goes away.
//
// # What is not
//
// Caches and timing beside two configured delays; access control (the caller is
// LocalSystem); dynamic disks and storage spaces beyond "such a partition has no
// volume" and a configured volume on several disks; logical drives of an MBR;
// disk signature collisions; shrinking; locking and dismounting a volume
// (FSCTL_LOCK_VOLUME); other file systems than NTFS beyond recognising them;
// renumbering of disks at a restart; quotas, streams, hard links; DFS, links on
// shares, mappings that are not global, how many mappings Windows can have; several
// sessions with one target, iSNS, IPsec and digests; what services do.
//
// # State
//
// One call is one transaction, written to a journal before the call is answered:
// killing the process loses nothing that was answered. See store.go for the
// format and its limits. Opened again, the node is as Windows is after the process
// died that used it: handles are closed, and what was marked for deletion is gone
// with them. (Handles that were opened with FILE_DELETE_ON_CLOSE, which no host
// uses, delete nothing then.) Only what has a duration is two transactions, a
// format, or begins anew, a restart of Windows. One process holds the state directory. The images in it
// are ordinary disk images; tools such as sgdisk and blkid read them, and a tool
// may change them while the node is closed, or on a volume's range that the node
// does not use at that moment.
package emulated
