package nodespec

// State is the state of a node at one moment.
type State struct {
	Disks        []DiskInfo        `json:"disks"`
	Volumes      []VolumeInfo      `json:"volumes"`
	Mounts       []MountInfo       `json:"mounts"`
	Services     []ServiceInfo     `json:"services"`
	ISCSITargets []ISCSITargetInfo `json:"iscsiTargets"`
	// ISCSIPortals are the portals that are registered with the node's initiator.
	ISCSIPortals []ISCSIPortal    `json:"iscsiPortals"`
	SMBServers   []SMBServerInfo  `json:"smbServers"`
	SMBMappings  []SMBMappingInfo `json:"smbMappings"`
	// Detached are the IDs of disks that can be attached again.
	Detached []string `json:"detached"`
	// Faults are all faults that were set and not cleared, used up or not.
	Faults []Fault `json:"faults"`
	// OpenHandles are the paths of the open handles. There are none while no call runs, so
	// an open handle then is a leak.
	OpenHandles []string `json:"openHandles"`
}

// DiskInfo is an attached disk.
type DiskInfo struct {
	Number     uint32          `json:"number"`
	ID         string          `json:"id"`            // identifies the disk even after it was detached
	Image      string          `json:"image"`         // file with its content
	Size       Size            `json:"sizeBytes"`     // the disk's real size
	SeenSize   Size            `json:"seenSizeBytes"` // the size that Windows knows; it is the old one until a rescan
	SectorSize uint32          `json:"sectorSize"`
	Style      string          `json:"style"`              // "RAW", "MBR", "GPT"
	Identity   string          `json:"identity,omitempty"` // the GUID of a GPT, the signature of an MBR
	Serial     string          `json:"serialNumber"`
	Page83     string          `json:"page83"`
	Online     bool            `json:"online"`
	ReadOnly   bool            `json:"readOnly"`
	System     bool            `json:"system"`  // has the volume C:
	Waiting    bool            `json:"waiting"` // hidden until the next rescan
	Partitions []PartitionInfo `json:"partitions"`
}

// PartitionInfo is a partition of an attached disk.
type PartitionInfo struct {
	Number uint32 `json:"number"`
	Type   string `json:"type"`
	ID     string `json:"id"`             // empty on an MBR disk
	Name   string `json:"name,omitempty"` // always empty on an MBR disk
	Offset Size   `json:"offsetBytes"`
	Length Size   `json:"sizeBytes"`
}

// VolumeInfo is a volume.
type VolumeInfo struct {
	ID         string   `json:"id"`          // \\?\Volume{…}\
	Disks      []uint32 `json:"diskNumbers"` // more than one for a spanned volume
	Offset     Size     `json:"offsetBytes"` // on the first disk
	Size       Size     `json:"sizeBytes"`
	Arrived    bool     `json:"arrived"`    // Windows knows the volume
	FileSystem string   `json:"fileSystem"` // empty for a volume without one
	Entries    int      `json:"entries"`    // number of files and directories, including the root
	MountedAt  []string `json:"mountedAt"`
	// RootSecurity is the security descriptor of the root directory, self-relative, with
	// its access control list only.
	RootSecurity []byte `json:"rootSecurity,omitempty"`
}

// MountInfo is a record of the mount manager: a volume mounted on a directory.
type MountInfo struct {
	Host   string `json:"host"` // the volume that the directory is on
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
	Session string        `json:"session"`     // ID of the session, or empty
	Through string        `json:"through"`     // portal of the session, such as 10.0.0.1:3260
	Disks   []uint32      `json:"diskNumbers"` // disks that have appeared
	State   []string      `json:"state"`       // "refuses", "unreachable", "busy", "persistent"
}

// SMBServerInfo is an SMB server.
type SMBServerInfo struct {
	Name       string   `json:"name"`
	Shares     []string `json:"shares"`
	Users      []string `json:"users"`
	Down       bool     `json:"down"`
	Encryption bool     `json:"encryption"` // it supports encryption
}

// SMBMappingInfo is a global mapping of the node.
type SMBMappingInfo struct {
	Remote string   `json:"remote"` // \\server\share
	User   string   `json:"user"`
	Status string   `json:"status"` // one of [SMBStatuses]
	UsedBy []string `json:"usedBy"` // links to the share in the kubelet's CSI directories
}

// SMBStatuses returns the statuses of a mapping. The index of a status is Windows' number for
// it (MSFT_SmbMapping.Status).
func SMBStatuses() []string {
	return []string{"ok", "paused", "disconnected", "network error", "connecting", "reconnecting"}
}

// File is a file or directory of a node.
type File struct {
	ID   uint64 `json:"id"`   // stays with the file, also when it is renamed
	Path string `json:"path"` // such as C:\var\lib\kubelet
	Dir  bool   `json:"dir"`
	Size Size   `json:"sizeBytes"` // of a file
	Link *Link  `json:"link"`      // nil for what is neither a link nor a mount point
}

// Link is where a symbolic link, a junction or a mount point leads.
type Link struct {
	// Target is the name in the reparse point: \??\C:\dir, \??\Volume{…}\,
	// \??\UNC\server\share\dir, or a relative path.
	Target string `json:"target"`
	// Exists reports whether Windows finds something there now. It does not if the disk
	// was detached, or the server is down.
	Exists bool `json:"exists"`
	// VolumeSize is the size of the volume to which the link leads at last. It is 0 for a
	// share.
	VolumeSize Size `json:"volumeSizeBytes"`
	// FileSystem identifies the file system there. A format makes another one. It is empty for
	// a share.
	FileSystem string `json:"fileSystem"`
}
