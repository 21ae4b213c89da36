// Package storage is what the hosts of disks and of volumes share: open
// devices and what is asked of them, the arithmetic of partition tables, the
// search for a partition's volume, the recognition of foreign content, and the
// guard of the disks that Windows itself needs.
//
// A [Disk] or [Volume] is one open handle. Numbers of disks and names of
// volumes are given to something else when a device goes and another comes, so
// a host opens once and decides and acts on that handle.
//
// # Failures that pass
//
// Right after a device appeared, antivirus, the mount manager and file systems
// hold it for moments. Opens and control codes that fail so are repeated ten
// times, a quarter of a second apart on the node's clock, within the caller's
// context. Lists of devices do not repeat: one device must not hold up the rest.
//
// # Where the facts are from
//
// Codes and layouts: Windows SDK, by way of package win32. Sizes and places of
// partitions are those that Windows 10 and Server 2016 and later make. What is
// said of Windows' answers is from its documentation, from sample drivers and
// from other open source; it was run over the emulated node only, never on
// Windows.
package storage
