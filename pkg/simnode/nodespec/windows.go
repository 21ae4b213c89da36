package nodespec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Windows is how the Windows of a node behaves where that depends on its version or its
// settings, or is not known. The values of each field, what they mean and where that is
// known from are in [Options].
//
// An empty field has the value of [Config.World].
type Windows struct {
	// SANPolicy is the state in which disks arrive whose Offline is not set.
	SANPolicy string `json:"sanPolicy,omitempty"`
	// Attach is when the node sees an attached disk.
	Attach string `json:"attach,omitempty"`
	// NewDisks is whether other programs hold a disk that has just arrived.
	NewDisks string `json:"newDisks,omitempty"`
	// DiskNumbers is whether disks keep their numbers over a restart of Windows.
	DiskNumbers string `json:"diskNumbers,omitempty"`
	// NewVolumes is when a volume appears.
	NewVolumes string `json:"newVolumes,omitempty"`
	// Automount is whether the mount manager mounts new basic volumes.
	Automount string `json:"automount,omitempty"`
	// OfflineVolumes is what a volume answers that is offline.
	OfflineVolumes string `json:"offlineVolumes,omitempty"`
	// VolumeGrowth is when a volume has the new length of its partition.
	VolumeGrowth string `json:"volumeGrowth,omitempty"`
	// WriteProtected is whether a volume on a write-protected disk opens for writing.
	WriteProtected string `json:"writeProtected,omitempty"`
	// IsWritable is which disks IOCTL_DISK_IS_WRITABLE calls write-protected.
	IsWritable string `json:"isWritable,omitempty"`
	// OfflineReads is whether a disk that is offline can be read.
	OfflineReads string `json:"offlineReads,omitempty"`
	// BlankDisks is what IOCTL_DISK_GET_DRIVE_LAYOUT_EX says of a disk without a partition
	// table.
	BlankDisks string `json:"blankDisks,omitempty"`
	// NewGPT is what IOCTL_DISK_CREATE_DISK writes to a GPT disk.
	NewGPT string `json:"newGPT,omitempty"`
	// GPTEnd is whether the usable range of a GPT follows a disk that grows.
	GPTEnd string `json:"gptEnd,omitempty"`
	// GrowRefused is how IOCTL_DISK_GROW_PARTITION refuses to go beyond the usable range of
	// a GPT that did not follow its disk.
	GrowRefused string `json:"growRefused,omitempty"`
	// FormatKnows is when a format through WMI knows a new volume.
	FormatKnows string `json:"formatKnows,omitempty"`
	// FormatOrder is what a format leaves that is cut off, if Config.FormatDuration is set.
	FormatOrder string `json:"formatOrder,omitempty"`
	// SMBUsers is whether the list of SMB mappings says whose credentials they have.
	SMBUsers string `json:"smbUsers,omitempty"`
	// SMBErrors is whether the error of a failed SMB mapping says why it failed.
	SMBErrors string `json:"smbErrors,omitempty"`
	// SMBServerGone is the error about an SMB server that is down.
	SMBServerGone string `json:"smbServerGone,omitempty"`
	// SMBCalls is whether calls that make, list and remove SMB mappings wait for each other.
	SMBCalls string `json:"smbCalls,omitempty"`
	// SMBReconnect is when a mapping works again whose server was down.
	SMBReconnect string `json:"smbReconnect,omitempty"`
	// SMBAfterReboot is what a restart of Windows does to SMB mappings.
	SMBAfterReboot string `json:"smbAfterReboot,omitempty"`
	// Privileges is whether the privileges of CSI Proxy's account are enabled.
	Privileges string `json:"privileges,omitempty"`
	// MountOpens is how SetVolumeMountPoint opens the directory.
	MountOpens string `json:"mountOpens,omitempty"`
	// GoneMountPoint is what DeleteVolumeMountPoint does where the mounted volume is gone.
	GoneMountPoint string `json:"goneMountPoint,omitempty"`
	// ShareNames is whether the normalized path of a file on a share can be asked for.
	ShareNames string `json:"shareNames,omitempty"`
	// FilterTags is what happens to a file whose reparse point belongs to a filter driver.
	FilterTags string `json:"filterTags,omitempty"`
	// ISCSIDiscovery is which text says where an iSCSI target was discovered.
	ISCSIDiscovery string `json:"iscsiDiscovery,omitempty"`
}

// An Option is a field of [Windows].
type Option struct {
	Key    string  // its name in JSON, such as "sanPolicy"
	Does   string  // what it is about
	Values []Value // from the strict value, which more programs fail with, to the kindest
}

// A Value is a value of an [Option].
type Value struct {
	Name   string
	Does   string // what Windows does
	Source string // where that is known from
}

// Options returns the options of [Windows], in the order of its fields.
func Options() []Option {
	return []Option{
		{"sanPolicy", "in which state disks arrive", []Value{
			{SANOfflineShared, "disks on buses that machines can share arrive offline and read-only; the disks that the node was made with are not new to it", "document: diskpart, san; default of Windows Server"},
			{SANOfflineAll, "all disks arrive offline and read-only", "document: diskpart, san"},
			{SANOnlineAll, "all disks arrive online", "document: diskpart, san"},
		}},
		{"attach", "when the node sees an attached disk", []Value{
			{AttachRescan, "a moment after a rescan", "code: the existing CSI Proxy and the drivers for Azure Disk and AWS EBS rescan; that the disk arrives later than the scan ends is inference"},
			{AttachPlugAndPlay, "by itself, a moment later", "code: the drivers for GCE PD, AWS EBS and vSphere find new disks without a rescan"},
			{AttachSeen, "at once", "inference"},
		}},
		{"newDisks", "whether other programs hold a new disk", []Value{
			{NewDisksHeld, "for a moment, opening it for reading or writing fails with ERROR_SHARING_VIOLATION", "code: WSL disk.cpp tries to open a new disk for 5 s"},
			{NewDisksFree, "none does", "inference"},
		}},
		{"diskNumbers", "whether disks keep their numbers over a restart of Windows", []Value{
			{DiskNumbersReassigned, "each disk gets the number of another one, also the one that Windows runs from", "document: STORAGE_DEVICE_NUMBER, not guaranteed to be persistent across boots; which numbers they get is inference"},
			{DiskNumbersKept, "they do", "inference"},
		}},
		{"newVolumes", "when a volume appears whose partition is made, or whose disk goes online", []Value{
			{NewVolumesLate, "a moment later; Config.VolumeArrivalDelay can make that longer", "document: IOCTL_DISK_ARE_VOLUMES_READY; how much later is inference"},
			{NewVolumesAtOnce, "at once, unless Config.VolumeArrivalDelay is set", "inference"},
		}},
		{"automount", "whether new basic volumes are mounted", []Value{
			{AutomountDisabled, "a new volume gets no drive letter and stays offline until IOCTL_VOLUME_ONLINE; volumes that the node was made with are not new", "document: mountvol, IOCTL_VOLUME_ONLINE; logs of programs on Windows"},
			{AutomountEnabled, "a new volume is online, and gets a drive letter if its partition allows it", "document: mountvol, diskpart automount"},
		}},
		{"offlineVolumes", "what an offline volume answers", []Value{
			{OfflineSilent, "every request fails with ERROR_NOT_READY, except those that ask for its state or change it", "document: IOCTL_VOLUME_OFFLINE"},
			{OfflineLocated, "a handle without access also gets its extents", "code of a program on Windows"},
		}},
		{"volumeGrowth", "when a volume has the new length of its partition", []Value{
			{GrowthUpdated, "after IOCTL_VOLUME_UPDATE_PROPERTIES", "document: IOCTL_VOLUME_UPDATE_PROPERTIES"},
			{GrowthFollows, "at once", "inference"},
		}},
		{"writeProtected", "whether a volume on a write-protected disk opens for writing", []Value{
			{WriteProtectedRefused, "with a file system, it fails with ERROR_WRITE_PROTECT", "inference; without a file system it opens: logs of programs on Windows"},
			{WriteProtectedOpens, "it opens, and only writing fails", "logs of programs on Windows"},
		}},
		{"isWritable", "of which disks IOCTL_DISK_IS_WRITABLE says that they are write-protected", []Value{
			{WritableAttributes, "also of those that are offline or have the read-only attribute", "inference"},
			{WritableMedium, "of those whose medium is write-protected", "inference: a driver below the one that knows the attributes answers it (Windows-driver-samples, disk.c)"},
		}},
		{"offlineReads", "whether a disk that is offline can be read", []Value{
			{OfflineReadsRefused, "reading fails with ERROR_NOT_READY", "inference"},
			{OfflineReadsAllowed, "it can be read", "document: VDS_SAN_POLICY; code: ceph's tests on Windows"},
		}},
		{"blankDisks", "what the layout of a disk without a partition table is", []Value{
			{BlankMBR, "MBR with signature 0 and no entries", "logs of Rufus on Windows (issue 301); code: Qubes' tools"},
			{BlankSuperfloppy, "MBR with signature 1 and one entry of type 4 at offset 0", "logs of Rufus on Windows (issues 709, 2365), of removable media"},
			{BlankRaw, "RAW", "document: PARTITION_STYLE; code: WSL disk.cpp"},
		}},
		{"newGPT", "what IOCTL_DISK_CREATE_DISK writes", []Value{
			{NewGPTBare, "a GPT without partitions", "logs of programs on Windows"},
			{NewGPTLate, "a GPT without partitions, which a moment later is replaced by one with a Microsoft reserved partition", "document: IOCTL_DISK_CREATE_DISK, \"wait for the MSR partition arrival before sending the IOCTL_DISK_SET_DRIVE_LAYOUT_EX\"; what happens otherwise is inference"},
			{NewGPTMSR, "a GPT with a Microsoft reserved partition", "document: IOCTL_DISK_CREATE_DISK"},
		}},
		{"gptEnd", "whether the usable range of a GPT follows a disk that grows", []Value{
			{GPTEndStays, "it stays until IOCTL_DISK_SET_DRIVE_LAYOUT_EX rewrites the table", "logs of diskpart on Windows (Redo Rescue issue 89)"},
			{GPTEndMoves, "it follows when a partition grows", "inference"},
		}},
		{"growRefused", "how IOCTL_DISK_GROW_PARTITION refuses to go beyond the usable range", []Value{
			{GrowDiskFull, "with ERROR_DISK_FULL", "inference"},
			{GrowUnsuccessful, "with ERROR_GEN_FAILURE", "document: IOCTL_DISK_GROW_PARTITION (DDI), STATUS_UNSUCCESSFUL"},
			{GrowInternalError, "with ERROR_IO_DEVICE", "document: IOCTL_DISK_GROW_PARTITION (DDI), STATUS_DRIVER_INTERNAL_ERROR"},
			{GrowInvalidParameter, "with ERROR_INVALID_PARAMETER", "document: IOCTL_DISK_GROW_PARTITION (DDI)"},
		}},
		{"formatKnows", "when a format through WMI knows a new volume", []Value{
			{FormatUpdated, "after MSFT_StorageSetting.UpdateHostStorageCache; until then MSFT_Volume has no row for it", "code: a formatter that repeats Update-HostStorageCache; StorageDsc waits for new volumes"},
			{FormatRefuses, "after MSFT_StorageSetting.UpdateHostStorageCache; until then it returns 5 (invalid parameter)", "Windows printed it: PowerShell, issue 7771"},
			{FormatNever, "never, because the service smphost is disabled: MSFT_Volume has no rows at all", "Windows printed it: AutomatedLab, issue 1067"},
			{FormatAtOnce, "at once", "inference"},
		}},
		{"formatOrder", "what a format leaves that is cut off, which depends on the order of its writes", []Value{
			{FormatBootFirst, "the boot sector of the new file system and nothing else, so that Windows finds it damaged", "inference: the order is documented nowhere"},
			{FormatHalf, "a part of the first MiB, without a boot sector", "inference"},
			{FormatBackupFirst, "the copy of the boot sector in the last sector, and nothing else", "inference"},
			{FormatBootLast, "all but the boot sector", "inference"},
			{FormatAtEnd, "nothing, because all is written at the end", "inference"},
		}},
		{"smbUsers", "whether the list of SMB mappings says whose credentials they have", []Value{
			{SMBUsersHidden, "it does not", "document: MSFT_SmbGlobalMapping has no user"},
			{SMBUsersShown, "it does", "document: NetUseEnum, USE_INFO_2"},
		}},
		{"smbErrors", "whether the error of a failed SMB mapping says why it failed", []Value{
			{SMBErrorsBare, "it is ERROR_GEN_FAILURE, whatever the reason", "logs of Windows Server 2019 with WBEM_E_FAILED and no number"},
			{SMBErrorsNumbered, "it is the number of the reason", "logs of PowerShell: Windows System Error N; document: NetUseAdd"},
		}},
		{"smbServerGone", "which error Windows returns for an SMB server that is down", []Value{
			{SMBGoneTimeout, "ERROR_SEM_TIMEOUT (121)", "reports of csi-driver-smb and Azure File"},
			{SMBGoneDropped, "ERROR_NETNAME_DELETED (64)", "reports of csi-driver-smb and Azure File"},
			{SMBGoneNotFound, "ERROR_BAD_NETPATH (53), as for a server that does not exist", "document: NetUseAdd; logs of PowerShell"},
		}},
		{"smbCalls", "whether calls that make, list and remove SMB mappings wait for each other", []Value{
			{SMBCallsSerial, "one call at a time, so all wait for a server that is down", "report of Azure File on nodes with hundreds of mappings"},
			{SMBCallsParallel, "calls do not wait for each other", "inference"},
		}},
		{"smbReconnect", "when a mapping works again whose server was down", []Value{
			{SMBReconnectOnUse, "it stays disconnected until a program uses the share", "document: net use; reports of idle mappings that show Disconnected"},
			{SMBReconnectAtOnce, "as soon as the server responds", "inference"},
		}},
		{"smbAfterReboot", "what a restart of Windows leaves of SMB mappings", []Value{
			{SMBDisconnected, "mappings stay without their credentials, and are disconnected", "reports of Windows Server 2025"},
			{SMBAbsent, "there are no mappings", "reports of Windows Server 2016"},
			{SMBWorking, "mappings work, and do not show whose credentials they use", "reports of Windows Server 2019"},
		}},
		{"privileges", "whether the privileges to make symbolic links and to scan for devices are enabled", []Value{
			{PrivilegesDisabled, "the account holds them, and has to enable them first, as an elevated administrator does", "Windows printed it: rubyinstaller2, issue 466; document: FSCTL_SET_REPARSE_POINT, CM_Reenumerate_DevNode"},
			{PrivilegesEnabled, "they are enabled; LocalSystem has the first one enabled", "document: LocalSystem Account"},
		}},
		{"mountOpens", "how SetVolumeMountPoint opens the directory", []Value{
			{MountOpensAlone, "it shares nothing: it fails while another handle can read, write or delete the directory", "inference: the share mode is documented nowhere"},
			{MountOpensSharing, "it shares reading and writing", "inference"},
		}},
		{"goneMountPoint", "what DeleteVolumeMountPoint does where the mounted volume is gone", []Value{
			{GoneMountPointRefused, "it fails with ERROR_FILE_NOT_FOUND, and the mount point stays", "behavior of .NET on Windows (dotnet/runtime issue 86249)"},
			{GoneMountPointRemoved, "it removes the mount point", "document: DeleteVolumeMountPoint has no condition"},
		}},
		{"shareNames", "whether GetFinalPathNameByHandle returns normalized paths on shares", []Value{
			{ShareNamesClosed, "it fails with ERROR_ACCESS_DENIED, as where the user may not list a directory above, unless FILE_NAME_OPENED is given", "document: GetFinalPathNameByHandle"},
			{ShareNamesOpen, "it returns them", "document: GetFinalPathNameByHandle"},
		}},
		{"filterTags", "what happens to a file whose reparse point belongs to a filter driver", []Value{
			{FilterTagsRefused, "it opens only with FILE_OPEN_REPARSE_POINT, as where the driver is not loaded", "document: Reparse Points"},
			{FilterTagsOpened, "it opens as if it had no reparse point, as deduplicated files do; not with a tag that stands for another file", "document: Reparse Points, IsReparseTagNameSurrogate; that the driver hides it from OBJ_DONT_REPARSE is inference"},
		}},
		{"iscsiDiscovery", "which text says where an iSCSI target was discovered", []Value{
			{ISCSIDiscoveryOther, "one from which no address can be read", "inference: its form is documented nowhere"},
			{ISCSIDiscoverySendTargets, "SendTargets with an address, a port and the initiator", "output of NetApp's tools on Windows"},
		}},
	}
}

// The values of [Windows.SANPolicy].
const (
	SANOnlineAll     = "onlineAll"
	SANOfflineShared = "offlineShared"
	SANOfflineAll    = "offlineAll"
)

// The values of [Windows.Attach].
const (
	AttachRescan      = "rescan"
	AttachPlugAndPlay = "plugAndPlay"
	AttachSeen        = "seen"
)

// The values of [Windows.NewDisks].
const (
	NewDisksHeld = "held"
	NewDisksFree = "free"
)

// The values of [Windows.DiskNumbers].
const (
	DiskNumbersReassigned = "reassigned"
	DiskNumbersKept       = "kept"
)

// The values of [Windows.NewVolumes].
const (
	NewVolumesLate   = "late"
	NewVolumesAtOnce = "atOnce"
)

// The values of [Windows.Automount].
const (
	AutomountDisabled = "disabled"
	AutomountEnabled  = "enabled"
)

// The values of [Windows.OfflineVolumes].
const (
	OfflineSilent  = "silent"
	OfflineLocated = "located"
)

// The values of [Windows.VolumeGrowth].
const (
	GrowthUpdated = "updated"
	GrowthFollows = "follows"
)

// The values of [Windows.WriteProtected].
const (
	WriteProtectedRefused = "refused"
	WriteProtectedOpens   = "opens"
)

// The values of [Windows.IsWritable].
const (
	WritableAttributes = "attributes"
	WritableMedium     = "medium"
)

// The values of [Windows.OfflineReads].
const (
	OfflineReadsRefused = "refused"
	OfflineReadsAllowed = "allowed"
)

// The values of [Windows.BlankDisks].
const (
	BlankMBR         = "mbr"
	BlankSuperfloppy = "superfloppy"
	BlankRaw         = "raw"
)

// The values of [Windows.NewGPT].
const (
	NewGPTBare = "bare"
	NewGPTLate = "late"
	NewGPTMSR  = "msr"
)

// The values of [Windows.GPTEnd].
const (
	GPTEndMoves = "moves"
	GPTEndStays = "stays"
)

// The values of [Windows.FormatKnows].
const (
	FormatUpdated = "updated"
	FormatRefuses = "refuses"
	FormatNever   = "never"
	FormatAtOnce  = "atOnce"
)

// The values of [Windows.FormatOrder].
const (
	FormatBootFirst   = "bootFirst"
	FormatHalf        = "half"
	FormatBackupFirst = "backupFirst"
	FormatBootLast    = "bootLast"
	FormatAtEnd       = "atEnd"
)

// The values of [Windows.SMBUsers].
const (
	SMBUsersHidden = "hidden"
	SMBUsersShown  = "shown"
)

// The values of [Windows.SMBErrors].
const (
	SMBErrorsBare     = "bare"
	SMBErrorsNumbered = "numbered"
)

// The values of [Windows.SMBServerGone].
const (
	SMBGoneTimeout  = "timeout"
	SMBGoneDropped  = "dropped"
	SMBGoneNotFound = "notFound"
)

// The values of [Windows.SMBCalls].
const (
	SMBCallsSerial   = "serial"
	SMBCallsParallel = "parallel"
)

// The values of [Windows.SMBReconnect].
const (
	SMBReconnectOnUse  = "onUse"
	SMBReconnectAtOnce = "atOnce"
)

// The values of [Windows.SMBAfterReboot].
const (
	SMBDisconnected = "disconnected"
	SMBAbsent       = "absent"
	SMBWorking      = "working"
)

// The values of [Windows.Privileges].
const (
	PrivilegesDisabled = "disabled"
	PrivilegesEnabled  = "enabled"
)

// The values of [Windows.MountOpens].
const (
	MountOpensAlone   = "alone"
	MountOpensSharing = "sharing"
)

// The values of [Windows.GoneMountPoint].
const (
	GoneMountPointRefused = "refused"
	GoneMountPointRemoved = "removed"
)

// The values of [Windows.ShareNames].
const (
	ShareNamesClosed = "closed"
	ShareNamesOpen   = "open"
)

// The values of [Windows.FilterTags].
const (
	FilterTagsRefused = "refused"
	FilterTagsOpened  = "opened"
)

// The values of [Windows.ISCSIDiscovery].
const (
	ISCSIDiscoveryOther       = "other"
	ISCSIDiscoverySendTargets = "sendTargets"
)

// The values of [Windows.GrowRefused].
const (
	GrowDiskFull         = "diskFull"
	GrowUnsuccessful     = "unsuccessful"
	GrowInternalError    = "internalError"
	GrowInvalidParameter = "invalidParameter"
)

// A World is a named choice of options.
type World struct {
	Name string
	Does string
	Windows
}

// The names of worlds.
const (
	WorldStrict = "strict" // the first value of each option; the default
	WorldKind   = "kind"   // the last value of each option
)

// Worlds returns the named worlds, the default one first. Every option has a value in each.
func Worlds() []World {
	strict := World{Name: WorldStrict, Does: "for each open question the answer that more programs fail with"}
	kind := World{Name: WorldKind, Does: "for each open question the answer that most programs work with"}
	for _, o := range Options() {
		strict.Set(o.Key, o.Values[0].Name)
		kind.Set(o.Key, o.Values[len(o.Values)-1].Name)
	}
	return []World{strict, kind}
}

// Get returns the value of the option with the given key.
func (w *Windows) Get(key string) string { return w.field(key).String() }

// Set sets the option with the given key.
func (w *Windows) Set(key, value string) { w.field(key).SetString(value) }

func (w *Windows) field(key string) reflect.Value {
	v := reflect.ValueOf(w).Elem()
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name == key {
			return v.Field(i)
		}
	}
	panic(fmt.Sprintf("nodespec: no option %q", key))
}

// Or returns w with the values of other for its empty fields.
func (w Windows) Or(other Windows) Windows {
	to, from := reflect.ValueOf(&w).Elem(), reflect.ValueOf(other)
	for i := range to.NumField() {
		if to.Field(i).String() == "" {
			to.Field(i).SetString(from.Field(i).String())
		}
	}
	return w
}

// In returns w with the values of a world for its empty fields. "" is the default
// world. The error names an unknown world, or an unknown value.
func (w Windows) In(world string) (Windows, error) {
	all := Worlds()
	if world == "" {
		world = WorldStrict
	}
	i := slices.IndexFunc(all, func(a World) bool { return a.Name == world })
	if i < 0 {
		var names []string
		for _, a := range all {
			names = append(names, a.Name)
		}
		return w, fmt.Errorf("world %q, want %s", world, or(names))
	}
	for _, o := range Options() {
		got := w.Get(o.Key)
		if got == "" {
			continue
		}
		var names []string
		for _, v := range o.Values {
			names = append(names, v.Name)
		}
		if !slices.Contains(names, got) {
			return w, fmt.Errorf("%s %q, want %s", o.Key, got, or(names))
		}
	}
	return w.Or(all[i].Windows), nil
}

// or joins names as in "a, b or c".
func or(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
