// Package rules has the rules that limit what the services of one process do on a node.
// The daemon sets them from its flags. A driver in process and a simulated node may set
// them too. Whatever enforces a rule reads it from the node, so a new rule is a field here,
// a flag, and the code that asks it.
package rules

// Rules are the rules of one process. The zero value has no limits on paths and services,
// as for a driver in process, and destroys nothing.
type Rules struct {
	// WorkingDirs, if not empty, are the only directories to which paths may lead, by
	// their text and by the handle that is opened.
	WorkingDirs []string

	// AllowedServices, if not nil, are the only Windows services that may be started or
	// stopped, including dependent services that have to stop first.
	AllowedServices []string

	// ProtectedDirs are directories whose disks are not partitioned, formatted, resized or
	// taken offline, besides those that the node needs. The daemon's -protected-dir.
	ProtectedDirs []string

	// FormatExisting lets FormatVolume format an NTFS file system that holds data. The
	// daemon's -format-existing=ntfs.
	FormatExisting bool

	// DiskContent is which content PartitionDisk, FormatVolume and ResizeVolume may overwrite.
	// The daemon's -disk-content.
	DiskContent DiskContent

	// KeepReadOnly keeps SetDiskState from making a read-only disk writable. The daemon's
	// -read-only-disks=keep.
	KeepReadOnly bool

	// AllDiskLocations makes ListDiskLocations list all disks. Otherwise it leaves out Azure's
	// temporary disk, and one that Windows needs if another disk has its LUN. The daemon's
	// -disk-locations=all.
	AllDiskLocations bool

	// UsersModify lets the group Users change everything on volumes that FormatVolume
	// formats. The daemon's -volume-root-access=users-modify.
	UsersModify bool

	// NoSMBPrivacy makes new SMB mappings without encryption. The daemon's
	// -require-privacy=false.
	NoSMBPrivacy bool

	// AcceptUnverifiedPasswords lets a request use an SMB mapping in use with a password
	// that the server could not verify. The daemon's -smb-accept-unverified-passwords.
	AcceptUnverifiedPasswords bool
}

// DiskContent is which content of a disk may be overwritten. Each use is logged.
type DiskContent string

const (
	// DiskContentStrict is none: what is not blank is refused.
	DiskContentStrict DiskContent = ""
	// DiskContentCleaned is that of a disk without partitions whose first and last MiB are
	// blank, apart from an empty partition table, as diskpart clean and Clear-Disk leave it,
	// and of its only volume.
	DiskContentCleaned DiskContent = "cleaned"
	// DiskContentUnknown is the same, and content of which no kind is known.
	DiskContentUnknown DiskContent = "unknown"
)
