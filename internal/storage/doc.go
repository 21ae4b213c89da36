// Package storage holds what the disk and volume hosts share: open devices and
// their control codes, the arithmetic of partition tables, the search for a
// partition's volume, the proof that a disk or volume is blank, and the guard of the
// disks that Windows itself needs.
//
// A [Disk] or [Volume] is one open handle. When one device goes and another
// arrives, Windows may give the new one the old disk number or volume name, so a
// host opens a device once, and decides and acts on that handle.
//
// # Transient failures
//
// For a moment after a device appears, antivirus software, the mount manager and
// file systems hold it open. Opens and control codes that fail because of that
// are repeated up to ten times, a quarter of a second apart on the node's clock,
// within the caller's context. Listings do not retry: one device must not delay
// the rest.
//
// # Where the facts come from
//
// Codes and layouts come from the Windows SDK, through package win32. Partition
// sizes and offsets are those that Windows 10, Server 2016 and later use. What
// this package expects of Windows, with its sources, is in docs/develop/contract/disks.md and
// docs/develop/contract/volumes.md.
package storage
