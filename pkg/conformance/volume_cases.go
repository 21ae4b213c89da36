package conformance

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// sorted iterates over a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// nowhere is the ID of a volume that does not exist on any node.
const nowhere = `\\?\Volume{00000000-1111-2222-3333-444444444444}\`

func volumeCases() []testCase {
	return []testCase{
		{name: "volumes are listed in disk order or by partition", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{Size: 100 * mib}, {Size: 200 * mib, FileSystem: "NTFS"}, {}}})
			all := e.list(number, 0)
			if len(all) != 3 {
				e.Fatalf("volumes: %q, want three", all)
			}
			for i, id := range all { // partition 1 is the reserved partition
				if got := e.list(number, uint32(i)+2); len(got) != 1 || got[0] != id {
					e.Errorf("volumes of partition %d: %q, want %q", i+2, got, id)
				}
				if at, err := e.diskOf(id); err != nil || at != number {
					e.Errorf("disk of %s: %d, %v, want %d", id, at, err, number)
				}
			}
			e.wantFormatted(all[0], false)
			e.wantFormatted(all[1], true)
			for _, none := range []uint32{1, 5, math.MaxUint32} {
				if got := e.list(number, none); len(got) != 0 {
					e.Errorf("volumes of partition %d: %q, want none", none, got)
				}
			}
		}},
		{name: "blank disk and missing disk have no volumes", run: func(e *env) {
			for _, number := range []uint32{e.blank(gib), 77, math.MaxUint32} {
				for _, partition := range []uint32{0, 1} {
					if got := e.list(number, partition); len(got) != 0 {
						e.Errorf("volumes of disk %d: %q, want none", number, got)
					}
				}
			}
		}},
		{name: "offline disk has no volumes", run: func(e *env) {
			number, _ := e.data(gib)
			e.ok(e.setOnline(number, false))
			if got := e.list(number, 0); len(got) != 0 {
				e.Errorf("volumes: %q, want none", got)
			}
		}},
		{name: "superfloppy has one volume", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentSuperfloppy, Size: gib})
			id := e.volume(number)
			e.wantFormatted(id, true)
			e.wantTotal(id, gib)
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			e.wantMounted(dir, id)
			e.ok(e.unmount(id, dir))
		}},
		{name: "GPT disk with a damaged header and an intact backup has its volume", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{FileSystem: "NTFS"}}, Bytes: []Bytes{{At: 512, Data: make([]byte, 512)}}})
			id := e.volume(number)
			e.wantFormatted(id, true)
			e.ok(e.resize(id, 0))
			e.wantFormatted(e.volume(number), true)
		}},
		{name: "volume that spans two disks is listed on both and never changed", setup: Setup{Spanned: true}, run: func(e *env) {
			if len(e.n.Spanned) != 2 {
				e.lacks("provide a volume that spans disks")
			}
			id := e.volume(e.n.Spanned[0])
			if got := e.volume(e.n.Spanned[1]); got != id {
				e.Errorf("the second disk has volume %s, want %s", got, id)
			}
			if got, err := e.diskOf(id); err != nil || got != e.n.Spanned[0] {
				e.Errorf("disk of the volume: %d, %v, want %d, where it begins", got, err, e.n.Spanned[0])
			}
			for what, err := range map[string]error{"IsVolumeFormatted": errOf(e.formatted(id)), "FormatVolume": e.format(id), "ResizeVolume": e.resize(id, 0), "ResizeVolume to a size": e.resize(id, gib)} {
				e.want(what, err, hosterr.ErrFailedPrecondition)
			}
		}},
		{name: "volume IDs ignore case", run: func(e *env) {
			number, id := e.data(gib)
			upper := `\\?\VOLUME` + strings.ToUpper(strings.TrimPrefix(id, `\\?\Volume`))
			e.wantFormatted(upper, true)
			if got, err := e.diskOf(upper); err != nil || got != number {
				e.Errorf("disk of %s: %d, %v, want %d", upper, got, err, number)
			}
			dir := e.dir("m")
			e.ok(e.mount(upper, dir))
			e.ok(e.mount(id, dir))
			e.ok(e.unmount(upper, dir))
		}},
		{name: "unknown volume is not found", run: func(e *env) {
			_, real := e.data(gib)
			dir := e.dir("m")
			for _, id := range []string{
				nowhere, strings.TrimSuffix(real, `\`), real + `\`, real + "x", "x" + real, real + "\x00", "\x00", " " + real, real + "\n",
				`C:\`, `\\.\PhysicalDrive0`, `\\?\GLOBALROOT\Device\HarddiskVolume1\`, `\\?\Volume{}\`, `Volume`, "'; --", strings.Repeat("v", 1<<20),
			} {
				for what, err := range map[string]error{
					"IsVolumeFormatted": errOf(e.formatted(id)), "GetVolumeStats": errOf(e.stats(id)), "GetDiskNumberFromVolumeID": errOf(e.diskOf(id)), "FormatVolume": e.format(id),
					"ResizeVolume": e.resize(id, 0), "WriteVolumeCache": e.flush(id), "MountVolume": e.mount(id, dir),
				} {
					if len(id) > 1000 {
						// A pipe may refuse a request of this size.
						if !errors.Is(err, hosterr.ErrInvalid) {
							e.want(what+" of a very long text", err, hosterr.ErrNotFound)
						}
						continue
					}
					e.wantText(fmt.Sprintf("%s of %q", what, id), err, hosterr.ErrNotFound, "not found")
				}
			}
			e.wantLink(dir, false)
		}},
		{name: "cache of writable and read-only volumes is flushed", run: func(e *env) {
			_, id := e.data(gib)
			flushes := e.count("FlushFileBuffers", 0)
			e.ok(e.flush(id))
			if flushes() == 0 {
				e.Error("nothing was flushed")
			}
			e.ok(e.flush(id))
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{FileSystem: "NTFS"}}, ReadOnly: yes()})
			e.ok(e.flush(e.volume(number)))
			_, id = e.fresh(gib)
			e.ok(e.flush(id))
		}},
		{name: "cache that cannot be flushed is an error", run: func(e *env) {
			_, id := e.data(gib)
			e.fail(Fault{Call: "FlushFileBuffers", Error: "ERROR_IO_DEVICE", Times: 1})
			if err := e.flush(id); err == nil {
				e.Error("WriteVolumeCache succeeded although the Windows call failed")
			}
			e.ok(e.flush(id))
		}},
		{name: "stats count total and used bytes", run: func(e *env) {
			_, id := e.fresh(gib)
			if got, err := e.stats(id); got != (space{}) || err != nil {
				e.Errorf("without a file system: %+v, %v, want zeros", got, err)
			}
			e.ok(e.format(id))
			if got, err := e.stats(id); err != nil || got.used <= 0 || got.used >= got.total {
				e.Errorf("formatted: %+v, %v", got, err)
			}
			e.fail(Fault{Call: "FreeSpace", Error: "ERROR_IO_DEVICE", Times: 1})
			if _, err := e.stats(id); err == nil {
				e.Error("GetVolumeStats succeeded although the Windows call failed")
			}
		}},
		{name: "volume that arrives late is listed only when complete", setup: Setup{ArrivalDelay: 300 * time.Millisecond}, run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{FileSystem: "NTFS"}}})
			e.until("its volume arrives", func() bool { return len(e.list(number, 0)) == 1 })
			e.wantFormatted(e.volume(number), true)
		}},
		{name: "volume that fails while volumes are listed is skipped", run: func(e *env) {
			number, id := e.data(gib)
			hits := e.fail(Fault{Call: "DeviceIoControl", Code: volumeExtents, Error: "ERROR_NOT_READY", Times: 1})
			e.list(number, 0)
			if got := e.volume(number); got != id || hits() != 1 {
				e.Errorf("volume %s, want %s", got, id)
			}
		}},
	}
}

func formatCases() []testCase {
	cases := []testCase{
		{name: "repeated format succeeds and formats once", run: func(e *env) {
			_, id := e.fresh(gib)
			e.wantFormatted(id, false)
			e.ok(e.rescan()) // so that the first format knows the volume
			formats := e.count("Format", 0)
			for range 3 {
				e.ok(e.format(id))
				e.wantFormatted(id, true)
			}
			if formats() != 1 {
				e.Errorf("formatted %d times, want once", formats())
			}
		}},
		{name: "volume gets the allocation units that are asked for", run: func(e *env) {
			for _, unit := range []uint32{512, 64 << 10, 2 << 20} {
				_, id := e.fresh(gib)
				for range 2 { // as after a lost response
					e.ok(e.formatAs(id, "ntfs", unit))
				}
				dir := e.dir(fmt.Sprint("m", unit))
				e.ok(e.mount(id, dir))
				before, err := e.stats(id)
				e.ok(err)
				e.file(dir + `\file`)
				if got, err := e.stats(id); err != nil || got.used%int64(unit) != 0 || got.used < before.used {
					e.Errorf("used of units of %d: %+v, %v, want a multiple, at least %+v", unit, got, err, before)
				}
				e.want("FormatVolume with other units", e.formatAs(id, "", 4096), hosterr.ErrFailedPrecondition)
			}
			_, id := e.fresh(gib)
			e.ok(e.formatAs(id, "NTFS", 64<<10))
			e.want("FormatVolume with other units", e.formatAs(id, "", 4096), hosterr.ErrFailedPrecondition, "allocation units of 65536 bytes, not 4096")
			e.ok(e.format(id)) // any will do
		}},
		{name: "file system and allocation units that NTFS cannot have are refused", run: func(e *env) {
			_, id := e.fresh(gib)
			for _, fs := range []string{"refs", "ReFS", "FAT32", "exfat", "xfs", " ntfs", "ntfs\x00", "🙂"} {
				e.want("FormatVolume with "+fs, e.formatAs(id, fs, 0), hosterr.ErrInvalid, "makes ntfs only")
			}
			for _, unit := range []uint32{1, 511, 513, 4095, 3 << 10, 4 << 20, math.MaxUint32} {
				e.want(fmt.Sprint("FormatVolume with units of ", unit), e.formatAs(id, "", unit), hosterr.ErrInvalid, "want a power of 2 from 512 to 2097152")
			}
			e.wantFormatted(id, false)
			number := e.attach(Disk{Size: gib, SectorSize: 4096})
			e.ok(e.partition(number))
			id = e.volume(number)
			e.want("FormatVolume with units below a sector", e.formatAs(id, "", 2048), hosterr.ErrInvalid, "want at least 4096")
			e.wantFormatted(id, false)
			number = e.attach(Disk{Size: 3 << 40})
			e.ok(e.partition(number))
			id = e.volume(number)
			e.want("FormatVolume with too many units", e.formatAs(id, "", 512), hosterr.ErrInvalid, "want at least 1024")
			e.wantFormatted(id, false)
			e.ok(e.formatAs(id, "", 1024))
		}},
		{name: "volume with content is kept", run: func(e *env) {
			_, id := e.data(gib)
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			e.ok(e.mkdir(dir + `\precious`))
			e.want("FormatVolume", e.format(id), hosterr.ErrFailedPrecondition, "precious")
			e.wantExists(true, dir+`\precious`)
		}},
		{name: "system volume is kept", run: func(e *env) {
			for _, id := range e.list(e.n.SystemDisk, 0) {
				if err := e.format(id); err == nil {
					e.Errorf("FormatVolume(%s) succeeded", id)
				}
			}
			e.wantExists(true, e.n.Dir)
		}},
		{name: "read-only volume is refused", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{}}, ReadOnly: yes()})
			id := e.volume(number)
			e.want("FormatVolume", e.format(id), hosterr.ErrFailedPrecondition)
			e.wantFormatted(id, false)
		}},
		{name: "volume that cannot be read is an error", run: func(e *env) {
			_, id := e.fresh(gib)
			for _, failure := range []string{"ERROR_FILE_CORRUPT", "ERROR_DISK_CORRUPT", "ERROR_IO_DEVICE", "ERROR_ACCESS_DENIED", "ERROR_INVALID_FUNCTION", "0x80310000" /* locked by BitLocker */} {
				e.fail(Fault{Call: "VolumeInformation", Error: failure})
				formats := e.count("Format", 0)
				if formatted, err := e.formatted(id); err == nil {
					e.Errorf("%s: IsVolumeFormatted = %t, want an error", failure, formatted)
				}
				if err := e.format(id); err == nil || formats() != 0 {
					e.Errorf("%s: FormatVolume = %v, want an error and no format", failure, err)
				}
				e.n.Heal()
			}
		}},
		{name: "volume that is briefly not ready is read again", run: func(e *env) {
			_, id := e.fresh(gib)
			e.fail(Fault{Call: "VolumeInformation", Error: "ERROR_NOT_READY", Times: 1})
			e.wantFormatted(id, false)
		}},
		{name: "volume too small for NTFS is refused", run: func(e *env) {
			number := e.blank(4 * mib)
			e.ok(e.partition(number))
			id := e.volume(number)
			if err := e.format(id); err == nil {
				e.Error("FormatVolume succeeded")
			}
			e.wantFormatted(id, false)
		}},
		{name: "volume with 4 KiB sectors is formatted", run: func(e *env) {
			number := e.attach(Disk{Size: gib, SectorSize: 4096})
			e.ok(e.partition(number))
			id := e.volume(number)
			e.ok(e.format(id))
			e.wantTotal(id, gib-16*mib)
		}},
		{name: "volume on an MBR disk is formatted", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentMBR, Size: gib})
			e.ok(e.partition(number))
			id := e.volume(number)
			e.ok(e.format(id))
			e.wantTotal(id, gib-mib)
		}},
		{name: "other volume on the disk is left alone", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{Size: 300 * mib}, {}}})
			ids := e.list(number, 0)
			e.ok(e.format(ids[1]))
			e.wantFormatted(ids[0], false)
			e.wantFormatted(ids[1], true)
		}},
	}
	for name, bytes := range sorted(foreign()) {
		cases = append(cases, testCase{name: "volume with " + name + " is kept", run: func(e *env) {
			const start = 16 * mib // where the partition after the reserved one begins
			var moved []Bytes
			for _, b := range bytes {
				moved = append(moved, Bytes{At: nodespec.Size(start) + b.At, Data: b.Data})
			}
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{}}, Bytes: moved})
			id := e.volume(number)
			formats := e.count("Format", 0)
			e.want("IsVolumeFormatted", errOf(e.formatted(id)), hosterr.ErrFailedPrecondition, name)
			e.want("FormatVolume", e.format(id), hosterr.ErrFailedPrecondition, name)
			if formats() != 0 {
				e.Error("the volume was formatted")
			}
		}})
	}
	return cases
}

func growCases() []testCase {
	// grown grows a disk and its volume to the end of the disk.
	grown := func(e *env) {
		number, id := e.data(gib)
		e.wantTotal(id, gib-16*mib)
		e.grow(number, 5*gib)
		e.ok(e.rescan())
		for range 2 {
			e.ok(e.resize(id, 0))
			e.wantTotal(id, 5*gib-16*mib)
		}
		e.wantFormatted(e.volume(number), true)
	}
	return []testCase{
		{name: "volume grows to the end of the disk", run: grown},
		{name: "volume grows when Windows needs the table rewritten first", setup: Setup{World: nodespec.WorldStrict}, run: grown},
		{name: "volume grows without a rescan", run: func(e *env) {
			number, id := e.data(gib)
			e.grow(number, 2*gib)
			e.ok(e.resize(id, 0))
			e.wantTotal(id, 2*gib-16*mib)
		}},
		{name: "volume grows to a size, rounded up to a MiB", run: func(e *env) {
			number, id := e.data(gib)
			e.grow(number, 5*gib)
			e.ok(e.rescan())
			for _, size := range []int64{2*gib + 1, 2*gib + 1, 2 * gib, 1} {
				e.ok(e.resize(id, size))
				if got := e.total(id); got > 2*gib+mib || got < 2*gib-20*mib {
					e.Errorf("after ResizeVolume to %d bytes the volume has %d", size, got)
				}
			}
		}},
		{name: "volume grows by a few MiB", run: func(e *env) {
			number, id := e.data(gib)
			before := e.total(id)
			e.grow(number, 2*gib)
			e.ok(e.rescan())
			e.ok(e.resize(id, gib+4*mib))
			if got := e.total(id); got <= before {
				e.Errorf("the volume has %d bytes, before it had %d", got, before)
			}
		}},
		{name: "mounted volume grows", run: func(e *env) {
			number, id := e.data(gib)
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			e.ok(e.mkdir(dir + `\kept`))
			e.grow(number, 2*gib)
			e.ok(e.rescan())
			e.ok(e.resize(id, 0))
			e.wantTotal(id, 2*gib-16*mib)
			e.wantMounted(dir, id)
			e.wantExists(true, dir+`\kept`)
		}},
		{name: "volume without free space behind it keeps its size", run: func(e *env) {
			_, id := e.data(gib)
			before := e.total(id)
			grows := e.count("DeviceIoControl", growPartition)
			e.ok(e.resize(id, 0))
			if got := e.total(id); got != before || grows() != 0 {
				e.Errorf("the volume has %d bytes, before it had %d", got, before)
			}
			e.want("ResizeVolume", e.resize(id, 2*gib), hosterr.ErrOutOfRange)
		}},
		{name: "volume does not grow into the next partition", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{Size: 300 * mib, FileSystem: "NTFS"}, {Size: 300 * mib, FileSystem: "NTFS"}}})
			ids := e.list(number, 0)
			before := e.total(ids[0])
			e.ok(e.resize(ids[0], 0))
			if got := e.total(ids[0]); got != before {
				e.Errorf("the volume has %d bytes, before it had %d", got, before)
			}
			e.want("ResizeVolume", e.resize(ids[0], 301*mib), hosterr.ErrOutOfRange)
			e.ok(e.resize(ids[1], 0))
			e.wantTotal(ids[1], gib-316*mib)
		}},
		{name: "volume never shrinks", run: func(e *env) {
			_, id := e.data(gib)
			before := e.total(id)
			for _, size := range []int64{1, mib, 500 * mib, before} {
				e.ok(e.resize(id, size))
			}
			if got := e.total(id); got != before {
				e.Errorf("the volume has %d bytes, before it had %d", got, before)
			}
		}},
		{name: "impossible sizes are refused", run: func(e *env) {
			_, id := e.data(gib)
			for _, size := range []int64{-1, math.MinInt64} {
				e.want("ResizeVolume", e.resize(id, size), hosterr.ErrInvalid, fmt.Sprintf("invalid negative size %d for volume (%s)", size, id))
			}
			for _, size := range []int64{10 * gib, 1 << 62, math.MaxInt64} {
				e.want("ResizeVolume", e.resize(id, size), hosterr.ErrOutOfRange, fmt.Sprint(size))
			}
		}},
		{name: "partition without a file system grows", run: func(e *env) {
			number, id := e.fresh(gib)
			e.grow(number, 2*gib)
			e.ok(e.rescan())
			e.ok(e.resize(id, 0))
			e.wantFormatted(id, false)
			e.ok(e.format(id))
			e.wantTotal(id, 2*gib-16*mib)
		}},
		{name: "retry finishes a half-done growth", run: func(e *env) {
			for _, size := range []int64{0, 2 * gib} {
				number, id := e.data(gib)
				before := e.total(id)
				e.grow(number, 3*gib)
				e.ok(e.rescan())
				e.fail(Fault{Call: "DeviceIoControl", Code: extendVolume, Error: "ERROR_GEN_FAILURE", Times: 1})
				if err := e.resize(id, size); err == nil {
					e.Error("ResizeVolume succeeded although the file system did not grow")
				}
				if got := e.total(id); got != before {
					e.Errorf("the file system has %d bytes, before it had %d", got, before)
				}
				e.ok(e.resize(id, before)) // it has that, so nothing is done
				e.wantTotal(id, before)
				e.ok(e.resize(id, size))
				if size == 0 {
					e.wantTotal(id, 3*gib-16*mib)
				} else {
					e.wantTotal(id, size)
				}
			}
		}},
		{name: "volume on an MBR disk grows to 2 TiB at most", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentMBR, Size: gib, Partitions: []Partition{{FileSystem: "NTFS"}}})
			id := e.volume(number)
			e.grow(number, 3*tib)
			e.ok(e.rescan())
			e.want("ResizeVolume", e.resize(id, 5*tib/2), hosterr.ErrOutOfRange)
			e.ok(e.resize(id, 0))
			e.wantTotal(id, 2*tib-2*mib)
		}},
		{name: "volume grows beyond 2 TiB", run: func(e *env) {
			number, id := e.data(gib)
			e.grow(number, 3*tib)
			e.ok(e.rescan())
			e.ok(e.resize(id, 0))
			e.wantTotal(id, 3*tib-16*mib)
		}},
		{name: "system volume keeps its size", run: func(e *env) {
			id, err := e.closest(e.n.Dir)
			e.ok(err)
			before := e.total(id)
			grows := e.count("DeviceIoControl", growPartition)
			e.n.Grow = nil
			_ = e.resize(id, 0) // succeeds if there is no free space to grow into
			e.want("ResizeVolume beyond the end of the disk", e.resize(id, 1<<60), hosterr.ErrOutOfRange)
			if got := e.total(id); got != before || grows() != 0 {
				e.Errorf("the volume has %d bytes, before it had %d", got, before)
			}
		}},
	}
}
