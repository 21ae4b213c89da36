package disk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func (f *fixture) clear(n uint32, identity string, dryRun bool) (diskapi.Cleared, error) {
	return f.disk.Clear(f.t.Context(), n, diskapi.Clearing{Identity: identity, DryRun: dryRun})
}

// whats joins the content of a disk.
func whats(c diskapi.Cleared) string {
	var all []string
	for _, found := range c.Found {
		all = append(all, found.What)
	}
	return strings.Join(all, "; ")
}

// occupiedDisks are disks that PartitionDisk refuses, or that have a partition.
func occupiedDisks() map[string]nodespec.Disk {
	const size = 10 * gib
	at := func(at uint64, text string) []nodespec.Bytes {
		return []nodespec.Bytes{{At: nodespec.Size(at), Data: []byte(text)}}
	}
	return map[string]nodespec.Disk{
		"NTFS":                             {Size: size, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}},
		"partition 1":                      {Size: size, Content: nodespec.ContentMBR, Partitions: []nodespec.Partition{{Size: gib}, {Size: gib, FileSystem: "NTFS"}}},
		"XFS":                              {Size: size, Bytes: at(size/4, "XFSB")},
		"btrfs":                            {Size: size, Bytes: at(0x4000040, "_BHRfS_M")},
		"LVM2":                             {Size: size, Bytes: at(0x218, "LVM2 001")},
		"unknown content":                  {Size: size, Bytes: at(size-100, "rubbish")},
		"unknown content at byte 16777316": {Size: size, Bytes: at(16777316, "rubbish")},
		"GPT":                              {Size: size, Bytes: at(size-512, "EFI PART")},
	}
}

func TestClearLetsPartitionDiskSucceed(t *testing.T) {
	for name, spec := range occupiedDisks() {
		for _, sector := range []uint32{512, 4096} {
			for _, offline := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, sectors of %d, offline %t", name, sector, offline), func(t *testing.T) {
					if sector == 4096 && name == "GPT" {
						t.Skip("the backup header is in the last sector: tried with 512")
					}
					spec := spec
					spec.SectorSize, spec.Serial = sector, "S1"
					if offline {
						spec.Offline, spec.ReadOnly = yes(), yes()
					}
					f := newFixture(t, nodespec.Config{}, spec)
					if spec.Partitions == nil {
						wantKind(t, f.partition(1), hosterr.ErrFailedPrecondition, "it contains data (")
					}
					dry, err := f.clear(1, "", true)
					if err != nil {
						t.Fatalf("dry run: %v", err)
					}
					if dry.IDs.SerialNumber != "S1" || dry.SizeBytes != 10*gib || dry.WrittenBytes != 0 || !strings.Contains(whats(dry), name) {
						t.Errorf("dry run: %+v, want %q found", dry, name)
					}
					if f.online(1) == offline {
						t.Errorf("the dry run left the disk online %t", f.online(1))
					}
					out, err := f.clear(1, "S1", false)
					if err != nil {
						t.Fatal(err)
					}
					if out.WrittenBytes == 0 || out.WrittenBytes > 64*mib || whats(out) != whats(dry) {
						t.Errorf("Clear = %+v, want what the dry run found, %q", out, whats(dry))
					}
					if n := f.volumes(); n != 0 {
						t.Errorf("the cleared disk has %d volumes", n)
					}
					again, err := f.clear(1, "S1", false)
					if err != nil || len(again.Found) > 0 {
						t.Errorf("second Clear = %+v, %v, want nothing found", again, err)
					}
					if err := f.partition(1); err != nil {
						t.Errorf("PartitionDisk of the cleared disk: %v", err)
					}
				})
			}
		}
	}
}

func TestClearRefuses(t *testing.T) {
	data := nodespec.Disk{Size: gib, Serial: "S1", Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}}
	lettered := data
	lettered.Partitions = []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}
	spaces := data
	spaces.Partitions = []nodespec.Partition{{Type: "spaces"}}
	for name, test := range map[string]struct {
		spec     nodespec.Disk
		number   uint32
		identity string
		kind     error
		text     string
	}{
		"the disk of Windows":     {data, 0, "S1", hosterr.ErrFailedPrecondition, ""},
		"another serial":          {data, 1, "S2", hosterr.ErrInvalid, `"S1"`},
		"no serial":               {data, 1, "", hosterr.ErrInvalid, "missing"},
		"a mounted volume":        {lettered, 1, "S1", hosterr.ErrFailedPrecondition, `mounted at E:\`},
		"a Storage Spaces member": {spaces, 1, "S1", hosterr.ErrFailedPrecondition, "Storage Spaces"},
		"no such disk":            {data, 7, "S1", hosterr.ErrNotFound, ""},
		"two disks of one serial": {data, 1, "twice", hosterr.ErrFailedPrecondition, `disk 2 has the identity "twice", too, so disk 1 was not changed`},
	} {
		t.Run(name, func(t *testing.T) {
			disks := []nodespec.Disk{test.spec}
			if test.identity == "twice" {
				disks = []nodespec.Disk{{Size: gib, Serial: "twice"}, {Size: gib, Serial: "twice"}}
			}
			f := newFixture(t, nodespec.Config{}, disks...)
			f.unchanged(func() {
				_, err := f.clear(test.number, test.identity, false)
				wantKind(t, err, test.kind, test.text)
				if test.identity != "" {
					_, err := f.clear(test.number, test.identity, true)
					wantKind(t, err, test.kind, test.text)
				}
			})
		})
	}
	t.Run("a disk without identity", func(t *testing.T) {
		f := newFixture(t, nodespec.Config{}, data)
		f.Observe(func(c *win32.Call) error {
			if changes(c) {
				t.Errorf("unexpected change: %v", c)
			}
			if c.Code == win32.IOCTL_STORAGE_QUERY_PROPERTY {
				return win32.ERROR_INVALID_FUNCTION
			}
			return c.Do()
		})
		for _, dryRun := range []bool{false, true} {
			_, err := f.clear(1, "S1", dryRun)
			wantKind(t, err, hosterr.ErrFailedPrecondition, "no serial number")
		}
	})
	t.Run("a volume in use", func(t *testing.T) {
		f := newFixture(t, nodespec.Config{}, data)
		h, err := f.Windows.CreateFile(strings.TrimSuffix(f.names()[len(f.names())-1], `\`), win32.GENERIC_READ, 3, win32.OPEN_EXISTING, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.unchanged(func() {
			_, err := f.clear(1, "S1", false)
			wantKind(t, err, hosterr.ErrFailedPrecondition, "in use")
		})
		if err := f.Windows.CloseHandle(h); err != nil {
			t.Fatal(err)
		}
	})
}

// A volume that does not say where it lies may be mounted, and may lie on the disk.
func TestClearRefusesWhileAVolumeIsBusy(t *testing.T) {
	data := nodespec.Disk{Size: gib, Serial: "S1", Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}}
	f := newFixture(t, nodespec.Config{}, data)
	busy := f.names()[len(f.names())-1]
	f.Observe(func(c *win32.Call) error {
		if changes(c) {
			t.Errorf("unexpected change: %v", c)
		}
		if c.Name == "CreateFile" && c.Path+`\` == busy {
			return win32.ERROR_SHARING_VIOLATION
		}
		return c.Do()
	})
	for _, dryRun := range []bool{true, false} {
		_, err := f.clear(1, "S1", dryRun)
		wantKind(t, err, hosterr.ErrUnavailable, "volume "+hosterr.Quote(busy)+" does not say where it lies, and may be one of disk 1: ")
	}
}

// A clearing that is cut off at any call is finished by the next one.
func TestClearContinues(t *testing.T) {
	cut := errors.New("cut off")
	points := 0
	for name, spec := range occupiedDisks() {
		spec.Serial = "S1"
		for last := 1; ; last++ {
			f := newFixture(t, nodespec.Config{}, spec)
			calls := 0
			f.Observe(func(c *win32.Call) error {
				if !changes(c) {
					return c.Do()
				}
				if calls++; calls > last {
					return cut
				}
				return c.Do()
			})
			_, err := f.clear(1, "S1", false)
			f.Observe(nil)
			if err == nil {
				break
			}
			points++
			if _, err := f.clear(1, "S1", false); err != nil {
				t.Errorf("%s, cut off after %d changes: the next Clear: %v", name, last, err)
			}
			if err := f.partition(1); err != nil {
				t.Errorf("%s, cut off after %d changes: PartitionDisk: %v", name, last, err)
			}
		}
	}
	t.Logf("cut off at %d points of %d disks", points, len(occupiedDisks()))
	if points < len(occupiedDisks()) {
		t.Errorf("cut off at %d points, want one for each disk", points)
	}
}

// Windows refuses to write to a volume that appeared after the others were locked.
func TestClearSaysWhatToDoAboutARefusedWrite(t *testing.T) {
	spec := occupiedDisks()["NTFS"]
	spec.Serial = "S1"
	f := newFixture(t, nodespec.Config{}, spec)
	f.Fail("WriteAt", 0, win32.ERROR_ACCESS_DENIED)
	_, err := f.clear(1, "S1", false)
	if !win32.IsCode(err, win32.ERROR_ACCESS_DENIED) || !strings.Contains(err.Error(), "its content was not changed") || !strings.Contains(hosterr.HintOf(err), "clear it again") {
		t.Errorf("%v, hint %q", err, hosterr.HintOf(err))
	}
	f.Observe(nil)
}

// What is on a disk that is offline cannot be seen, and a volume may be mounted after the
// first look.
func TestClearLooksAgainAtHeldVolumes(t *testing.T) {
	lettered := onD()
	lettered.Serial, lettered.Offline, lettered.ReadOnly = "S1", yes(), yes()
	plain := onD()
	plain.Serial, plain.Partitions = "S1", []nodespec.Partition{{FileSystem: "NTFS"}}
	for name, test := range map[string]struct {
		spec    nodespec.Disk
		prepare func(*fixture)
		text    string
	}{
		"a letter of an offline disk":   {lettered, func(*fixture) {}, `mounted at D:\`},
		"the kubelet's disk is offline": {lettered, func(f *fixture) { f.Node.WorkingDirs = []string{`D:\kubelet`} }, `disk 1 holds the directory D:\kubelet`},
		"mounted before the lock": {plain, func(f *fixture) {
			f.Observe(func(c *win32.Call) error {
				if c.Name == "WriteAt" {
					t.Error("the disk is written")
				}
				if c.Code == win32.FSCTL_LOCK_VOLUME {
					if err := f.Windows.SetMountPoint(`E:\`, f.names()[len(f.names())-1]); err != nil {
						t.Error(err)
					}
				}
				return c.Do()
			})
		}, `mounted at E:\`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nodespec.Config{}, test.spec)
			f.Observe(func(c *win32.Call) error {
				if c.Name == "WriteAt" {
					t.Error("the disk is written")
				}
				return c.Do()
			})
			test.prepare(f)
			before := f.attributes(1)
			_, err := f.clear(1, "S1", false)
			wantKind(t, err, hosterr.ErrFailedPrecondition, test.text)
			if now := f.attributes(1); now != before {
				t.Errorf("the refusal changed the attributes from %d to %d", before, now)
			}
		})
	}
}

// A disk that macOS has partitioned has an EFI system partition. It is cleared if Windows says that
// it starts from another disk.
func TestClearDiskWithEFIPartition(t *testing.T) {
	mac := nodespec.Disk{Size: 10 * gib, Serial: "S1", Content: nodespec.ContentGPTNoMSR,
		Partitions: []nodespec.Partition{{Size: 200 * mib, Type: "esp", FileSystem: "FAT32"}, {}}}
	f := newFixture(t, nodespec.Config{}, mac)
	ps := f.layout(1).Partitions
	f.write(1, int64(ps[1].Offset)+32, "NXSB")
	for _, dryRun := range []bool{true, false} {
		out, err := f.clear(1, "S1", dryRun)
		if err != nil || !strings.Contains(whats(out), "APFS") {
			t.Errorf("Clear = %q, %v", whats(out), err)
		}
	}
	if err := f.partition(1); err != nil {
		t.Error(err)
	}
	for name, value := range map[string][]string{
		"not known":   {},
		"no volume":   {`\Device\HarddiskVolume99`},
		"of the disk": {"mac"},
	} {
		f := newFixture(t, nodespec.Config{}, mac)
		f.Observe(func(c *win32.Call) error {
			if changes(c) {
				t.Errorf("unexpected change: %v", c)
			}
			if c.Name != "RegistryText" || !strings.Contains(c.Path, "Setup") {
				return c.Do()
			}
			return win32.ERROR_FILE_NOT_FOUND
		})
		if len(value) > 0 {
			f = newFixture(t, nodespec.Config{Registry: map[string][]string{`SYSTEM\Setup\SystemPartition`: value}}, mac)
			if value[0] == "mac" { // its disk has the two last volumes
				text := fmt.Sprintf(`\Device\HarddiskVolume%d`, len(f.names())-1)
				f = newFixture(t, nodespec.Config{Registry: map[string][]string{`SYSTEM\Setup\SystemPartition`: {text}}}, mac)
			}
		}
		for _, dryRun := range []bool{true, false} {
			_, err := f.clear(1, "S1", dryRun)
			if wantKind(t, err, hosterr.ErrFailedPrecondition, "an EFI system partition"); t.Failed() {
				t.Fatalf("the partition from which Windows starts is %s", name)
			}
		}
	}
}

// The doctor and why look at disks that are offline, and leave them so.
func TestDryRunLeavesDisksOffline(t *testing.T) {
	spec := occupiedDisks()["NTFS"]
	spec.Serial, spec.Offline, spec.ReadOnly = "S1", yes(), yes()
	f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{OfflineReads: behavior.OfflineReadsAllowed})}, spec)
	f.unchanged(func() {
		out, err := f.disk.Clear(t.Context(), 1, diskapi.Clearing{DryRun: true})
		if err != nil || !strings.Contains(whats(out), "NTFS") {
			t.Errorf("Clear = %q, %v", whats(out), err)
		}
	})
}

// A disk without a table that is attached offline is cleared without waiting for a volume that it
// does not get, however Windows reports it.
func TestClearDoesNotWaitForDisksWithoutTable(t *testing.T) {
	for _, form := range []string{behavior.BlankMBR, behavior.BlankSuperfloppy} {
		for name, spec := range occupiedDisks() {
			spec.Serial, spec.Offline, spec.ReadOnly = "S1", yes(), yes()
			f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{BlankDisks: form})}, spec)
			begun := f.Node.Clock.Now()
			if _, err := f.clear(1, "S1", false); err != nil {
				t.Errorf("%s, blank disks as %s: %v", name, form, err)
			}
			if took := f.Node.Clock.Now().Sub(begun); took > time.Second {
				t.Errorf("%s, blank disks as %s: it took %v", name, form, took)
			}
		}
	}
}

// A partition with a mounted volume is not cleared, nor the disk that it is on.
func TestClearOnePartitionRefuses(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: 10 * gib, Serial: "S1", Content: nodespec.ContentGPT,
		Partitions: []nodespec.Partition{{Size: gib, FileSystem: "NTFS"}, {Size: gib}}})
	if err := f.Windows.SetMountPoint(`E:\`, f.names()[len(f.names())-2]); err != nil {
		t.Fatal(err)
	}
	f.unchanged(func() {
		for _, test := range []struct {
			c    diskapi.Clearing
			kind error
			text string
		}{
			{diskapi.Clearing{}, hosterr.ErrFailedPrecondition, `mounted at E:\`},
			{diskapi.Clearing{Partition: 2}, hosterr.ErrFailedPrecondition, `mounted at E:\`},
			{diskapi.Clearing{Partition: 9}, hosterr.ErrNotFound, "no partition 9"},
			{diskapi.Clearing{Behind: 9}, hosterr.ErrNotFound, "no partition 9"},
			{diskapi.Clearing{Partition: 2, Behind: 2}, hosterr.ErrInvalid, "not both"},
		} {
			test.c.Identity = "S1"
			_, err := f.disk.Clear(t.Context(), 1, test.c)
			wantKind(t, err, test.kind, test.text)
		}
	})
}
