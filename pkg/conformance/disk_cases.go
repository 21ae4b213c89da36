package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)

// foreign returns signatures of file systems and formats that Windows does not
// know, each at its offset.
func foreign() map[string][]Bytes {
	return map[string][]Bytes{
		"ext4":                 {{At: 0x400, Data: []byte{16}}, {At: 0x438, Data: []byte("\x53\xef")}, {At: 0x45c, Data: []byte{4}}, {At: 0x460, Data: []byte{0x42}}},
		"XFS":                  {{At: 0, Data: []byte("XFSB")}},
		"LUKS":                 {{At: 0, Data: []byte("LUKS\xba\xbe")}},
		"LVM2 physical volume": {{At: 512, Data: []byte("LABELONE")}, {At: 0x218, Data: []byte("LVM2 001")}},
		"Linux swap":           {{At: 4086, Data: []byte("SWAPSPACE2")}},
		"btrfs":                {{At: 0x10040, Data: []byte("_BHRfS_M")}},
		"BitLocker":            {{At: 3, Data: []byte("-FVE-FS-")}},
	}
}

// protective returns the protective MBR of a GPT.
func protective() Bytes {
	sector := make([]byte, 512)
	sector[446+4], sector[446+8] = 0xEE, 1
	copy(sector[446+12:], "\xff\xff\xff\xff")
	sector[510], sector[511] = 0x55, 0xaa
	return Bytes{At: 0, Data: sector}
}

func partitionCases() []testCase {
	// partitioned partitions a disk and checks the result.
	partitioned := func(e *env, number uint32) string {
		e.Helper()
		e.ok(e.partition(number))
		id := e.volume(number)
		e.wantOnline(number, true)
		e.wantFormatted(id, false)
		if got, err := e.diskOf(id); err != nil || got != number {
			e.Errorf("the volume's disk: %d, %v, want %d", got, err, number)
		}
		return id
	}
	// again checks that the call can be repeated, as after a lost response.
	again := func(e *env, number uint32, id string) {
		e.Helper()
		e.ok(e.partition(number))
		if got := e.volume(number); got != id {
			e.Errorf("after a second PartitionDisk the disk has volume %s, want %s", got, id)
		}
	}
	becomes := func(d Disk) func(*env) {
		return func(e *env) {
			number := e.attach(d)
			again(e, number, partitioned(e, number))
		}
	}
	kept := func(d Disk, volumes int) func(*env) {
		return func(e *env) {
			number := e.attach(d)
			before := e.list(number, 0)
			if len(before) != volumes {
				e.Fatalf("disk %d has the volumes %q, want %d", number, before, volumes)
			}
			e.ok(e.partition(number))
			if after := e.list(number, 0); fmt.Sprint(after) != fmt.Sprint(before) {
				e.Errorf("the volumes changed from %q to %q", before, after)
			}
		}
	}
	refused := func(d Disk, texts ...string) func(*env) {
		return func(e *env) {
			number := e.attach(d)
			tables, layouts := e.count("DeviceIoControl", createDisk), e.count("DeviceIoControl", setLayout)
			for range 2 {
				e.want("PartitionDisk", e.partition(number), hosterr.ErrFailedPrecondition, texts...)
			}
			if tables()+layouts() != 0 {
				e.Error("the disk was written to")
			}
		}
	}
	one := []Partition{{FileSystem: "NTFS"}}

	cases := []testCase{
		{name: "blank disk is partitioned", run: becomes(Disk{Size: 10 * gib})},
		{name: "small blank disk is partitioned", run: becomes(Disk{Size: 100 * mib})},
		{name: "4 MiB blank disk is partitioned", run: becomes(Disk{Size: 4 * mib})},
		{name: "blank disk with 4 KiB sectors is partitioned", run: becomes(Disk{Size: 10 * gib, SectorSize: 4096})},
		{name: "blank disk is partitioned when Windows adds a reserved partition itself", setup: Setup{World: nodespec.WorldKind}, run: becomes(Disk{Size: 10 * gib})},
		{name: "MBR disk without partitions is partitioned", run: becomes(Disk{Content: nodespec.ContentMBR, Size: gib})},
		{name: "GPT disk without partitions is partitioned", run: becomes(Disk{Content: nodespec.ContentGPTNoMSR, Size: gib})},
		{name: "GPT disk with only a reserved partition is partitioned", run: becomes(Disk{Content: nodespec.ContentGPT, Size: gib})},
		{name: "offline blank disk is partitioned", run: becomes(Disk{Size: gib, Offline: yes()})},
		{name: "read-only blank disk is partitioned", run: becomes(Disk{Size: gib, ReadOnly: yes()})},
		{name: "blank disk that SAN policy left offline and read-only is partitioned", setup: Setup{Windows: Windows{SANPolicy: nodespec.SANOfflineShared}}, run: becomes(Disk{Size: gib})},
		{name: "offline and read-only GPT disk without partitions is partitioned", run: becomes(Disk{Content: nodespec.ContentGPT, Size: gib, Offline: yes(), ReadOnly: yes()})},

		{name: "MBR disk with a partition is kept", run: kept(Disk{Content: nodespec.ContentMBR, Size: gib, Partitions: one}, 1)},
		{name: "GPT disk with a partition is kept", run: kept(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: one}, 1)},
		{name: "GPT disk with a partition and no reserved partition is kept", run: kept(Disk{Content: nodespec.ContentGPTNoMSR, Size: gib, Partitions: one}, 1)},
		{name: "disk with two partitions is kept", run: kept(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{Size: 100 * mib, FileSystem: "NTFS"}, {}}}, 2)},
		{name: "disk with only a recovery partition is kept", run: kept(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{Size: 100 * mib, Type: "recovery"}}}, 1)},
		{name: "GPT disk with a damaged header and an intact backup is kept", run: kept(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: one, Bytes: []Bytes{{At: 512, Data: make([]byte, 512)}}}, 1)},
		{name: "GPT disk with damaged header and entries and intact backups is kept", run: kept(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: one, Bytes: []Bytes{{At: 512, Data: make([]byte, 33*512)}}}, 1)},

		{name: "disk with unknown content is refused", run: refused(Disk{Size: gib, Bytes: []Bytes{{At: 4096, Data: []byte("left over")}}}, "unknown content at byte 4096")},
		{name: "disk with unknown content where the partition would begin is refused", run: refused(Disk{Size: gib, Bytes: []Bytes{{At: 16*mib + 4096, Data: []byte("left over")}}}, "unknown content")},
		{name: "disk with unknown content at its end is refused", run: refused(Disk{Size: gib, Bytes: []Bytes{{At: gib - 512, Data: []byte("left over")}}}, "unknown content")},
		{name: "disk with nothing left of its GPT but the protective MBR is refused", run: refused(Disk{Size: gib, Bytes: []Bytes{protective()}})},
		{name: "superfloppy is refused", run: refused(Disk{Content: nodespec.ContentSuperfloppy, Size: gib}, "NTFS")},
		{name: "offline superfloppy is refused", run: refused(Disk{Content: nodespec.ContentSuperfloppy, Size: gib, Offline: yes()}, "NTFS")},
	}
	for name, bytes := range sorted(foreign()) {
		cases = append(cases, testCase{name: "disk with " + name + " and no partition table is refused", run: refused(Disk{Size: gib, Bytes: bytes}, name)})
	}
	return append(cases,
		testCase{name: "disk larger than 2 TiB is partitioned and formatted", run: func(e *env) {
			id := partitioned(e, e.blank(3*tib))
			e.ok(e.format(id))
			e.wantTotal(id, 3*tib-16*mib)
		}},
		testCase{name: "disk wiped at its start with an old file system behind it is refused", run: func(e *env) {
			for name, marks := range sorted(foreign()) {
				for _, start := range []nodespec.Size{mib, 16 * mib} {
					d := Disk{Size: 2 * gib}
					for _, b := range marks {
						d.Bytes = append(d.Bytes, Bytes{At: start + b.At, Data: b.Data})
					}
					e.want("PartitionDisk of a disk with "+name, e.partition(e.attach(d)), hosterr.ErrFailedPrecondition, name)
				}
			}
		}},
		testCase{name: "offline disk with a partition stays offline", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: one, Offline: yes()})
			e.ok(e.partition(number))
			e.wantOnline(number, false)
			e.ok(e.setOnline(number, true))
			e.wantFormatted(e.volume(number), true)
		}},
		testCase{name: "write-protected disk is refused", run: func(e *env) {
			number := e.attach(Disk{Size: gib, WriteProtected: true})
			e.want("PartitionDisk", e.partition(number), hosterr.ErrFailedPrecondition)
		}},
		testCase{name: "system disk is kept", run: func(e *env) {
			before := e.list(e.n.SystemDisk, 0)
			tables, layouts := e.count("DeviceIoControl", createDisk), e.count("DeviceIoControl", setLayout)
			e.ok(e.partition(e.n.SystemDisk))
			if after := e.list(e.n.SystemDisk, 0); fmt.Sprint(after) != fmt.Sprint(before) || tables()+layouts() != 0 {
				e.Errorf("the volumes of the system disk changed from %q to %q, or its table was written", before, after)
			}
		}},
		testCase{name: "PartitionDisk waits for a volume that arrives late", setup: Setup{ArrivalDelay: 150 * time.Millisecond}, run: func(e *env) {
			number := e.blank(gib)
			again(e, number, partitioned(e, number))
		}},
		testCase{name: "retry finds a volume that arrives late", setup: Setup{ArrivalDelay: 400 * time.Millisecond}, run: func(e *env) {
			number := e.blank(gib)
			looks := e.fail(Fault{Call: "CreateFile", Path: fmt.Sprintf("Harddisk%dPartition", number), Delay: time.Hour, Times: 1})
			ctx, cancel := context.WithCancel(e.ctx)
			first := make(chan error, 1)
			go func() { first <- e.with(ctx).partition(number) }()
			e.until("the volume is looked for", func() bool { return looks() == 1 })
			cancel()
			e.want("PartitionDisk after its caller left", <-first, context.Canceled)
			e.n.Heal()
			partitioned(e, number)
		}},
	)
}

// readOnlyCases test methods that no published version of the API has.
func readOnlyCases() []testCase {
	return []testCase{
		{name: "offline and read-only disk becomes writable and usable", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{}}, Offline: yes(), ReadOnly: yes()})
			e.wantReadOnly(number, true)
			e.ok(e.setReadOnly(number, false))
			e.wantReadOnly(number, false)
			e.wantOnline(number, false)
			e.ok(e.setOnline(number, true))
			e.ok(e.format(e.volume(number)))
		}},
		{name: "online disk becomes read-only and writable again", run: func(e *env) {
			number := e.blank(gib)
			e.ok(e.partition(number))
			for _, readOnly := range []bool{true, true, false, false} {
				e.ok(e.setReadOnly(number, readOnly))
				e.wantReadOnly(number, readOnly)
				e.wantOnline(number, true)
			}
		}},
		{name: "setting the current state makes no Windows call", run: func(e *env) {
			number := e.blank(gib)
			e.ok(e.partition(number))
			changes := e.count("DeviceIoControl", setAttributes)
			e.ok(e.setReadOnly(number, false))
			if changes() != 0 {
				e.Error("the attributes of a writable disk were set")
			}
		}},
		{name: "online disk that stays read-only is an error", run: func(e *env) {
			number := e.attach(Disk{Size: gib, WriteProtected: true})
			e.ok(e.setOnline(number, true))
			e.want("SetDiskReadOnly", e.setReadOnly(number, false), hosterr.ErrFailedPrecondition)
			e.wantReadOnly(number, true)
		}},
		{name: "system disk stays writable", run: func(e *env) {
			e.want("SetDiskReadOnly", e.setReadOnly(e.n.SystemDisk, true), hosterr.ErrFailedPrecondition)
			e.wantReadOnly(e.n.SystemDisk, false)
		}},
	}
}

func stateCases() []testCase {
	return []testCase{
		{name: "disk goes offline and online again", run: func(e *env) {
			number, id := e.data(gib)
			for _, online := range []bool{true, false, false, true, true} {
				e.ok(e.setOnline(number, online))
				e.wantOnline(number, online)
			}
			if got := e.volume(number); got != id {
				e.Errorf("online again, the disk has volume %s, want %s", got, id)
			}
			e.wantFormatted(id, true)
		}},
		{name: "setting the current state makes no Windows call", run: func(e *env) {
			number := e.blank(gib)
			e.ok(e.setOnline(number, true))
			changes := e.count("DeviceIoControl", setAttributes)
			e.ok(e.setOnline(number, true))
			if changes() != 0 {
				e.Error("the attributes of an online disk were set")
			}
		}},
		{name: "disk that is offline and read-only is writable when it goes online", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{}}, Offline: yes(), ReadOnly: yes()})
			e.ok(e.setOnline(number, true))
			e.wantOnline(number, true)
			e.ok(e.format(e.volume(number)))
		}},
		{name: "SetDiskState waits for a volume that arrives late", setup: Setup{ArrivalDelay: 150 * time.Millisecond}, run: func(e *env) {
			number := e.blank(gib)
			e.ok(e.partition(number))
			e.ok(e.setOnline(number, false))
			e.ok(e.setOnline(number, true))
			e.volume(number)
		}},
		{name: "offline disk is listed with its serial number and size", run: func(e *env) {
			number := e.attach(Disk{Size: gib, Offline: yes(), Serial: "S"})
			e.wantOnline(number, false)
			if ids, err := e.ids(); err != nil || ids[number] == nil || ids[number].SerialNumber != "S" {
				e.Errorf("ListDiskIDs = %v, %v, want disk %d with its serial number", ids, err, number)
			}
			if size, err := e.size(number); err != nil || size != gib {
				e.Errorf("GetDiskStats = %d, %v, want %d", size, err, gib)
			}
		}},
		{name: "system disk stays online", run: func(e *env) {
			e.want("SetDiskState", e.setOnline(e.n.SystemDisk, false), hosterr.ErrFailedPrecondition)
			e.wantOnline(e.n.SystemDisk, true)
		}},
		{name: "request without a disk number leaves disk 0 online", run: func(e *env) {
			if e.n.SystemDisk != 0 {
				e.lacks("test this, because its system disk is not disk 0")
			}
			_, err := e.n.Disk.SetDiskState(e.ctx, &disk.SetDiskStateRequest{})
			e.want("SetDiskState", err, hosterr.ErrFailedPrecondition)
		}},
		{name: "disks with an EFI or recovery partition stay online", run: func(e *env) {
			for _, kind := range []string{"esp", "recovery"} {
				number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{Size: 100 * mib, Type: kind}}})
				e.want(kind, e.setOnline(number, false), hosterr.ErrFailedPrecondition)
				e.want(kind, e.setReadOnly(number, true), hosterr.ErrFailedPrecondition)
				e.wantOnline(number, true)
			}
		}},
		{name: "sizes are exact", run: func(e *env) {
			for _, size := range []uint64{4 * mib, 100 * mib, 10 * gib, 3 * tib} {
				number := e.blank(size)
				if got, err := e.size(number); err != nil || got != int64(size) {
					e.Errorf("GetDiskStats = %d, %v, want %d", got, err, size)
				}
			}
		}},
		{name: "grown disk has its new size after a rescan", run: func(e *env) {
			number := e.blank(gib)
			e.grow(number, 5*gib)
			if size, err := e.size(number); err != nil || size != gib {
				e.Errorf("before the rescan: %d, %v, want %d", size, err, gib)
			}
			e.ok(e.rescan())
			if size, err := e.size(number); err != nil || size != 5*gib {
				e.Errorf("after the rescan: %d, %v, want %d", size, err, 5*gib)
			}
		}},
		{name: "a disk that grew before it was partitioned is used whole", run: func(e *env) {
			number := e.blank(gib)
			e.fail(Fault{Call: "DeviceIoControl", Code: setLayout, Error: "ERROR_GEN_FAILURE", Times: 1})
			if err := e.partition(number); err == nil {
				e.Fatal("PartitionDisk succeeded without a partition")
			}
			e.grow(number, 3*gib) // it has the table by now
			e.ok(e.rescan())
			e.ok(e.partition(number))
			id := e.volume(number)
			e.ok(e.format(id))
			if got := e.total(id); got < 2900*mib {
				e.Errorf("the volume has %d bytes, want nearly %d", got, 3*gib)
			}
		}},
		{name: "missing disk is not found", run: func(e *env) {
			for _, number := range []uint32{77, 1000, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32} {
				for what, err := range map[string]error{
					"GetDiskStats": errOf(e.size(number)), "GetDiskState": errOf(e.online(number)), "PartitionDisk": e.partition(number),
					"SetDiskState": e.setOnline(number, false), "SetDiskState to online": e.setOnline(number, true),
					"SetDiskReadOnly": e.setReadOnly(number, true), "GetDiskReadOnly": errOf(e.readOnly(number)),
				} {
					e.wantText(what, err, hosterr.ErrNotFound, "not found")
				}
			}
		}},
		{name: "removed disk is not found", run: func(e *env) {
			number, id := e.data(gib)
			back := e.detach(number)
			e.want("SetDiskState", e.setOnline(number, true), hosterr.ErrNotFound)
			e.want("IsVolumeFormatted", errOf(e.formatted(id)), hosterr.ErrNotFound)
			e.ok(e.rescan())
			number = back()
			if got := e.volume(number); got != id {
				e.Errorf("attached again, the disk has volume %s, want %s", got, id)
			}
		}},
	}
}

func identityCases() []testCase {
	return []testCase{
		{name: "disk is listed with its identity and state", run: func(e *env) {
			number := e.attach(Disk{Size: 64 * mib, Bus: "nvme", Product: "MSFT NVMe Accelerator v1.0", Namespace: 2, Serial: "S", Identifiers: []Identifier{{CodeSet: "binary", Type: 2, Hex: "0011223344556677"}}})
			d := e.disk(number)
			if d.BusType != "NVMe" || d.SerialNumber != "S" || d.EUI64 != "0011223344556677" || d.NamespaceID != 2 || d.AzureLUN != "1" || !d.IsOnline || d.IsReadOnly || d.IsBoot || d.IsSystem || d.Unread != "" {
				e.Errorf("ListDisks has disk %d as %+v", number, d)
			}
			if d := e.disk(e.n.SystemDisk); !d.IsBoot || !d.IsSystem {
				e.Errorf("ListDisks has the disk of Windows as %+v", d)
			}
			e.ok(e.setOnline(number, false))
			if d := e.disk(number); d.IsOnline {
				e.Errorf("ListDisks has an offline disk as %+v", d)
			}
		}},
		{name: "disk is listed with the reason why it is offline", run: func(e *env) {
			if d := e.disk(e.attach(Disk{Size: 64 * mib, Offline: yes()})); d.IsOnline || d.OfflineReason == "" {
				e.Errorf("ListDisks has an offline disk as %+v", d)
			}
		}},
		{name: "disk is changed only if it has the expected identity", run: func(e *env) {
			shared := []Identifier{{CodeSet: "binary", Type: 3, Hex: "6000C29A1B"}}
			number := e.attach(Disk{Size: gib, Serial: "S", Identifiers: shared})
			e.attach(Disk{Size: gib, Serial: "T", Identifiers: shared})
			if e.disk(number).SerialNumber != "S" {
				e.Fatalf("disk %d has another serial number", number)
			}
			partition := func(identifiers ...string) error {
				_, err := e.n.Disk.PartitionDisk(e.ctx, &disk.PartitionDiskRequest{DiskNumber: number, Identity: &disk.DiskIdentity{Identifiers: identifiers}})
				return err
			}
			e.want("PartitionDisk of another disk", partition("T"), hosterr.ErrFailedPrecondition, "not the expected one")
			e.want("PartitionDisk of another disk that shares an identifier", partition("naa.6000c29a1b", "T"), hosterr.ErrFailedPrecondition, "not the expected one")
			e.want("PartitionDisk of a disk with an empty identifier", partition("S", ""), hosterr.ErrInvalid, "identifier 2 of 2 is empty")
			e.want("PartitionDisk of a disk without identifiers", partition(), hosterr.ErrInvalid, "has no identifiers")
			if ids := e.list(number, 0); len(ids) != 0 {
				e.Errorf("the disk has volumes %q, want none", ids)
			}
			e.ok(partition("S", "6000c29a1b"))
			e.volume(number)
		}},
		{name: "page 83h identifiers are read", run: func(e *env) {
			for _, c := range []struct {
				name string
				ids  []Identifier
				want string
			}{
				{"GCE SCSI disk: ASCII with its blanks", []Identifier{{CodeSet: "ascii", Type: 1, Text: "Google  persistent-disk-0"}}, "Google  persistent-disk-0"},
				{"binary as lower-case hex", []Identifier{{CodeSet: "binary", Type: 3, Hex: "6000C29A1B"}}, "6000c29a1b"},
				{"vendor-specific binary", []Identifier{{CodeSet: "binary", Hex: "4d53465420202020328d59b3"}}, "4d53465420202020328d59b3"},
				{"UTF-8 name is skipped", []Identifier{{CodeSet: "utf8", Type: 8, Text: "eui.0011223344556677"}, {CodeSet: "binary", Type: 2, Hex: "0011223344556677"}}, "0011223344556677"},
				{"only a UTF-8 name", []Identifier{{CodeSet: "utf8", Type: 8, Text: "naa.6000"}}, ""},
				{"identifiers of port and target are skipped", []Identifier{{CodeSet: "binary", Association: "port", Hex: "01"}, {CodeSet: "ascii", Association: "target", Text: "T"}, {CodeSet: "ascii", Text: "D"}}, "D"},
				{"first identifier is that of a group", []Identifier{{CodeSet: "binary", Type: 6, Hex: "00000001"}, {CodeSet: "binary", Type: 3, Hex: "61"}}, "00000001"},
				{"first identifier of any type of a disk", []Identifier{{CodeSet: "ascii", Type: 1, Text: "vendor"}, {CodeSet: "binary", Type: 3, Hex: "60"}}, "vendor"},
				{"trailing blanks are kept", []Identifier{{CodeSet: "ascii", Text: "id  "}}, "id  "},
			} {
				number := e.attach(Disk{Size: 64 * mib, Identifiers: c.ids})
				ids, err := e.ids()
				if err != nil || ids[number] == nil || ids[number].Page83 != c.want {
					e.Errorf("%s: ListDiskIDs = %v, %v, want %q", c.name, ids[number], err, c.want)
				}
			}
		}},
		{name: "serial numbers are read", run: func(e *env) {
			for _, c := range []struct{ name, bus, serial, want string }{
				{"EBS NVMe", "nvme", "vol0123456789abcdef0_00000001.", "vol0123456789abcdef0_00000001."},
				{"GCE NVMe", "nvme", "10CC_9636_B6E3_CE3B_0000_0000_0000_0000.", "10CC_9636_B6E3_CE3B_0000_0000_0000_0000."},
				{"VMware", "sas", "6000c2986b4ab5f1cb1c52a8ac5f9e1b", "6000c2986b4ab5f1cb1c52a8ac5f9e1b"},
				{"blanks at the ends are trimmed", "sata", "  WD-1234  ", "WD-1234"},
				{"blanks inside are kept", "sata", "A  B", "A  B"},
			} {
				number := e.attach(Disk{Size: 64 * mib, Bus: c.bus, Serial: c.serial})
				ids, err := e.ids()
				if err != nil || ids[number] == nil || ids[number].SerialNumber != c.want {
					e.Errorf("%s: ListDiskIDs = %v, %v, want %q", c.name, ids[number], err, c.want)
				}
			}
		}},
		{name: "locations are parsed", run: func(e *env) {
			address := &Address{Port: 2, Path: 1, Target: 3, Lun: 4}
			for _, c := range []struct {
				name, bus, text string
				address         *Address
				want            *disk.DiskLocation
			}{
				{"SCSI", "sas", "PCI Slot 3 : Adapter 0 : Port 0 : Target 1 : LUN 0", address, &disk.DiskLocation{Adapter: "0", Target: "1", LUNID: "0"}},
				{"SCSI on Azure", "scsi", "Integrated : Adapter 3 : Port 0 : Target 0 : LUN 1", nil, &disk.DiskLocation{Adapter: "3", Target: "0", LUNID: "1"}},
				{"SCSI on newer Azure", "scsi", "Integrated : Bus 0 : Device 63667 : Function 30747 : Adapter 3 : Port 0 : Target 0 : LUN 5", nil, &disk.DiskLocation{Adapter: "3", Bus: "0", Target: "0", LUNID: "5"}},
				{"virtio", "sas", "PCI Slot 0 : Bus 9 : Device 0 : Function 0 : Adapter 3 : Port 0 : Target 0 : LUN 0", nil, &disk.DiskLocation{Adapter: "3", Bus: "9", Target: "0", LUNID: "0"}},
				{"NVMe", "nvme", "Integrated : Bus 4 : Device 0 : Function 0 : Adapter 0", nil, &disk.DiskLocation{Adapter: "0", Bus: "4"}},
				{"words without a meaning", "scsi", "a b : c d : e f : g h : i j", address, &disk.DiskLocation{}},
				{"no pairs of words", "scsi", "a : b : c : d : e", address, &disk.DiskLocation{Adapter: "2", Target: "3", LUNID: "4"}},
				{"case and blanks matter", "scsi", "x : adapter 1 : TARGET 3 : Adapter  1 : LUN 2", address, &disk.DiskLocation{LUNID: "2"}},
				{"ATA: four parts", "ata", "PCI Slot 1 : Adapter 0 : Channel 1 : Device 0", address, nil},
				{"VHD: path of a file", "vhd", `C:\disks\data.vhdx`, address, nil},
				{"no text, but a SCSI address", "scsi", "", address, &disk.DiskLocation{Adapter: "2", Target: "3", LUNID: "4"}},
				{"no text, NVMe", "nvme", "", address, &disk.DiskLocation{Adapter: "2"}},
			} {
				number := e.attach(Disk{Size: 64 * mib, Bus: c.bus, Location: c.text, Address: c.address})
				all, err := e.locations()
				got := all[number]
				if err != nil || (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
					e.Errorf("%s: ListDiskLocations = %+v, %v, want %+v", c.name, got, err, c.want)
				}
			}
		}},
		{name: "disk that fails is skipped", run: func(e *env) {
			e.blank(gib)
			all, err := e.ids()
			e.ok(err)
			for _, f := range []Fault{
				{Call: "CreateFile", Error: "ERROR_ACCESS_DENIED", Times: 1},
				{Call: "CreateFile", Error: "ERROR_FILE_NOT_FOUND", Times: 1},
				{Call: "DeviceIoControl", Code: getDeviceNumber, Error: "ERROR_DEVICE_NOT_CONNECTED", Times: 1},
			} {
				hits := e.fail(f)
				if got, err := e.ids(); err != nil || len(got) != len(all)-1 || hits() != 1 {
					e.Errorf("%s fails with %s: ListDiskIDs = %d disks, %v, want all but one of %d", f.Call, f.Error, len(got), err, len(all))
				}
			}
		}},
		{name: "disk that does not support the query has empty identifiers", run: func(e *env) {
			number := e.attach(Disk{Size: gib, Serial: "S", Identifiers: []Identifier{{CodeSet: "ascii", Text: "P"}}})
			for _, failure := range []string{"ERROR_INVALID_FUNCTION", "ERROR_NOT_SUPPORTED", "ERROR_IO_DEVICE"} {
				e.fail(Fault{Call: "DeviceIoControl", Code: queryProperty, Error: failure})
				if ids, err := e.ids(); err != nil || ids[number] == nil || *ids[number] != (disk.DiskIDs{}) {
					e.Errorf("%s: ListDiskIDs = %v, %v, want disk %d with empty identifiers", failure, ids[number], err, number)
				}
				if _, err := e.locations(); err != nil {
					e.Errorf("%s: ListDiskLocations: %v", failure, err)
				}
				e.n.Heal()
			}
		}},
		{name: "attached disk is listed after a rescan", setup: Setup{Windows: Windows{Attach: nodespec.AttachRescan}}, run: func(e *env) {
			number := e.attachUnseen(Disk{Size: gib})
			if ids, err := e.ids(); err != nil || ids[number] != nil {
				e.Errorf("before the rescan: %v, %v, want no disk %d", ids[number], err, number)
			}
			e.arrives(number)
		}},
		{name: "removed disk is not listed", run: func(e *env) {
			number := e.attach(Disk{Size: gib, Address: &Address{Lun: 7}})
			e.detach(number)
			ids, err := e.ids()
			locations, errLocations := e.locations()
			if err != nil || errLocations != nil || ids[number] != nil || locations[number] != nil {
				e.Errorf("disk %d is listed: %v, %v, %v, %v", number, ids[number], locations[number], err, errLocations)
			}
		}},
		{name: "rescan waits for a disk that another program holds", setup: Setup{World: nodespec.WorldStrict}, run: func(e *env) {
			number := e.blank(gib)
			e.grow(number, 2*gib)
			e.ok(e.rescan())
			if size, err := e.size(number); err != nil || size != 2*gib {
				e.Errorf("GetDiskStats after the rescan = %d, %v, want %d", size, err, 2*gib)
			}
		}},
		{name: "rescan continues after a disk fails", run: func(e *env) {
			first, second := e.blank(gib), e.blank(gib)
			e.grow(first, 2*gib)
			e.grow(second, 2*gib)
			e.fail(Fault{Call: "DeviceIoControl", Code: updateSize, Error: "ERROR_IO_DEVICE", Times: 1})
			e.ok(e.rescan())
			// Windows decides which disk is updated first and fails.
			one, errOne := e.size(first)
			other, errOther := e.size(second)
			if err := errors.Join(errOne, errOther); err != nil || max(one, other) != 2*gib {
				e.Errorf("GetDiskStats = %d and %d, %v, want %d for one of them", one, other, err, 2*gib)
			}
		}},
		{name: "rescan that Windows refuses is an error", run: func(e *env) {
			e.fail(Fault{Call: "Reenumerate", Error: "ERROR_ACCESS_DENIED", Times: 1})
			e.want("Rescan", e.rescan(), hosterr.ErrPermissionDenied, "Access is denied.")
			e.ok(e.rescan())
		}},
	}
}
