// Package volume is the volumes of the emulated node and its mount manager: volumes that appear
// and disappear with partitions and disks, keep their names, get drive letters, and are recognized
// by their bytes; locks, dismounts, offline volumes, volumes on several disks, and formats. It
// knows what name leads to which disk or volume, and keeps the file trees of volumes and shares,
// with what is lost of them when a disk goes offline.
//
// A format writes only an NTFS boot sector, its backup and the first MFT records, which is what
// blkid and Windows read. It does not model dynamic disks and storage spaces, except that such a
// partition has no volume and that a volume on several disks can be configured; shrinking; file
// systems other than NTFS, which are only recognized; caches, except that files are lost that were
// not flushed before their disk went offline.
package volume
