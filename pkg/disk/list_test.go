package disk_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// The disks of clouds are identified as their drivers need it.
func TestDisksOfCloudsAreIdentified(t *testing.T) {
	nvme := func(d nodespec.Disk) nodespec.Disk { d.Bus, d.Size, d.Vendor = "nvme", gib, "NVMe"; return d }
	for name, c := range map[string]struct {
		disk nodespec.Disk
		want disk.DiskInfo
	}{
		"Azure, NVMe": {
			nvme(nodespec.Disk{Product: "MSFT NVMe Accelerator v1.0", Namespace: 3, Location: "Integrated : Bus 12606208 : Device 0 : Function 0 : Adapter 0"}),
			disk.DiskInfo{Product: "MSFT NVMe Accelerator v1.0", NamespaceID: 3, AzureLUN: "2"},
		},
		"Azure, a namespace above 9": {
			nvme(nodespec.Disk{Product: "MSFT NVMe Accelerator v1.0", Namespace: 10, Location: "Integrated : Bus 12606208 : Device 0 : Function 0 : Adapter 0"}),
			disk.DiskInfo{Product: "MSFT NVMe Accelerator v1.0"},
		},
		"EBS": {
			nvme(nodespec.Disk{Product: "Amazon Elastic Block Store", Serial: "vol02190fee5da4d75e3_00000001."}),
			disk.DiskInfo{Product: "Amazon Elastic Block Store", SerialNumber: "vol02190fee5da4d75e3_00000001.", NamespaceID: 1},
		},
		"GCE, NVMe": {
			nvme(nodespec.Disk{Product: "nvme_card-pd", Serial: "10CC_9636_B6E3_CE3B_0000_0000_0000_0000."}),
			disk.DiskInfo{Product: "nvme_card-pd", SerialNumber: "10CC_9636_B6E3_CE3B_0000_0000_0000_0000.", NGUID: "10cc9636b6e3ce3b0000000000000000"},
		},
		"an EUI-64": {
			nvme(nodespec.Disk{Serial: "0025_3852_91B0_4D1A.", Product: "SSD", Namespace: 1}),
			disk.DiskInfo{Product: "SSD", SerialNumber: "0025_3852_91B0_4D1A.", EUI64: "0025385291b04d1a", NamespaceID: 1},
		},
		"Azure, a namespace in the serial number": {
			nvme(nodespec.Disk{Product: "MSFT NVMe Accelerator v1.0", Serial: "SN_00000003.", Namespace: 2}),
			disk.DiskInfo{Product: "MSFT NVMe Accelerator v1.0", SerialNumber: "SN_00000003.", NamespaceID: 3, AzureLUN: "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fixtureOf(t, nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, c.disk}})
			out, err := f.disk.ListDisks(t.Context(), &disk.ListDisksRequest{})
			if err != nil || len(out.Disks) != 2 || out.Disks[1] == nil {
				t.Fatalf("ListDisks = %+v, %v, want two disks", out, err)
			}
			got := *out.Disks[1]
			if !strings.HasPrefix(got.DevicePath, `\\?\scsi#disk&ven_nvme&prod_`) {
				t.Errorf("device path %q, want that of an NVMe disk", got.DevicePath)
			}
			got.DevicePath, got.Adapter, got.Bus = "", "", ""
			c.want.BusType, c.want.Vendor, c.want.IsOnline = "NVMe", "NVMe", true
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("disk\n%+v, want\n%+v", got, c.want)
			}
			if first := out.Disks[0]; !first.IsBoot || !first.IsSystem || first.IsTemporary {
				t.Errorf("the disk of Windows is %+v, want boot and system", *first)
			}
		})
	}
}

// vSphere and GCE on SCSI are known by page 83h.
func TestListDisksHasEveryIdentifier(t *testing.T) {
	yes := true
	f := fixtureOf(t, nodespec.Config{Disks: []nodespec.Disk{
		{Content: nodespec.ContentSystem},
		{Size: gib, Serial: "S", Offline: &yes, ReadOnly: &yes, Removable: true, Address: &nodespec.Address{Port: 1, Target: 2, Lun: 3}, Identifiers: []nodespec.Identifier{
			{CodeSet: "ascii", Type: 1, Text: "Google  persistent-disk-0"},
			{CodeSet: "binary", Type: 3, Hex: "6000C29A1B"},
			{CodeSet: "binary", Association: "port", Hex: "01"},
			{CodeSet: "binary", Type: 4, Hex: "00000001"},
			{CodeSet: "binary", Type: 5, Hex: "00000001"},
			{CodeSet: "binary", Type: 6, Hex: "00000001"},
			{CodeSet: "binary", Type: 7, Hex: "ab"},
			{CodeSet: "binary", Type: 9, Hex: "01"},
			{CodeSet: "binary", Type: 10, Hex: "10cd"},
			{CodeSet: "utf8", Type: 8, Text: "eui.0011223344556677"},
			{CodeSet: "binary", Hex: "4d53"},
		}},
		temporary(),
	}})
	out, err := f.disk.ListDisks(t.Context(), &disk.ListDisksRequest{})
	if err != nil || len(out.Disks) != 3 {
		t.Fatalf("ListDisks = %+v, %v, want three disks", out, err)
	}
	got := *out.Disks[1]
	want := disk.DiskInfo{
		DevicePath: got.DevicePath, BusType: "SAS", Vendor: "EMULATED", Product: "Virtual Disk", SerialNumber: "S",
		Page83: []string{"t10.Google  persistent-disk-0", "naa.6000c29a1b", "md5.ab", "uuid.10cd", "name.eui.0011223344556677", "vendor.4d53"},
		WWN:    "6000c29a1b", EUI64: "0011223344556677", Adapter: "1", Target: "2", LUN: "3",
		IsRemovable: true, IsReadOnly: true, OfflineReason: got.OfflineReason,
	}
	if !reflect.DeepEqual(got, want) || got.OfflineReason == "" {
		t.Errorf("disk\n%+v, want\n%+v and a reason why it is offline", got, want)
	}
	if !out.Disks[2].IsTemporary || out.Disks[2].IsBoot {
		t.Errorf("the temporary disk is %+v", *out.Disks[2])
	}

	// What cannot be read is said.
	f.Observe(func(call *win32.Call) error {
		if call.Name == "WindowsDirectory" || call.Code == win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX {
			return win32.ERROR_IO_DEVICE
		}
		return call.Do()
	})
	defer f.Observe(nil)
	if out, err = f.disk.ListDisks(t.Context(), &disk.ListDisksRequest{}); err != nil || !strings.Contains(out.Disks[1].Unread, "whether Windows runs from it") || !strings.Contains(out.Disks[1].Unread, "its partition table") {
		t.Errorf("where nothing can be read: %+v, %v, want what is unread", out.Disks[1], err)
	}
}

// A method that changes a disk checks its identity on the handle that it writes through: the
// disk with the number may be another one since the driver looked.
func TestChangesCheckIdentity(t *testing.T) {
	f := fixtureOf(t, nodespec.Config{Disks: []nodespec.Disk{
		{Content: nodespec.ContentSystem},
		{Size: gib, Serial: "mine", Identifiers: []nodespec.Identifier{{CodeSet: "binary", Type: 6, Hex: "00000001"}, {CodeSet: "binary", Type: 3, Hex: "6000C29A1B"}}},
	}})
	change := func(identifiers ...string) map[string]error {
		all := map[string]error{}
		_, all["PartitionDisk"] = f.disk.PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: 1, Identity: &disk.DiskIdentity{Identifiers: identifiers}})
		_, all["SetDiskReadOnly"] = f.disk.SetDiskReadOnly(t.Context(), &disk.SetDiskReadOnlyRequest{DiskNumber: 1, IsReadOnly: true, Identity: &disk.DiskIdentity{Identifiers: identifiers}})
		_, all["SetDiskState"] = f.disk.SetDiskState(t.Context(), &disk.SetDiskStateRequest{DiskNumber: 1, Identity: &disk.DiskIdentity{Identifiers: identifiers}})
		return all
	}
	changes := 0
	f.Observe(func(call *win32.Call) error {
		if call.Code == win32.IOCTL_DISK_CREATE_DISK || call.Code == win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX || call.Code == win32.IOCTL_DISK_SET_DISK_ATTRIBUTES {
			changes++
		}
		return call.Do()
	})
	defer f.Observe(nil)
	for _, other := range []string{"yours", "naa.6000", "6000c29a1", "vendor.6000c29a1b", ".", "00000001", "6.00000001"} {
		for _, also := range [][]string{nil, {"mine"}, {"naa.6000c29a1b", "mine"}} {
			for method, err := range change(append(also, other)...) {
				if !errors.Is(err, hosterr.ErrFailedPrecondition) || !strings.Contains(err.Error(), fmt.Sprintf("not [%q]", other)) || hosterr.HintOf(err) == "" {
					t.Errorf("%s of disk %q, %q: %v, want ErrFailedPrecondition", method, also, other, err)
				}
			}
		}
	}
	for _, empty := range [][]string{nil, {""}, {"mine", " "}} {
		for method, err := range change(empty...) {
			if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), map[bool]string{true: "has no identifiers", false: "is empty"}[empty == nil]) {
				t.Errorf("%s of disk %q: %v, want ErrInvalid", method, empty, err)
			}
		}
	}
	if changes != 0 {
		t.Errorf("%d calls changed a disk that was not the expected one", changes)
	}
	for _, own := range [][]string{{"mine"}, {"naa.6000c29a1b"}, {"6000C29A1B"}, {"mine", "naa.6000c29a1b", " mine\x00"}} {
		for method, err := range change(own...) {
			if err != nil {
				t.Errorf("%s of disk %q: %v", method, own, err)
			}
		}
	}
	if changes == 0 {
		t.Error("nothing was changed")
	}
}

// published is a driver's HostAPI, which has only what is published.
type published struct{ diskapi.HostAPI }

func TestAnotherHostAPILacksListDisks(t *testing.T) {
	d, err := disk.New(published{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.ListDisks(t.Context(), &disk.ListDisksRequest{}); !errors.Is(err, hosterr.ErrUnimplemented) {
		t.Errorf("ListDisks: %v, want ErrUnimplemented", err)
	}
	if _, err := d.PartitionDisk(t.Context(), &disk.PartitionDiskRequest{Identity: &disk.DiskIdentity{Identifiers: []string{"mine"}}}); !errors.Is(err, hosterr.ErrUnimplemented) {
		t.Errorf("PartitionDisk with an identity: %v, want ErrUnimplemented", err)
	}
	if _, err := d.ListDisks(t.Context(), nil); !errors.Is(err, hosterr.ErrInvalid) {
		t.Errorf("ListDisks without a request: %v, want ErrInvalid", err)
	}
}
