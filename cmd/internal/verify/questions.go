package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// question is what the documents about Windows leave open. Its answer is a value of an
// option of the simulated node, or free text.
type question struct {
	name     string
	asks     string
	does     string                // how it finds out
	option   string                // key of [behavior.All], "" for free text
	settings bool                  // needs -machine-settings
	format   bool                  // watches a format
	pipes    bool                  // needs named pipes, so a Windows
	windows  bool                  // needs a Windows that is not Wine
	first    time.Duration         // its limit in the first contact, of which it is a part
	expect   []string              // the answers that the code relies on, if it has no option
	change   string                // what we would change on any other answer
	ask      func(p *place) string // the answer; it skips the test if there is none
}

// questions returns all questions, ordered by what a wrong guess would cost.
func questions() []question {
	return []question{
		{
			name: "rights of a client", first: 10 * time.Second, pipes: true,
			asks:   "Are the rights 0x12019b enough to connect to a pipe as published clients do?",
			does:   "makes a pipe that gives administrators these rights and no one else, connects for reading and writing, and sends a byte",
			expect: []string{"yes"}, change: "the default of `-pipe-sddl` gives administrators more",
			ask: rightsOfClient,
		},
		{
			name: "added instance", pipes: true,
			asks:   "Can a program with these rights add an instance to the pipe, and take its clients?",
			does:   "adds an instance to such a pipe",
			expect: []string{"no"}, change: "the default of `-pipe-sddl` gives administrators less",
			ask: addedInstance,
		},
		{
			name: "rights of the owner", first: 10 * time.Second, pipes: true, windows: true,
			asks:   "May an administrator change the rights of a pipe that administrators own?",
			does:   "makes pipes with these rights, one with an entry for OWNER RIGHTS, and opens each with WRITE_DAC",
			expect: []string{"as its owner yes, with an entry for owners no"}, change: "we look for another way to keep a driver from locking the others out",
			ask: ownerRights,
		},
		{
			name: "own second instance", first: 10 * time.Second, pipes: true,
			asks:   "Can the process that made a pipe with csi-proxy's rights add an instance to it?",
			does:   "listens on a pipe as csi-proxy does, and connects two clients, one after the other",
			expect: []string{"yes"}, change: "the default of `-pipe-sddl` names the account in another way",
			ask: ownSecondInstance,
		},
		{
			name: "blank disk", option: "blankDisks",
			asks: "Which partition style has a blank disk?",
			does: "attaches a blank disk and reads IOCTL_DISK_GET_DRIVE_LAYOUT_EX",
			ask:  blankDisk,
		},
		{
			name: "new volume", first: 30 * time.Second, option: "automount",
			asks: "Is a new volume online, with the settings of this machine?",
			does: "makes a partition on a blank disk and asks its volume IOCTL_VOLUME_IS_OFFLINE",
			ask:  func(p *place) string { _, state := p.newVolume(); return state },
		},
		{
			name: "offline volume", option: "offlineVolumes",
			asks: "What does a volume say of its place while it is offline?",
			does: "takes a volume offline (IOCTL_VOLUME_OFFLINE) and asks for its extents without access",
			ask:  offlineVolume,
		},
		{
			name: "mount of a held directory", first: 30 * time.Second,
			asks:   "Can a volume be mounted at a directory that is open for listing?",
			does:   "opens an empty directory, sharing reading and writing, and calls SetVolumeMountPoint",
			expect: []string{"alone", "sharing"}, change: "the error joins those after which a mount is tried again",
			ask: mountOpens,
		},
		{
			name: "format of a new volume", first: 75 * time.Second, option: "formatKnows",
			asks: "Does a format through WMI know a volume that was just made?",
			does: "makes a partition with control codes and formats its volume through WMI at once, then again after MSFT_StorageSetting.UpdateHostStorageCache",
			ask:  formatKnows,
		},
		{
			name: "attributes of a slot", first: 45 * time.Second,
			asks:   "Does the next disk at an address have the attributes of the last one?",
			does:   "sets both attributes of a blank disk with Persist, detaches it, attaches another one and reads its attributes; then the same without Persist",
			expect: []string{"with Persist both, without none"}, change: "SetDiskState no longer touches a disk that is online and read-only",
			ask: attributesOfASlot,
		},
		{
			name: "table under a volume", first: 30 * time.Second,
			asks:   "Does an open directory outlive that the partition table below it is written?",
			does:   "mounts a volume, opens it, and writes the table of its disk as it was; then the same with its entry marked as rewritten, which nothing of ours does",
			expect: []string{"yes; with its entry rewritten yes"}, change: "a volume on a GPT that did not follow its disk is grown only while it is not mounted",
			ask: tableUnderAVolume,
		},
		{
			name: "end of a grown GPT", first: 50 * time.Second, option: "gptEnd",
			asks: "Does the usable range of a GPT follow a disk that grows?",
			does: "grows a disk, which Windows has to detach for that, and calls IOCTL_DISK_GROW_PARTITION",
			ask:  func(p *place) string { end, _ := p.growGPT(); return end },
		},
		{
			name:   "refused growth",
			asks:   "With which error is growth beyond that range refused?",
			does:   "the same",
			expect: []string{"ERROR_INVALID_PARAMETER", "ERROR_GEN_FAILURE", "ERROR_IO_DEVICE", "ERROR_DISK_FULL"},
			change: "the error joins those after which the table is written and the growth tried again",
			ask: func(p *place) string {
				end, err := p.growGPT()
				if end == behavior.GPTEndMoves {
					p.Skip("it is not refused here")
				}
				if code, ok := win32.Code(err); ok {
					return code.Name()
				}
				return err.Error()
			},
		},
		{
			name:   "length of a grown volume",
			asks:   "When does a volume have the new length of its partition?",
			does:   "grows a partition into free space and reads the length of its volume, then again after IOCTL_VOLUME_UPDATE_PROPERTIES",
			expect: []string{"updated", "follows"}, change: "ResizeVolume needs another call before the file system grows",
			ask: volumeGrowth,
		},
		{
			name: "volume of a read-only disk", option: "writeProtected",
			asks: "Does an NTFS volume on a write-protected disk open for writing?",
			does: "attaches a formatted disk read-only and opens its volume for reading and writing",
			ask:  writeProtected,
		},
		{
			name: "write protection", option: "isWritable",
			asks: "Of which disks does IOCTL_DISK_IS_WRITABLE say that they are write-protected?",
			does: "sets the read-only attribute of a disk of its own, asks, and clears it",
			ask:  isWritable,
		},
		{
			name: "order of a format", option: "formatOrder", format: true,
			asks: "What does a format write first, and so leave if it is cut off?",
			does: "formats a volume of its own whose first and last sectors are zero, and reads them through the disk until the format ends",
			ask:  formatOrder,
		},
		{
			name: "reading an offline disk", option: "offlineReads",
			asks: "Can an offline disk be read?",
			does: "takes a blank disk offline and reads its first sectors",
			ask:  readOffline,
		},
		{
			name: "mount point of a removed disk", option: "goneMountPoint",
			asks: "Can a volume be unmounted whose disk was removed?",
			does: "mounts a volume, detaches its disk, and calls DeleteVolumeMountPoint",
			ask:  goneMountPoint,
		},
		{
			name: "new GPT", option: "newGPT",
			asks: "Does IOCTL_DISK_CREATE_DISK add a Microsoft reserved partition?",
			does: "calls it on a blank disk and reads the layout",
			ask:  newGPT,
		},
		{
			name: "symbolic links", first: 10 * time.Second,
			asks:   "Is the privilege to make symbolic links enabled for an elevated administrator?",
			does:   "makes a link with FSCTL_SET_REPARSE_POINT, without enabling the privilege",
			expect: []string{"disabled", "enabled"}, change: "making a link enables another privilege",
			ask: symbolicLinks,
		},
		{
			name: "failed mapping", option: "smbErrors",
			asks: "Does the error of a failed SMB mapping say why it failed?",
			does: "maps a share of a server that does not exist, through WMI",
			ask:  failedMapping,
		},
		{
			name: "user of a mapping", option: "smbUsers", settings: true,
			asks: "Does the list of SMB mappings say whose credentials a mapping has?",
			does: "makes a local account and a share of its own, maps it through WMI, and lists the mappings",
			ask:  userOfMapping,
		},
		{
			name: "logon beside a mapping", settings: true,
			asks:   "Does a logon to a server find out about a password while a share of it is mapped?",
			does:   "makes a local account and a share of its own, maps it, and logs on with the right and a wrong password, with and without a domain",
			expect: []string{"with a domain: right accepted, wrong refused with 86; without: right accepted, wrong refused with 86", "with a domain: right accepted, wrong refused with 1326; without: right accepted, wrong refused with 1326"},
			change: "a mapping is replaced without a logon before it, or never while a pod uses it",
			ask:    logonBesideAMapping,
		},
		{
			name: "buffers of the iSCSI initiator", settings: true, windows: true,
			asks:   "Which status has a short buffer for persistent logins, and a removal without an initiator? Which sessions have no connection?",
			does:   "starts MSiSCSI, calls ReportIScsiPersistentLoginsW with 16 bytes, RemoveIScsiPersistentTargetW of a target that does not exist without an initiator, and lists the sessions; for the last part, switch a target off whose session is up",
			expect: []string{"0x7a in any facility, or 0; a status about the target; sessions of a target that is away"},
			change: "the status joins those that mean a short buffer; the initiator of the login is passed",
			ask:    iscsiBuffers,
		},
		{
			name: "both formats", windows: true,
			asks:   "Do both ways to format make the same file system?",
			does:   "formats volumes from 100 MiB to 32 TiB, in sectors of 512 and 4096 bytes, and compares FSCTL_GET_NTFS_VOLUME_DATA",
			expect: []string{"the same"}, change: "the format through fmifs.dll passes what WMI chooses",
			ask: bothFormats,
		},
		{
			name: "both mappings", settings: true, windows: true,
			asks:   "Does Get-SmbGlobalMapping list the mappings of both ways, encrypted? Does their link read, and does one way remove the other's?",
			does:   "makes a share, maps it in each way with a wrong and with the right password, reads the link, and removes the mapping in the other way",
			expect: []string{"true to each, status OK"}, change: "the way that does not is no longer chosen",
			ask: bothMappings,
		},
		{
			name: "disks of the machine", windows: true,
			asks:   "Are locations and serial numbers those that Get-Disk prints?",
			does:   "compares ListDiskLocations and ListDiskIDs with Get-Disk, for each disk of the machine",
			expect: []string{"the same for each bus"}, change: "they read that bus's disks in the way that Get-Disk does",
			ask: disksOfMachine,
		},
		{
			name: "partitions of ours", windows: true,
			asks:   "Does Get-Partition accept our partitions, and has the volume no letter?",
			does:   "partitions disks with sectors of 512 and 4096 bytes",
			expect: []string{"Reserved, and Basic from 16 MiB without a letter"}, change: "PartitionDisk makes what New-Partition makes",
			ask: partitionsOfOurs,
		},
		{
			name: "largest size", windows: true,
			asks:   "Does ResizeVolume choose the size that Windows offers?",
			does:   "grows a disk, asks Get-PartitionSupportedSize, and grows the volume",
			expect: []string{"yes, to 2 MiB; the file system fills it"}, change: "ResizeVolume leaves the room that Windows leaves",
			ask: largestSize,
		},
		{
			name: "another file system", windows: true,
			asks:   "Does a ReFS volume count as formatted, and is it kept?",
			does:   "formats a volume by Format-Volume, and calls IsVolumeFormatted and FormatVolume",
			expect: []string{"formatted true, and FormatVolume refuses it"}, change: "the file system is asked for in another way",
			ask: volumeOfReFS,
		},
		{
			name: "login to a target", settings: true, windows: true,
			asks:   "Are our sessions persistent, when do their disks arrive, and what is a wrong secret?",
			does:   "logs in to the target of -iscsi-target twice, and out",
			expect: []string{"a wrong secret is one true, discovered true, its disks, persistent as Get-IscsiSession prints"}, change: "a login says whether it is persistent",
			ask: loginToTarget,
		},
	}
}

// notAsked are the options of the simulated node that no question is about, and why.
var notAsked = map[string]string{
	"sanPolicy":      "a virtual disk is on a bus that machines do not share, so the policy for shared buses does not show",
	"attach":         "Windows attaches a virtual disk itself, so it needs no rescan",
	"shareNames":     "needs a share with a directory that its user may not list",
	"smbServerGone":  "needs an SMB server that can be switched off",
	"newDisks":       "depends on the other programs of the machine, such as scanners and backup agents",
	"newVolumes":     "how much later depends on the machine; the time until WMI knows a new volume is asked",
	"filterTags":     "needs a filter driver, such as that of deduplication",
	"iscsiDiscovery": "needs an iSCSI target that can be switched off",
	"smbCalls":       "needs an SMB server that can be switched off",
	"smbAfterReboot": "needs a restart of Windows, and the services heed each value",
	"diskNumbers":    "needs a restart of Windows, and the services heed each value",
}

// runQuestions asks each question in a test of its own. The answer is the attribute
// "answer" of the test.
func runQuestions(t *testing.T, o options) {
	for _, q := range questions() {
		t.Run(q.name, func(t *testing.T) {
			switch {
			case q.settings && !o.MachineSettings:
				t.Skip("changes a setting of the machine: needs -machine-settings")
			case o.Wine && q.windows:
				t.Skip("needs Windows: Wine checks no rights and has no part of this")
			case o.Wine && !q.pipes:
				t.Skip("needs Windows: " + wineLacks)
			case q.pipes && o.Simulated:
				t.Skip("needs Windows: a simulated node has sockets in place of pipes")
			case q.windows && o.Simulated:
				t.Skip("needs Windows: a simulated node has no such thing")
			}
			answer := q.ask(newPlaceOn(t, o, backends[0], q.format))
			t.Attr("answer", strings.ReplaceAll(answer, "\n", " "))
			checkAnswer(t, q, answer)
		})
	}
}

// checkAnswer fails the test if no simulated node can behave as the answer says.
func checkAnswer(t *testing.T, q question, answer string) {
	t.Helper()
	i := slices.IndexFunc(behavior.All(), func(o behavior.Option) bool { return o.Key == q.option })
	if i >= 0 && !slices.ContainsFunc(behavior.All()[i].Values, func(v behavior.Value) bool { return v.Name == answer }) {
		t.Errorf("the answer %q is none that the simulated node can have", answer)
	}
}

const gib = 1 << 30

// need ends the test on an error.
func (p *place) need(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// onDisk calls f with an open disk.
func (p *place) onDisk(number uint32, f func(context.Context, *storage.Disk) error) {
	p.Helper()
	d, err := storage.OpenDisk(p.Context(), p.node, number, win32.GENERIC_READ|win32.GENERIC_WRITE)
	p.need(err)
	defer d.Close()
	p.need(f(p.Context(), d))
}

// openVolume opens a volume by any of its names, without a final backslash. It waits for
// it.
func (p *place) openVolume(path string, access uint32) win32.Handle {
	p.Helper()
	var h win32.Handle
	p.need(p.wait(func() (err error) {
		h, err = p.node.API.CreateFile(path, access, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
		return err
	}))
	p.Cleanup(func() { p.node.API.CloseHandle(h) })
	return h
}

// wait calls f until it succeeds, for at most half a minute.
func (p *place) wait(f func() error) error {
	pace := node.Pace{Pause: 5 * time.Millisecond, Longest: 500 * time.Millisecond, Limit: 30 * time.Second}
	return node.Poll(p.Context(), p.node.Clock, pace, func() (bool, error) {
		err := f()
		return err == nil, err
	})
}

func blankDisk(p *place) (answer string) {
	p.onDisk(p.attach(conformance.Disk{Size: gib}), func(ctx context.Context, d *storage.Disk) error {
		l, err := d.Layout(ctx)
		used := storage.Used(l)
		switch {
		case err != nil:
			return err
		case l.Style == win32.PARTITION_STYLE_RAW:
			answer = behavior.BlankRaw
		case l.Style == win32.PARTITION_STYLE_MBR && l.Signature == 0 && len(used) == 0:
			answer = behavior.BlankMBR
		case l.Style == win32.PARTITION_STYLE_MBR && l.Signature <= 1 && storage.Uninitialized(l):
			answer = behavior.BlankSuperfloppy
		default:
			answer = fmt.Sprintf("style %d, signature %#x, %d entries: %+v", l.Style, l.Signature, len(l.Partitions), l.Partitions)
		}
		return nil
	})
	return answer
}

func newGPT(p *place) (answer string) {
	p.onDisk(p.attach(conformance.Disk{Size: gib}), func(ctx context.Context, d *storage.Disk) error {
		l, err := p.createGPT(ctx, d)
		answer = behavior.NewGPTBare
		if slices.ContainsFunc(l.Partitions, func(p win32.Partition) bool { return p.Type == win32.PARTITION_MSFT_RESERVED_GUID }) {
			answer = behavior.NewGPTMSR
		}
		return err
	})
	return answer
}

func (p *place) createGPT(ctx context.Context, d *storage.Disk) (win32.Layout, error) {
	id, err := storage.NewID(p.node.Rand)
	if err != nil {
		return win32.Layout{}, err
	}
	if err := errors.Join(d.MakeUsable(ctx, storage.Passing), d.CreateGPT(ctx, id)); err != nil {
		return win32.Layout{}, err
	}
	return d.Layout(ctx)
}

// partition makes a partition on a new disk of 2 GiB, in its first size bytes, with
// control codes only. It returns the number of the disk, the partition as Windows then
// has it, and a path of its volume.
func (p *place) partition(size uint64) (number uint32, made win32.Partition, path string) {
	p.Helper()
	number = p.attach(conformance.Disk{Size: 2 * gib})
	p.onDisk(number, func(ctx context.Context, d *storage.Disk) error {
		l, err := p.createGPT(ctx, d)
		if err != nil {
			return err
		}
		l, offset, err := storage.AddPartition(l, size, 512, p.node.Rand)
		if err != nil {
			return err
		}
		if err := errors.Join(d.SetLayout(ctx, l), d.UpdateProperties(ctx)); err != nil {
			return err
		}
		if l, err = d.Layout(ctx); err != nil {
			return err
		}
		var ok bool
		if made, ok = storage.At(l, offset); !ok {
			return fmt.Errorf("the new partition is not in the layout: %+v", l)
		}
		return nil
	})
	return number, made, fmt.Sprintf(`\\?\Harddisk%dPartition%d`, number, made.Number)
}

// newVolume makes a volume, and says whether the node mounts new volumes.
func (p *place) newVolume() (h win32.Handle, automount string) {
	p.Helper()
	_, _, path := p.partition(2 * gib)
	h = p.openVolume(path, 0)
	_, err := p.node.API.DeviceIoControl(h, win32.IOCTL_VOLUME_IS_OFFLINE, nil, nil)
	switch {
	case err == nil:
		return h, nodespec.AutomountDisabled
	case win32.IsCode(err, win32.ERROR_GEN_FAILURE):
		return h, nodespec.AutomountEnabled
	}
	return h, "IOCTL_VOLUME_IS_OFFLINE fails: " + err.Error()
}

// data attaches a disk with a formatted volume.
func (p *place) data(d conformance.Disk) (number uint32, id string) {
	p.Helper()
	d.Size, d.Content, d.Partitions = gib, nodespec.ContentGPT, []conformance.Partition{{FileSystem: "NTFS"}}
	number = p.attach(d)
	list, err := p.services.Volume.ListVolumesOnDisk(p.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	p.need(err)
	if len(list.VolumeIDs) != 1 {
		p.Fatalf("volumes of a disk with one: %q", list.VolumeIDs)
	}
	return number, list.VolumeIDs[0]
}

func (p *place) directory(name string) string {
	p.Helper()
	path := p.dir + `\` + name
	_, err := p.services.Filesystem.Mkdir(p.Context(), &filesystem.MkdirRequest{Path: path})
	p.need(err)
	return path
}

func offlineVolume(p *place) string {
	_, id := p.data(conformance.Disk{})
	path := strings.TrimSuffix(id, `\`)
	h := p.openVolume(path, win32.GENERIC_READ|win32.GENERIC_WRITE)
	if _, err := p.node.API.DeviceIoControl(h, win32.IOCTL_VOLUME_OFFLINE, nil, nil); err != nil {
		return "IOCTL_VOLUME_OFFLINE fails: " + err.Error()
	}
	_, err := p.node.API.DeviceIoControl(p.openVolume(path, 0), win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, make([]byte, 1024))
	if _, back := p.node.API.DeviceIoControl(h, win32.IOCTL_VOLUME_ONLINE, nil, nil); back != nil {
		p.Errorf("back online: %v", back)
	}
	switch {
	case err == nil:
		return behavior.OfflineLocated
	case win32.IsCode(err, win32.ERROR_NOT_READY):
		return behavior.OfflineSilent
	}
	return err.Error()
}

func mountOpens(p *place) string {
	_, id := p.data(conformance.Disk{})
	target := p.directory("target")
	h, err := p.node.API.NtCreateFile(0, `\??\`+target, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, 0,
		win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.FILE_OPEN, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
	p.need(err)
	err = p.node.API.SetMountPoint(target+`\`, id)
	p.need(p.node.API.CloseHandle(h))
	if err == nil {
		p.need(p.node.API.DeleteMountPoint(target + `\`))
		return "sharing"
	}
	if win32.IsCode(err, win32.ERROR_SHARING_VIOLATION) {
		return "alone"
	}
	return err.Error()
}

// formatKnows calls the host's format, without the service's waiting.
func formatKnows(p *place) string {
	_, id := p.newVolumeName()
	first := p.node.API.Format(id, win32.FormatOptions{})
	switch {
	case first == nil:
		return behavior.FormatAtOnce
	case win32.IsCode(first, win32.ERROR_SERVICE_DISABLED):
		return behavior.FormatNever
	}
	p.need(p.node.API.UpdateStorageCache())
	if err := p.wait(func() error { return p.node.API.Format(id, win32.FormatOptions{}) }); err != nil {
		return fmt.Sprintf("%v, and after the update %v", first, err)
	}
	switch {
	case win32.IsCode(first, win32.ERROR_INVALID_PARAMETER):
		return behavior.FormatRefuses
	case win32.IsCode(first, win32.ERROR_NOT_READY):
		return behavior.FormatUpdated
	}
	return "known after the update; before: " + first.Error()
}

// newVolumeName makes a volume with control codes, brings it online, and returns its name.
func (p *place) newVolumeName() (number uint32, id string) {
	p.Helper()
	number, _, path := p.partition(2 * gib)
	h := p.openVolume(path, win32.GENERIC_READ|win32.GENERIC_WRITE)
	if _, err := p.node.API.DeviceIoControl(h, win32.IOCTL_VOLUME_IS_OFFLINE, nil, nil); err == nil {
		_, err := p.node.API.DeviceIoControl(h, win32.IOCTL_VOLUME_ONLINE, nil, nil)
		p.need(err)
	}
	p.need(p.node.API.CloseHandle(h))
	list, err := p.services.Volume.ListVolumesOnDisk(p.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	p.need(err)
	if len(list.VolumeIDs) != 1 {
		p.Fatalf("volumes of a new partition: %q", list.VolumeIDs)
	}
	return number, list.VolumeIDs[0]
}

// growGPT grows a disk and then its partition. It returns whether the usable range moved,
// and the error of growing the partition.
func (p *place) growGPT() (end string, refused error) {
	number := p.attach(conformance.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []conformance.Partition{{}}})
	p.need(p.Grow(number, 2*gib))
	end = behavior.GPTEndMoves
	p.onDisk(number, func(ctx context.Context, d *storage.Disk) error {
		if err := errors.Join(d.UpdateSize(ctx), d.UpdateProperties(ctx)); err != nil {
			return err
		}
		l, err := d.Layout(ctx)
		if err != nil {
			return err
		}
		data, ok := storage.SingleData(l)
		if !ok {
			return fmt.Errorf("no data partition in %+v", l)
		}
		if refused = d.WithoutRetry().Grow(ctx, data.Number, gib/2); refused != nil {
			end = behavior.GPTEndStays
		}
		return nil
	})
	return end, refused
}

func volumeGrowth(p *place) string {
	number, part, path := p.partition(gib)
	w := p.openVolume(path, win32.GENERIC_READ|win32.GENERIC_WRITE)
	if _, err := p.node.API.DeviceIoControl(w, win32.IOCTL_VOLUME_IS_OFFLINE, nil, nil); err == nil {
		_, err := p.node.API.DeviceIoControl(w, win32.IOCTL_VOLUME_ONLINE, nil, nil)
		p.need(err)
	}
	length := func() uint64 {
		out := make([]byte, 8)
		n, err := p.node.API.DeviceIoControl(w, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, out)
		p.need(err)
		bytes, err := win32.DecodeLength(out[:n])
		p.need(err)
		return bytes
	}
	before := length()
	p.onDisk(number, func(ctx context.Context, d *storage.Disk) error { return d.Grow(ctx, part.Number, gib/2) })
	if length() == before+gib/2 {
		return "follows"
	}
	if _, err := p.node.API.DeviceIoControl(w, win32.IOCTL_VOLUME_UPDATE_PROPERTIES, nil, nil); err != nil {
		return "IOCTL_VOLUME_UPDATE_PROPERTIES fails: " + err.Error()
	}
	if length() == before+gib/2 {
		return "updated"
	}
	return "not after IOCTL_VOLUME_UPDATE_PROPERTIES"
}

func writeProtected(p *place) string {
	_, id := p.data(conformance.Disk{WriteProtected: true})
	h, err := p.node.API.CreateFile(strings.TrimSuffix(id, `\`), win32.GENERIC_READ|win32.GENERIC_WRITE,
		win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
	if err == nil {
		p.need(p.node.API.CloseHandle(h))
		return behavior.WriteProtectedOpens
	}
	if win32.IsCode(err, win32.ERROR_WRITE_PROTECT) {
		return behavior.WriteProtectedRefused
	}
	return err.Error()
}

func isWritable(p *place) (answer string) {
	p.onDisk(p.attach(conformance.Disk{Size: gib}), func(ctx context.Context, d *storage.Disk) error {
		if err := d.SetAttributes(ctx, win32.DISK_ATTRIBUTE_READ_ONLY, win32.DISK_ATTRIBUTE_READ_ONLY, storage.Passing); err != nil {
			return err
		}
		protected, err := d.WriteProtected(ctx)
		answer = behavior.WritableMedium
		if protected {
			answer = behavior.WritableAttributes
		}
		return errors.Join(err, d.SetAttributes(ctx, 0, win32.DISK_ATTRIBUTE_READ_ONLY, storage.Passing))
	})
	return answer
}

// formatOrder reads the boot sector, the rest of the first MiB and the copy of the boot
// sector, until one of them is not zero. The volume is on a new disk, so all were zero.
func formatOrder(p *place) string {
	number, id := p.newVolumeName()
	p.need(p.node.API.UpdateStorageCache())
	var part win32.Partition
	p.onDisk(number, func(ctx context.Context, d *storage.Disk) error {
		l, err := d.Layout(ctx)
		var ok bool
		if part, ok = storage.SingleData(l); !ok {
			err = errors.Join(err, fmt.Errorf("no data partition in %+v", l))
		}
		return err
	})
	h := p.openVolume(fmt.Sprintf(`\\.\PhysicalDrive%d`, number), win32.GENERIC_READ)
	written := func(at, length uint64) bool {
		b := make([]byte, length)
		_, err := p.node.API.ReadAt(h, b, int64(part.Offset+at))
		p.need(err)
		return slices.ContainsFunc(b, func(c byte) bool { return c != 0 })
	}
	const boot, sector = 8 << 10, 4 << 10
	look := func() [3]bool {
		return [3]bool{written(0, boot), written(boot, 1<<20-boot), written(part.Length-sector, sector)}
	}
	if look() != [3]bool{} {
		p.Fatal("a new disk is not zero")
	}
	end := make(chan error, 1)
	go func() {
		end <- p.wait(func() error {
			return p.node.API.Format(id, win32.FormatOptions{})
		})
	}()
	var first [3]bool
	for {
		select {
		case err := <-end:
			p.need(err)
			return behavior.FormatAtEnd
		default:
		}
		if first = look(); first != [3]bool{} && first == look() {
			break // what is written at once is seen in part by a look
		}
	}
	p.need(<-end)
	switch first {
	case [3]bool{0: true}:
		return behavior.FormatBootFirst
	case [3]bool{2: true}:
		return behavior.FormatBackupFirst
	case [3]bool{1: true}:
		return behavior.FormatHalf
	case [3]bool{1: true, 2: true}:
		return behavior.FormatBootLast
	case [3]bool{true, true, true}:
		return behavior.FormatAtEnd
	}
	return fmt.Sprintf("another order: boot sector %t, rest of the first MiB %t, copy of the boot sector %t", first[0], first[1], first[2])
}

func readOffline(p *place) (answer string) {
	number := p.attach(conformance.Disk{Size: gib})
	path := fmt.Sprintf(`\\.\PhysicalDrive%d`, number)
	p.onDisk(number, func(ctx context.Context, d *storage.Disk) error {
		return d.SetAttributes(ctx, win32.DISK_ATTRIBUTE_OFFLINE, win32.DISK_ATTRIBUTE_OFFLINE, storage.Passing)
	})
	h := p.openVolume(path, win32.GENERIC_READ)
	if _, err := p.node.API.ReadAt(h, make([]byte, 4096), 0); err != nil {
		if win32.IsCode(err, win32.ERROR_NOT_READY) {
			return behavior.OfflineReadsRefused
		}
		return err.Error()
	}
	return behavior.OfflineReadsAllowed
}

// goneMountPoint looks at the directory afterwards: what the call returns does not say
// whether the mount point is gone.
func goneMountPoint(p *place) string {
	number, id := p.data(conformance.Disk{})
	target := p.directory("target")
	p.need(p.node.API.SetMountPoint(target+`\`, id))
	_, err := p.Detach(number)
	p.need(err)
	err = p.node.API.DeleteMountPoint(target + `\`)
	_, left, lookErr := winfs.Readlink(p.Context(), p.node, target)
	p.need(lookErr)
	switch {
	case err == nil && !left:
		return behavior.GoneMountPointRemoved
	case win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND) && left:
		return behavior.GoneMountPointRefused
	}
	return fmt.Sprintf("error %v, mount point left: %t", err, left)
}

func symbolicLinks(p *place) string {
	const openReparse = win32.FILE_SYNCHRONOUS_IO_NONALERT | win32.FILE_OPEN_REPARSE_POINT | win32.FILE_DIRECTORY_FILE
	h, err := p.node.API.NtCreateFile(0, `\??\`+p.dir+`\link`, win32.DELETE|win32.FILE_WRITE_ATTRIBUTES|win32.SYNCHRONIZE, 0,
		0, win32.FILE_CREATE, openReparse)
	p.need(err)
	defer p.node.API.CloseHandle(h)
	link := win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: `\??\` + p.dir, Print: p.dir}.Encode()
	_, err = p.node.API.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, link, nil)
	if err == nil {
		return "enabled"
	}
	if !win32.IsCode(err, win32.ERROR_PRIVILEGE_NOT_HELD) {
		return err.Error()
	}
	err = p.node.API.WithPrivilege(win32.SE_CREATE_SYMBOLIC_LINK_NAME, func(api win32.API) error {
		_, err := api.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, link, nil)
		return err
	})
	if err != nil {
		return "not held: " + err.Error()
	}
	return "disabled"
}

func userOfMapping(p *place) string {
	s := p.mapShare()
	all, err := p.node.API.UseEnum()
	p.need(errors.Join(err, p.node.API.UseDel(s.remote)))
	switch i := slices.IndexFunc(all, func(u win32.Use) bool { return strings.EqualFold(u.Remote, s.remote) }); {
	case i < 0:
		return "the mapping is not listed"
	case all[i].User == "":
		return behavior.SMBUsersHidden
	}
	return behavior.SMBUsersShown
}

func failedMapping(p *place) string {
	const nowhere = `\\csi-proxy-verify.invalid\share`
	err := p.node.API.UseAdd(win32.NewUse{Remote: nowhere, User: "nobody", Domain: "invalid", Password: win32.NewSecret("wrong"), Flags: win32.REQUIRE_CONNECTION_PRIVACY})
	if err == nil {
		p.need(p.node.API.UseDel(nowhere))
		p.Fatal("a share of a server that does not exist was mapped")
	}
	p.Logf("the error: %v", err)
	if win32.IsCode(err, win32.ERROR_GEN_FAILURE) {
		return behavior.SMBErrorsBare
	}
	return behavior.SMBErrorsNumbered
}

// mapShare maps a share that the node can reach.
func (p *place) mapShare() share {
	p.Helper()
	s, err := p.Share()
	p.need(err)
	p.need(p.KeepMapping(s.remote))
	p.need(p.node.API.UseAdd(win32.NewUse{
		Remote: s.remote, User: s.user, Domain: s.domain, Password: win32.NewSecret(s.password), Flags: win32.REQUIRE_CONNECTION_PRIVACY,
	}))
	return s
}
