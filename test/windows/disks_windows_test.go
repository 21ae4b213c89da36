package windows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/testbed"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// bench is a machine with virtual disks, and with the disk and volume services.
type bench struct {
	*testbed.Disks
	t      *testing.T
	node   *node.Node
	disk   disk.Interface
	volume volume.Interface
}

func newBench(t *testing.T) *bench {
	t.Helper()
	administrator(t)
	n, open := native(t)
	v, err := volume.New(volumeapi.On(n))
	if err != nil {
		t.Fatal(err)
	}
	d, err := disk.New(diskapi.On(n))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{newDisks(t, n, v), t, n, d, v}
	t.Cleanup(func() {
		if left, _ := open(); len(left) > 0 {
			t.Errorf("handles left open: %q", left)
		}
	})
	return b
}

func (b *bench) attach(d conformance.Disk) uint32 {
	b.t.Helper()
	number, err := b.Attach(d)
	if err != nil {
		b.t.Fatal(err)
	}
	return number
}

// Question: does storage property 58 have the text that Get-Disk prints, and do
// we read the same from it as the published proxy from that text? Without the
// property, does the SCSI address have the same numbers?
func TestLocationsMatchGetDisk(t *testing.T) {
	b := newBench(t)
	got, err := b.disk.ListDiskLocations(t.Context(), &disk.ListDiskLocationsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range psDisks(t) {
		want, ok := publishedLocation(d.Location)
		have, listed := got.DiskLocations[d.Number]
		if listed != ok || ok && *have != want {
			t.Errorf("disk %d (%s), with the location %q in Get-Disk: listed %t as %+v, want %t, %+v", d.Number, d.BusType, d.Location, listed, have, ok, want)
		}
	}
}

// publishedLocation parses a location like the published proxy: five parts
// between colons, of two words each.
func publishedLocation(text string) (loc disk.DiskLocation, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) < 5 {
		return loc, false
	}
	for _, part := range parts {
		words := strings.Fields(part)
		if len(words) != 2 {
			continue
		}
		switch words[0] {
		case "Adapter":
			loc.Adapter = words[1]
		case "Bus":
			loc.Bus = words[1]
		case "Target":
			loc.Target = words[1]
		case "LUN":
			loc.LUNID = words[1]
		}
	}
	return loc, true
}

// Question: are serial numbers exactly those of Get-Disk?
func TestSerialNumbersMatchGetDisk(t *testing.T) {
	b := newBench(t)
	got, err := b.disk.ListDiskIDs(t.Context(), &disk.ListDiskIDsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range psDisks(t) {
		ids := got.DiskIDs[d.Number]
		if ids == nil || ids.SerialNumber != strings.TrimSpace(d.SerialNumber) {
			t.Errorf("disk %d (%s): identifiers %+v, but Get-Disk returns the serial number %q", d.Number, d.BusType, ids, d.SerialNumber)
		}
	}
}

// Question: does Windows accept our table, with 17 KiB to 16 MiB reserved and the
// rest data, and does its volume get no drive letter?
func TestPartitionTable(t *testing.T) {
	for _, sector := range []uint32{512, 4096} {
		b := newBench(t)
		number := b.attach(conformance.Disk{Size: 2 << 30, SectorSize: sector})
		ctx := t.Context()
		for range 2 { // repeating it changes nothing
			if _, err := b.disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
				t.Fatalf("sectors of %d: PartitionDisk: %v", sector, err)
			}
		}
		var got []struct {
			Type        string
			Offset      uint64
			DriveLetter string
		}
		queryList(t, &got, fmt.Sprintf("Get-Partition -DiskNumber %d", number), `@{Type="$($_.Type)"; Offset=$_.Offset; DriveLetter="$($_.DriveLetter)".Trim([char]0)}`)
		if len(got) != 2 || got[0].Type != "Reserved" || got[1].Type != "Basic" || got[1].Offset != 16<<20 || got[1].DriveLetter != "" {
			t.Errorf("sectors of %d: Get-Partition returns %+v, want a reserved partition and a basic one from 16 MiB without a letter", sector, got)
		}
	}
}

// Question: how large is a volume after its disk has grown, and would Windows
// itself choose the same size?
func TestGrowthMatchesGetPartitionSupportedSize(t *testing.T) {
	b := newBench(t)
	number := b.attach(conformance.Disk{Content: nodespec.ContentGPT, Size: 1 << 30, Partitions: []conformance.Partition{{FileSystem: "NTFS"}}})
	if err := b.Grow(number, 3<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := b.disk.Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
		t.Fatal(err)
	}
	var supported struct{ SizeMax uint64 }
	query(t, &supported, `Get-PartitionSupportedSize -DiskNumber %d -PartitionNumber 2 | ForEach-Object { @{SizeMax=$_.SizeMax} }`, number)
	list, err := b.volume.ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil || len(list.VolumeIDs) != 1 {
		t.Fatalf("volumes %+v, %v", list, err)
	}
	if _, err := b.volume.ResizeVolume(t.Context(), &volume.ResizeVolumeRequest{VolumeID: list.VolumeIDs[0]}); err != nil {
		t.Fatal(err)
	}
	var size uint64
	query(t, &size, `(Get-Partition -DiskNumber %d -PartitionNumber 2).Size`, number)
	if supported.SizeMax < size || supported.SizeMax-size > 2<<20 {
		t.Errorf("the partition has %d bytes, but Windows reports a maximum of %d", size, supported.SizeMax)
	}
	stats, err := b.volume.GetVolumeStats(t.Context(), &volume.GetVolumeStatsRequest{VolumeID: list.VolumeIDs[0]})
	if err != nil || uint64(stats.TotalBytes) > size || size-uint64(stats.TotalBytes) > 64<<10 {
		t.Errorf("the file system has %+v of %d bytes, %v", stats, size, err)
	}
}

// Question: how long does a rescan take, and may this process do it?
func TestRescan(t *testing.T) {
	b := newBench(t)
	start := time.Now()
	if _, err := b.disk.Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
		t.Error(err)
	}
	t.Logf("a rescan of %d disks took %v", len(psDisks(t)), time.Since(start).Round(time.Millisecond))
}

// Question: does a volume with a file system other than NTFS that Windows knows
// count as formatted, and is it safe from being formatted?
func TestReFSNotFormatted(t *testing.T) {
	b := newBench(t)
	number := b.attach(conformance.Disk{Content: nodespec.ContentGPT, Size: 8 << 30, Partitions: []conformance.Partition{{}}})
	var done any
	query(t, &done, `Get-Partition -DiskNumber %d -PartitionNumber 2 | Format-Volume -FileSystem ReFS -Confirm:$false | ForEach-Object { "$($_.FileSystem)" }`, number)
	list, err := b.volume.ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil || len(list.VolumeIDs) != 1 {
		t.Fatalf("volumes %+v, %v", list, err)
	}
	formatted, err := b.volume.IsVolumeFormatted(t.Context(), &volume.IsVolumeFormattedRequest{VolumeID: list.VolumeIDs[0]})
	if err != nil || !formatted.Formatted {
		t.Errorf("IsVolumeFormatted of %v: %+v, %v", done, formatted, err)
	}
	if _, err := b.volume.FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: list.VolumeIDs[0]}); err == nil {
		t.Error("FormatVolume destroyed a ReFS volume")
	}
}
