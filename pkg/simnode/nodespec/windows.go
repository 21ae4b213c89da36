package nodespec

// Windows is how the Windows of a node behaves where that depends on its settings. An empty
// field has the value of [Config.World].
type Windows struct {
	// SANPolicy is the state in which disks arrive whose Offline is not set.
	SANPolicy string `json:"sanPolicy,omitempty"`
	// Attach is when the node sees an attached disk.
	Attach string `json:"attach,omitempty"`
	// NewVolumes is when a volume appears.
	NewVolumes string `json:"newVolumes,omitempty"`
	// Automount is whether the mount manager mounts new basic volumes.
	Automount string `json:"automount,omitempty"`
	// DiskNumbers is whether disks keep their numbers over a restart of Windows.
	DiskNumbers string `json:"diskNumbers,omitempty"`
	// SMBServerGone is the error about an SMB server that is down.
	SMBServerGone string `json:"smbServerGone,omitempty"`
}

// The values of [Windows.SANPolicy], the strict one first.
const (
	SANOfflineShared = "offlineShared" // disks on buses that machines can share arrive offline and read-only; the disks that the node was made with are not new to it
	SANOfflineAll    = "offlineAll"    // all disks arrive offline and read-only
	SANOnlineAll     = "onlineAll"     // all disks arrive online
)

// The values of [Windows.Attach], the strict one first.
const (
	AttachRescan      = "rescan"      // a moment after a rescan
	AttachPlugAndPlay = "plugAndPlay" // by itself, a moment later
	AttachSeen        = "seen"        // at once
)

// The values of [Windows.NewVolumes], the strict one first.
const (
	NewVolumesLate   = "late"   // a moment later; Config.VolumeArrivalDelay can make that longer
	NewVolumesAtOnce = "atOnce" // at once, unless Config.VolumeArrivalDelay is set
)

// The values of [Windows.Automount], the strict one first.
const (
	AutomountDisabled = "disabled" // a new volume gets no drive letter and stays offline until IOCTL_VOLUME_ONLINE; volumes that the node was made with are not new
	AutomountEnabled  = "enabled"  // a new volume is online, and gets a drive letter if its partition allows it
)

// The values of [Windows.DiskNumbers], the strict one first.
const (
	DiskNumbersReassigned = "reassigned" // each disk gets the number of another one, also the one that Windows runs from
	DiskNumbersKept       = "kept"       // the same after a restart
)

// The values of [Windows.SMBServerGone], the strict one first.
const (
	SMBGoneTimeout  = "timeout"  // ERROR_SEM_TIMEOUT (121)
	SMBGoneDropped  = "dropped"  // ERROR_NETNAME_DELETED (64)
	SMBGoneNotFound = "notFound" // ERROR_BAD_NETPATH (53), as for a server that does not exist
)

// The values of [Config.World]. In a world each option of Windows has a value, also those which
// no version of Windows documents.
const (
	WorldStrict = "strict" // for each open question the answer that more programs fail with; the default
	WorldKind   = "kind"   // for each open question the answer that most programs work with
)
