package nodespec

// State is a node at a moment.
type State struct {
	Disks        []DiskInfo        `json:"disks"`
	Volumes      []VolumeInfo      `json:"volumes"`
	Mounts       []MountInfo       `json:"mounts"`
	Services     []ServiceInfo     `json:"services"`
	ISCSITargets []ISCSITargetInfo `json:"iscsiTargets"`
	// ISCSIPortals are registered with the node's initiator.
	ISCSIPortals []ISCSIPortal    `json:"iscsiPortals"`
	SMBServers   []SMBServerInfo  `json:"smbServers"`
	SMBMappings  []SMBMappingInfo `json:"smbMappings"`
	// Detached are the IDs of disks that can be attached again.
	Detached []string `json:"detached"`
	// Faults are all that were set, used up or not.
	Faults []Fault `json:"faults"`
	// OpenHandles are the paths with which the open handles were opened. There
	// are none while no call is running; a test that finds some has found a leak.
	OpenHandles []string `json:"openHandles"`
}

// DiskInfo is an attached disk.
type DiskInfo struct {
	Number     uint32          `json:"number"`
	ID         string          `json:"id"`            // lasting identity; a detached disk comes back by it
	Image      string          `json:"image"`         // the file that holds its content
	Size       Size            `json:"sizeBytes"`     //
	SeenSize   Size            `json:"seenSizeBytes"` // the size that Windows knows, which is the old one until a rescan
	SectorSize uint32          `json:"sectorSize"`
	Style      string          `json:"style"` // "RAW", "MBR", "GPT"
	Serial     string          `json:"serialNumber"`
	Page83     string          `json:"page83"`
	Online     bool            `json:"online"`
	ReadOnly   bool            `json:"readOnly"`
	System     bool            `json:"system"`  // holds C:
	Waiting    bool            `json:"waiting"` // Windows sees it after a rescan only
	Partitions []PartitionInfo `json:"partitions"`
}

// PartitionInfo is a partition of an attached disk.
type PartitionInfo struct {
	Number uint32 `json:"number"`
	Type   string `json:"type"`
	ID     string `json:"id"` // empty on an MBR disk
	Offset Size   `json:"offsetBytes"`
	Length Size   `json:"sizeBytes"`
}

// VolumeInfo is a volume.
type VolumeInfo struct {
	ID         string   `json:"id"`          // \\?\Volume{…}\
	Disks      []uint32 `json:"diskNumbers"` // more than one for a spanned volume
	Offset     Size     `json:"offsetBytes"` // on the first of them
	Size       Size     `json:"sizeBytes"`
	Arrived    bool     `json:"arrived"`    // Windows sees it
	FileSystem string   `json:"fileSystem"` // empty for a volume without one
	Entries    int      `json:"entries"`    // files and directories, with the root
	MountedAt  []string `json:"mountedAt"`
}

// MountInfo is a record of the mount manager: a volume mounted at a directory.
type MountInfo struct {
	Host   string `json:"host"` // the volume with the directory
	Path   string `json:"path"`
	Volume string `json:"volume"`
}

// ServiceInfo is a Windows service.
type ServiceInfo struct {
	Service
	// Status is "stopped", "start pending", "stop pending", "running" or
	// "paused". In JSON it has the name state.
	Status string `json:"state"`
}

// ISCSITargetInfo is a target as the node sees it.
type ISCSITargetInfo struct {
	IQN     string        `json:"iqn"`
	Portals []ISCSIPortal `json:"portals"`
	CHAP    string        `json:"chapUser"` // empty without CHAP
	LUNs    int           `json:"luns"`
	Session string        `json:"session"`     // its ID, if the node is logged in
	Through string        `json:"through"`     // portal of the session, as 10.0.0.1:3260
	Disks   []uint32      `json:"diskNumbers"` // those that have arrived
	State   []string      `json:"state"`       // "refuses", "unreachable", "busy", "persistent"
}

// SMBServerInfo is an SMB server as it is.
type SMBServerInfo struct {
	Name       string   `json:"name"`
	Shares     []string `json:"shares"`
	Users      []string `json:"users"`
	Down       bool     `json:"down"`
	Encryption bool     `json:"encryption"` // it can encrypt
}

// SMBMappingInfo is a global mapping of the node.
type SMBMappingInfo struct {
	Remote string   `json:"remote"` // \\server\share
	User   string   `json:"user"`
	Status string   `json:"status"` // one of [SMBStatuses]
	UsedBy []string `json:"usedBy"` // links to the share, where the kubelet lets CSI drivers make them
}

// SMBStatuses are the statuses of a mapping. The index of each is the number by
// which Windows knows it (MSFT_SmbMapping.Status).
func SMBStatuses() []string {
	return []string{"ok", "paused", "disconnected", "network error", "connecting", "reconnecting"}
}
