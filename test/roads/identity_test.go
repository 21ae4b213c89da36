package roads

import (
	"fmt"
	"slices"
	"strings"

	v1beta2 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	diskv1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta2"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// A preset is how disk number i of a cloud, counted from 1, presents itself. A driver
// looks for the second of three.
type preset struct {
	name   string
	driver driver
	way    way
	disk   func(i int) simnode.Disk
	find   func(v *visit) (uint32, bool, error)
	says   string // if the driver cannot find it: why
}

func presets() []preset {
	v1, beta := gce.ways[0], gce.ways[1]
	google := []uint64{0x10cc9636b6e3ce3b, 0x20cc9636b6e3ce3b, 0x30cc9636b6e3ce3b}
	googleNVMe := func(i int) simnode.Disk {
		digits := strings.ToUpper(fmt.Sprintf("%016x%016x", google[i-1], 0))
		var groups []string
		for part := range slices.Chunk([]byte(digits), 4) {
			groups = append(groups, string(part))
		}
		return simnode.Disk{Bus: "nvme", Product: "nvme_card-pd", Serial: strings.Join(groups, "_") + "."}
	}
	vmware := func(i int) string { return fmt.Sprintf("6000c29a98d05e384a43f0ef189aaf%02x", i) }
	return []preset{
		{
			name: "EC2, NVMe", driver: ebs, way: ebs.ways[0],
			disk: func(i int) simnode.Disk {
				return simnode.Disk{Bus: "nvme", Product: "Amazon Elastic Block Store", Serial: fmt.Sprintf("vol02190fee5da4d75e%d_00000001.", i)}
			},
			find: func(v *visit) (uint32, bool, error) {
				return v.findByID(func(ids *disk.DiskIDs) bool { return ebsSerial(ids.SerialNumber, "vol-02190fee5da4d75e2") })
			},
		},
		{
			name: "GCE, SCSI", driver: gce, way: v1,
			disk: func(i int) simnode.Disk {
				return simnode.Disk{Bus: "scsi", Vendor: "Google", Product: "PersistentDisk", Serial: strings.Repeat(" ", 20),
					Location:    fmt.Sprintf("PCI Slot 3 : Adapter 0 : Port 0 : Target %d : LUN 0", i),
					Identifiers: []simnode.Identifier{{CodeSet: "ascii", Type: 1, Text: fmt.Sprintf("Google  persistent-disk-%d", i)}}}
			},
			find: func(v *visit) (uint32, bool, error) {
				return v.findByID(func(ids *disk.DiskIDs) bool { return googlePage83(ids.Page83, "persistent-disk-2") })
			},
		},
		{
			name: "GCE, NVMe", driver: gce, way: v1,
			disk: googleNVMe,
			find: func(v *visit) (uint32, bool, error) {
				return v.findByID(func(ids *disk.DiskIDs) bool { n, ok := googleNamespace(ids); return ok && n == google[1] })
			},
		},
		{
			name: "GCE, NVMe", driver: gce, way: beta,
			disk: googleNVMe,
			find: func(v *visit) (uint32, bool, error) { return googleBeta(v, google[1]) },
			says: "the published v1beta2 calls the identifier `serialNumber`, the driver asks for `SerialNumber`",
		},
		{
			name: "Azure, SCSI", driver: azureDisk, way: azureDisk.ways[0],
			disk: func(i int) simnode.Disk {
				return simnode.Disk{Bus: "sas", Vendor: "Msft", Product: "Virtual Disk", Address: &simnode.Address{Lun: uint8(i + 20)},
					Location:    fmt.Sprintf("Integrated : Bus 0 : Device 63667 : Function 30747 : Adapter 1 : Port 0 : Target 0 : LUN %d", i+20),
					Identifiers: []simnode.Identifier{{CodeSet: "binary", Type: 3, Hex: fmt.Sprintf("600224800000000000000000000000%02x", i)}}}
			},
			find: func(v *visit) (uint32, bool, error) { return azureAt(v, "22") },
		},
		{
			name: "Azure, NVMe", driver: azureDisk, way: azureDisk.ways[0],
			disk: func(i int) simnode.Disk {
				return simnode.Disk{Bus: "nvme", Product: "MSFT NVMe Accelerator v1.0", Location: fmt.Sprintf("Integrated : Bus %d : Device 0 : Function 0 : Adapter 0", 12606208+i)}
			},
			find: func(v *visit) (uint32, bool, error) { return azureAt(v, "22") },
			says: "these disks have no LUN. It is the namespace's number less one, which no method of the published API returns",
		},
		{
			name: "VMware, `disk.EnableUUID`", driver: vsphere, way: inProcess,
			disk: func(i int) simnode.Disk {
				return simnode.Disk{Bus: "sas", Vendor: "VMware", Product: "Virtual disk", Location: fmt.Sprintf("SCSI%d", i),
					Identifiers: []simnode.Identifier{{CodeSet: "binary", Type: 3, Hex: vmware(i)}}}
			},
			find: func(v *visit) (uint32, bool, error) {
				return v.findByID(func(ids *disk.DiskIDs) bool { return ids.Page83 == vmware(2) })
			},
		},
		{
			name: "VMware, without", driver: vsphere, way: inProcess,
			disk: func(i int) simnode.Disk {
				return simnode.Disk{Bus: "sas", Vendor: "VMware", Product: "Virtual disk", Location: fmt.Sprintf("SCSI%d", i)}
			},
			find: func(v *visit) (uint32, bool, error) {
				return v.findByID(func(ids *disk.DiskIDs) bool { return ids.Page83 == vmware(2) })
			},
			says: "the disks have no identifier; set `disk.EnableUUID` of the virtual machine",
		},
	}
}

func azureAt(v *visit, lun string) (number uint32, found bool, err error) {
	out, err := v.disk.ListDiskLocations(v.ctx, &disk.ListDiskLocationsRequest{})
	if err != nil {
		return 0, false, err
	}
	eachEntry(out.DiskLocations, func(n uint32, l *disk.DiskLocation) bool {
		number, found = n, azureLocation(l, lun)
		return found
	})
	return number, found, nil
}

// googleBeta looks at the identifiers of v1beta2 as the driver does, which package
// remote would hide.
func googleBeta(v *visit, namespace uint64) (number uint32, found bool, err error) {
	c, err := diskv1beta2.NewClientWithPipePath(v.pipePath(diskv1beta2.GroupName, diskv1beta2.Version))
	if err != nil {
		return 0, false, err
	}
	defer c.Close()
	out, err := c.ListDiskIDs(v.ctx, &v1beta2.ListDiskIDsRequest{})
	if err != nil {
		return 0, false, err
	}
	for id, ids := range out.DiskIDs {
		var eui disk.DiskIDs
		for key, value := range ids.Identifiers {
			if strings.Contains(strings.ToLower(key), "eui") || strings.HasPrefix(value, "eui.") {
				eui.Page83 = value
			}
		}
		if eui.Page83 == "" {
			eui.SerialNumber = ids.Identifiers["SerialNumber"]
		}
		if n, ok := googleNamespace(&eui); ok && n == namespace {
			_, err := fmt.Sscan(id, &number)
			return number, true, err
		}
	}
	return 0, false, nil
}
