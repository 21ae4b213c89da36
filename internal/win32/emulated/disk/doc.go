// Package disk is the disks of the emulated node: sparse image files with real partition
// tables. GPT (512 and 4096-byte sectors, header and backup, checksums) and the primary entries
// of an MBR; offline, read-only and write-protected disks; disks that arrive, wait for a scan, or
// leave; growth that Windows notices in two steps; identities (page 83h, serial number, location,
// SCSI address), and two disks with the same one.
//
// It does not model logical drives of an MBR, the renumbering of a single disk, nor what a
// partition contains: package volume registers itself, hears of each change of a table, and is
// asked before a write. What it knows of file systems is how a new one is written, so that a disk can
// come with content.
package disk
