// Package behavior says how the Windows of an emulated node behaves where that depends on its
// version or its settings, or is not known. Six of the options are public ([nodespec.Windows]).
// The others exist so that the code above Win32 is tested with each answer that Windows may
// give: only code of this module can choose their values, by a world of its own ([In]).
package behavior

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Windows is how Windows behaves: a value for each of [All], or "" for that of the world below
// it.
type Windows struct {
	SANPolicy, Attach, NewVolumes, Automount, DiskNumbers, SMBServerGone string

	NewDisks, WriteProtected, IsWritable, OfflineReads, BlankDisks, NewGPT, GPTEnd string
	OfflineVolumes, FormatKnows, FormatOrder                                       string
	SMBUsers, SMBErrors, SMBCalls, SMBAfterReboot                                  string
	GoneMountPoint, ShareNames, FilterTags                                         string
	ISCSIDiscovery                                                                 string
}

// An Option is a field of [Windows].
type Option struct {
	Key    string                 // its name in logs, and of the public ones in JSON
	Does   string                 // what it is about
	Of     func(*Windows) *string // the field
	Values []Value                // from the strict value, which more programs fail with, to the kindest
}

// A Value is a value of an [Option].
type Value struct {
	Name   string
	Does   string // what Windows does
	Source string // where that is known from
}

// All returns the options.
func All() []Option {
	return []Option{
		{"sanPolicy", "in which state disks arrive", func(w *Windows) *string { return &w.SANPolicy }, []Value{
			{nodespec.SANOfflineShared, "disks on buses that machines can share arrive offline and read-only; the disks that the node was made with are not new to it", "document: diskpart, san; default of Windows Server"},
			{nodespec.SANOfflineAll, "all disks arrive offline and read-only", "document: diskpart, san"},
			{nodespec.SANOnlineAll, "all disks arrive online", "document: diskpart, san"},
		}},
		{"attach", "when the node sees an attached disk", func(w *Windows) *string { return &w.Attach }, []Value{
			{nodespec.AttachRescan, "a moment after a rescan", "code: the existing CSI Proxy and the drivers for Azure Disk and AWS EBS rescan; that the disk arrives later than the scan ends is inference"},
			{nodespec.AttachPlugAndPlay, "by itself, a moment later", "code: the drivers for GCE PD, AWS EBS and vSphere find new disks without a rescan"},
			{nodespec.AttachSeen, "at once", "inference"},
		}},
		{"newDisks", "whether other programs hold a new disk", func(w *Windows) *string { return &w.NewDisks }, []Value{
			{NewDisksHeld, "for a moment, opening it for reading or writing fails with ERROR_SHARING_VIOLATION", "code: WSL disk.cpp tries to open a new disk for 5 s"},
			{NewDisksFree, "none does", "inference"},
		}},
		{"diskNumbers", "whether disks keep their numbers over a restart of Windows", func(w *Windows) *string { return &w.DiskNumbers }, []Value{
			{nodespec.DiskNumbersReassigned, "each disk gets the number of another one, also the one that Windows runs from", "document: STORAGE_DEVICE_NUMBER, not guaranteed to be persistent across boots; which numbers they get is inference"},
			{nodespec.DiskNumbersKept, "they do", "inference"},
		}},
		{"newVolumes", "when a volume appears whose partition is made, or whose disk goes online", func(w *Windows) *string { return &w.NewVolumes }, []Value{
			{nodespec.NewVolumesLate, "a moment later; Config.VolumeArrivalDelay can make that longer", "document: IOCTL_DISK_ARE_VOLUMES_READY; how much later is inference"},
			{nodespec.NewVolumesAtOnce, "at once, unless Config.VolumeArrivalDelay is set", "inference"},
		}},
		{"automount", "whether new basic volumes are mounted", func(w *Windows) *string { return &w.Automount }, []Value{
			{nodespec.AutomountDisabled, "a new volume gets no drive letter and stays offline until IOCTL_VOLUME_ONLINE; volumes that the node was made with are not new", "document: mountvol, IOCTL_VOLUME_ONLINE; logs of programs on Windows"},
			{nodespec.AutomountEnabled, "a new volume is online, and gets a drive letter if its partition allows it", "document: mountvol, diskpart automount"},
		}},
		{"offlineVolumes", "what an offline volume answers", func(w *Windows) *string { return &w.OfflineVolumes }, []Value{
			{OfflineSilent, "every request fails with ERROR_NOT_READY, except those that ask for its state or change it", "document: IOCTL_VOLUME_OFFLINE"},
			{OfflineLocated, "a handle without access also gets its extents", "code of a program on Windows"},
		}},
		{"writeProtected", "whether a volume on a write-protected disk opens for writing", func(w *Windows) *string { return &w.WriteProtected }, []Value{
			{WriteProtectedRefused, "with a file system, it fails with ERROR_WRITE_PROTECT", "inference; without a file system it opens: logs of programs on Windows"},
			{WriteProtectedOpens, "it opens, and only writing fails", "logs of programs on Windows"},
		}},
		{"isWritable", "of which disks IOCTL_DISK_IS_WRITABLE says that they are write-protected", func(w *Windows) *string { return &w.IsWritable }, []Value{
			{WritableAttributes, "also of those that are offline or have the read-only attribute", "inference"},
			{WritableMedium, "of those whose medium is write-protected", "inference: a driver below the one that knows the attributes answers it (Windows-driver-samples, disk.c)"},
		}},
		{"offlineReads", "whether a disk that is offline can be read", func(w *Windows) *string { return &w.OfflineReads }, []Value{
			{OfflineReadsRefused, "reading fails with ERROR_NOT_READY", "inference"},
			{OfflineReadsAllowed, "it can be read", "document: VDS_SAN_POLICY; code: ceph's tests on Windows"},
		}},
		{"blankDisks", "what the layout of a disk without a partition table is", func(w *Windows) *string { return &w.BlankDisks }, []Value{
			{BlankMBR, "MBR with signature 0 and no entries", "logs of Rufus on Windows (issue 301); code: Qubes' tools"},
			{BlankSuperfloppy, "MBR with signature 1 and one entry of type 4 at offset 0", "logs of Rufus on Windows (issues 709, 2365), of removable media"},
			{BlankRaw, "RAW", "document: PARTITION_STYLE; code: WSL disk.cpp"},
		}},
		{"newGPT", "what IOCTL_DISK_CREATE_DISK writes", func(w *Windows) *string { return &w.NewGPT }, []Value{
			{NewGPTBare, "a GPT without partitions", "logs of programs on Windows"},
			{NewGPTLate, "a GPT without partitions, which a moment later is replaced by one with a Microsoft reserved partition", "document: IOCTL_DISK_CREATE_DISK, \"wait for the MSR partition arrival before sending the IOCTL_DISK_SET_DRIVE_LAYOUT_EX\"; what happens otherwise is inference"},
			{NewGPTMSR, "a GPT with a Microsoft reserved partition", "document: IOCTL_DISK_CREATE_DISK"},
		}},
		{"gptEnd", "whether the usable range of a GPT follows a disk that grows", func(w *Windows) *string { return &w.GPTEnd }, []Value{
			{GPTEndStays, "it stays until IOCTL_DISK_SET_DRIVE_LAYOUT_EX rewrites the table", "logs of diskpart on Windows (Redo Rescue issue 89)"},
			{GPTEndMoves, "it follows when a partition grows", "inference"},
		}},
		{"formatKnows", "when a format through WMI knows a new volume", func(w *Windows) *string { return &w.FormatKnows }, []Value{
			{FormatUpdated, "after MSFT_StorageSetting.UpdateHostStorageCache; until then MSFT_Volume has no row for it", "code: a formatter that repeats Update-HostStorageCache; StorageDsc waits for new volumes"},
			{FormatRefuses, "after MSFT_StorageSetting.UpdateHostStorageCache; until then it returns 5 (invalid parameter)", "Windows printed it: PowerShell, issue 7771"},
			{FormatNever, "never, because the service smphost is disabled: MSFT_Volume has no rows at all", "Windows printed it: AutomatedLab, issue 1067"},
			{FormatAtOnce, "at once", "inference"},
		}},
		{"formatOrder", "what a format leaves that is cut off, which depends on the order of its writes", func(w *Windows) *string { return &w.FormatOrder }, []Value{
			{FormatBootFirst, "the boot sector of the new file system and nothing else, so that Windows finds it damaged", "inference: the order is documented nowhere"},
			{FormatHalf, "a part of the first MiB, without a boot sector", "inference"},
			{FormatBackupFirst, "the copy of the boot sector in the last sector, and nothing else", "inference"},
			{FormatBootLast, "all but the boot sector", "inference"},
			{FormatAtEnd, "nothing, because all is written at the end", "inference"},
		}},
		{"smbUsers", "whether the list of SMB mappings says whose credentials they have", func(w *Windows) *string { return &w.SMBUsers }, []Value{
			{SMBUsersHidden, "it does not, but it says what they require", "code: microsoft/wmi, MSFT_SmbGlobalMapping"},
			{SMBUsersShown, "it does, and does not say what they require", "document: NetUseEnum, USE_INFO_2"},
		}},
		{"smbErrors", "whether the error of a failed SMB mapping says why it failed", func(w *Windows) *string { return &w.SMBErrors }, []Value{
			{SMBErrorsBare, "it is ERROR_GEN_FAILURE, whatever the reason", "logs of Windows Server 2019 with WBEM_E_FAILED and no number"},
			{SMBErrorsNumbered, "it is the number of the reason", "logs of PowerShell: Windows System Error N; document: NetUseAdd"},
		}},
		{"smbServerGone", "which error Windows returns for an SMB server that is down", func(w *Windows) *string { return &w.SMBServerGone }, []Value{
			{nodespec.SMBGoneTimeout, "ERROR_SEM_TIMEOUT (121)", "reports of csi-driver-smb and Azure File"},
			{nodespec.SMBGoneDropped, "ERROR_NETNAME_DELETED (64)", "reports of csi-driver-smb and Azure File"},
			{nodespec.SMBGoneNotFound, "ERROR_BAD_NETPATH (53), as for a server that does not exist", "document: NetUseAdd; logs of PowerShell"},
		}},
		{"smbCalls", "whether calls that make, list and remove SMB mappings wait for each other", func(w *Windows) *string { return &w.SMBCalls }, []Value{
			{SMBCallsSerial, "one call at a time, so all wait for a server that is down", "report of Azure File on nodes with hundreds of mappings"},
			{SMBCallsParallel, "calls do not wait for each other", "inference"},
		}},
		{"smbAfterReboot", "what a restart of Windows leaves of SMB mappings", func(w *Windows) *string { return &w.SMBAfterReboot }, []Value{
			{SMBDisconnected, "mappings stay without their credentials, and are disconnected", "reports of Windows Server 2025"},
			{SMBAbsent, "there are no mappings", "reports of Windows Server 2016"},
			{SMBWorking, "mappings work, and do not show whose credentials they use", "reports of Windows Server 2019"},
		}},
		{"goneMountPoint", "what DeleteVolumeMountPoint does where the mounted volume is gone", func(w *Windows) *string { return &w.GoneMountPoint }, []Value{
			{GoneMountPointRefused, "it fails with ERROR_FILE_NOT_FOUND, and the mount point stays", "behavior of .NET on Windows (dotnet/runtime issue 86249)"},
			{GoneMountPointRemoved, "it removes the mount point", "document: DeleteVolumeMountPoint has no condition"},
		}},
		{"shareNames", "whether GetFinalPathNameByHandle returns normalized paths on shares", func(w *Windows) *string { return &w.ShareNames }, []Value{
			{ShareNamesClosed, "it fails with ERROR_ACCESS_DENIED, as where the user may not list a directory above, unless FILE_NAME_OPENED is given", "document: GetFinalPathNameByHandle"},
			{ShareNamesOpen, "it returns them", "document: GetFinalPathNameByHandle"},
		}},
		{"filterTags", "what happens to a file whose reparse point belongs to a filter driver", func(w *Windows) *string { return &w.FilterTags }, []Value{
			{FilterTagsRefused, "it opens only with FILE_OPEN_REPARSE_POINT, as where the driver is not loaded", "document: Reparse Points"},
			{FilterTagsOpened, "it opens as if it had no reparse point, as deduplicated files do; not with a tag that stands for another file", "document: Reparse Points, IsReparseTagNameSurrogate; that the driver hides it from OBJ_DONT_REPARSE is inference"},
		}},
		{"iscsiDiscovery", "which text says where an iSCSI target was discovered", func(w *Windows) *string { return &w.ISCSIDiscovery }, []Value{
			{ISCSIDiscoveryOther, "one from which no address can be read", "inference: its form is documented nowhere"},
			{ISCSIDiscoverySendTargets, "SendTargets with an address, a port and the initiator", "output of NetApp's tools on Windows"},
		}},
	}
}

// The values of the options that are not public.
const (
	NewDisksHeld = "held"
	NewDisksFree = "free"

	OfflineSilent  = "silent"
	OfflineLocated = "located"

	WriteProtectedRefused = "refused"
	WriteProtectedOpens   = "opens"

	WritableAttributes = "attributes"
	WritableMedium     = "medium"

	OfflineReadsRefused = "refused"
	OfflineReadsAllowed = "allowed"

	BlankMBR         = "mbr"
	BlankSuperfloppy = "superfloppy"
	BlankRaw         = "raw"

	NewGPTBare = "bare"
	NewGPTLate = "late"
	NewGPTMSR  = "msr"

	GPTEndMoves = "moves"
	GPTEndStays = "stays"

	FormatUpdated = "updated"
	FormatRefuses = "refuses"
	FormatNever   = "never"
	FormatAtOnce  = "atOnce"

	FormatBootFirst   = "bootFirst"
	FormatHalf        = "half"
	FormatBackupFirst = "backupFirst"
	FormatBootLast    = "bootLast"
	FormatAtEnd       = "atEnd"

	SMBUsersHidden = "hidden"
	SMBUsersShown  = "shown"

	SMBErrorsBare     = "bare"
	SMBErrorsNumbered = "numbered"

	SMBCallsSerial   = "serial"
	SMBCallsParallel = "parallel"

	SMBDisconnected = "disconnected"
	SMBAbsent       = "absent"
	SMBWorking      = "working"

	GoneMountPointRefused = "refused"
	GoneMountPointRemoved = "removed"

	ShareNamesClosed = "closed"
	ShareNamesOpen   = "open"

	FilterTagsRefused = "refused"
	FilterTagsOpened  = "opened"

	ISCSIDiscoveryOther       = "other"
	ISCSIDiscoverySendTargets = "sendTargets"
)

// made are the worlds of [In], by their names.
var made sync.Map

// In returns the name, for [nodespec.Config.World], of the world that has the values of w and
// otherwise those of another world, of the strict one if it is "".
func In(world string, w Windows) string {
	w = w.or(Chosen(world))
	var own []string
	for _, o := range All() {
		if v := *o.Of(&w); v != "" {
			own = append(own, o.Key+"="+v)
		}
	}
	name := strings.Join(own, " ")
	made.Store(name, w)
	return name
}

// Chosen returns the values that a world has of its own: of the strict one none.
func Chosen(world string) (w Windows) {
	if world == nodespec.WorldKind {
		for _, o := range All() {
			*o.Of(&w) = o.Values[len(o.Values)-1].Name
		}
	}
	if own, ok := made.Load(world); ok {
		return own.(Windows)
	}
	return w
}

// Of returns the Windows that a node has: the public options, then those of the world, then the
// strict values. The error names an unknown world, or an unknown value.
func Of(c nodespec.Config) (Windows, error) {
	if _, ok := made.Load(c.World); !ok && !slices.Contains([]string{"", nodespec.WorldStrict, nodespec.WorldKind}, c.World) {
		return Windows{}, fmt.Errorf("world %q, want %s or %s", c.World, nodespec.WorldStrict, nodespec.WorldKind)
	}
	w := Windows{SANPolicy: c.SANPolicy, Attach: c.Attach, NewVolumes: c.NewVolumes, Automount: c.Automount,
		DiskNumbers: c.DiskNumbers, SMBServerGone: c.SMBServerGone}.or(Chosen(c.World))
	for _, o := range All() {
		got := o.Of(&w)
		if *got == "" {
			*got = o.Values[0].Name
		}
		if !slices.ContainsFunc(o.Values, func(v Value) bool { return v.Name == *got }) {
			return w, fmt.Errorf("%s %q, want %s", o.Key, *got, o.names())
		}
	}
	return w, nil
}

// or returns w with the values of other for its empty fields.
func (w Windows) or(other Windows) Windows {
	for _, o := range All() {
		if to := o.Of(&w); *to == "" {
			*to = *o.Of(&other)
		}
	}
	return w
}

// names returns the names of the values, as in "a, b or c".
func (o Option) names() string {
	var names []string
	for _, v := range o.Values {
		names = append(names, v.Name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
