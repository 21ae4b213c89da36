// Package cloud stands in for a cloud in tests of a CSI driver's node service: it creates
// volumes, and attaches their disks to a simulated node as the cloud would present them.
//
//	c, err := cloud.Named("gce")
//	controller := cloud.New(node, c)
//	address, err := controller.Start(ctx)  // a CSI controller, for csi-sanity
//	metadata, err := controller.StartMetadata(ctx)
//
// [Clouds] are the presets: the IDs of volumes, what ControllerPublishVolume returns, and
// the serial number, identifiers, address and location of a disk. [Controller.Metadata] is
// the metadata server that drivers ask which node they run on.
//
// What a disk presents was printed by real nodes where a preset does not say otherwise. The disks
// of the simulated node cannot show anything else of a cloud, such as delays.
package cloud

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// Cloud is how a cloud names volumes and presents their disks on a Windows node.
type Cloud struct {
	Name string // such as "gce-nvme"

	id      func(d digest) string
	disk    func(v volume) simnode.Disk // nil if nothing is attached
	own     []simnode.Disk              // of the machine itself
	publish func(v volume) map[string]string
	context func(v volume) map[string]string
	secrets map[string]string
	make    func(n *simnode.Node, v volume) error // of what the node reaches through the network; may be repeated, and nil for nothing
}

// volume is what presets know of a volume.
type volume struct {
	id     string
	digest digest
	slot   int // among the attached disks, from 0
}

// digest is of a volume's name.
type digest [sha256.Size]byte

func (d digest) hex(digits int) string { return fmt.Sprintf("%x", d[:])[:digits] }

// VolumeID returns the ID that a volume of this name has.
func (c Cloud) VolumeID(name string) string { return c.id(digestOf(c.Name, name)) }

func digestOf(cloud, name string) digest { return sha256.Sum256([]byte(cloud + " " + name)) }

// attached reports whether the disks of volumes are attached to the node. If not, the node
// reaches them through the network.
func (c Cloud) attached() bool { return c.disk != nil }

// Secrets returns the secrets with which nodes reach volumes, by the names that drivers of
// the cloud know.
func (c Cloud) Secrets() map[string]string { return maps.Clone(c.secrets) }

// Clouds returns the presets. The first of each cloud is the one of its newer machines.
func Clouds() []Cloud {
	ebs := func(d digest) string { return "vol-0" + d.hex(16) }
	pd := func(d digest) string { return "projects/" + project + "/zones/" + zone + "/disks/pvc-" + d.hex(12) }
	azure := func(d digest) string {
		return "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lab/providers/Microsoft.Compute/disks/pvc-" + d.hex(12)
	}
	devicePath := func(v volume) map[string]string {
		return map[string]string{"devicePath": fmt.Sprintf("xvd%c%c", 'b'+v.slot/26, 'a'+v.slot%26)}
	}
	serial := func(d digest) string { return "vol-" + d.hex(16) }
	lun := func(slot int) map[string]string { return map[string]string{"LUN": fmt.Sprint(slot)} }
	// The first volume has the LUN of the temporary disk, and the second that of Windows' disk.
	scsiLUN := func(v volume) int { return v.slot ^ 1 }
	pvc := func(d digest) string { return "pvc-" + d.hex(12) }
	smb := map[string]string{"username": user, "password": password}
	return []Cloud{
		// EC2, NVMe.
		{Name: "ebs", id: ebs, publish: devicePath,
			disk: func(v volume) simnode.Disk {
				return simnode.Disk{Bus: "nvme", Product: "Amazon Elastic Block Store", Serial: compact(v.id) + "_00000001."}
			}},
		// EC2, paravirtual; assumed: the driver looks for this serial number, and what a node prints was not seen.
		{Name: "ebs-scsi", id: ebs, publish: devicePath,
			disk: func(v volume) simnode.Disk {
				return simnode.Disk{Bus: "scsi", Vendor: "AWS", Product: "PVDISK", Serial: compact(v.id),
					Address: &simnode.Address{Target: uint8(v.slot + 1)}}
			}},
		// GCE, NVMe; according to the driver's code.
		{Name: "gce-nvme", id: pd,
			disk: func(v volume) simnode.Disk {
				return simnode.Disk{Bus: "nvme", Product: "nvme_card-pd", Serial: namespaceSerial(v.namespace())}
			}},
		// GCE, SCSI.
		{Name: "gce", id: pd,
			disk: func(v volume) simnode.Disk {
				return simnode.Disk{Bus: "scsi", Vendor: "Google", Product: "PersistentDisk", Serial: strings.Repeat(" ", 20),
					Location:    fmt.Sprintf("PCI Slot 3 : Adapter 0 : Port 0 : Target %d : LUN 0", v.slot+1),
					Address:     &simnode.Address{Target: uint8(v.slot + 1)},
					Identifiers: []simnode.Identifier{{CodeSet: "ascii", Type: 1, Text: "Google  " + base(v.id)}}}
			}},
		// Azure, NVMe.
		{Name: "azure-nvme", id: azure,
			publish: func(v volume) map[string]string { return lun(v.slot) },
			disk: func(v volume) simnode.Disk {
				return simnode.Disk{Bus: "nvme", Product: "MSFT NVMe Accelerator v1.0",
					Location: fmt.Sprintf("Integrated : Bus %d : Device 0 : Function 0 : Adapter 0", 12606208+v.slot)}
			}},
		// Azure, SCSI.
		{Name: "azure", id: azure,
			publish: func(v volume) map[string]string { return lun(scsiLUN(v)) },
			// The temporary disk is on the adapter of the disk of Windows, which has LUN 0, and has
			// the LUN of a data disk (azuredisk-csi-driver issue 2661).
			own: []simnode.Disk{{ID: "azure-temporary", Size: gib, Content: "mbr", Partitions: []simnode.Partition{{FileSystem: "NTFS", Label: "Temporary Storage", Letter: "T"}},
				Bus: "sas", Vendor: "Msft", Product: "Virtual Disk", Address: &simnode.Address{Lun: 1}, Offline: new(bool), ReadOnly: new(bool),
				Location: "Integrated : Bus 0 : Device 63667 : Function 30746 : Adapter 0 : Port 0 : Target 0 : LUN 1"}},
			disk: func(v volume) simnode.Disk {
				return simnode.Disk{Bus: "sas", Vendor: "Msft", Product: "Virtual Disk", Address: &simnode.Address{Port: 1, Lun: uint8(scsiLUN(v))},
					Location:    fmt.Sprintf("Integrated : Bus 0 : Device 63667 : Function 30747 : Adapter 1 : Port 0 : Target 0 : LUN %d", scsiLUN(v)),
					Identifiers: []simnode.Identifier{{CodeSet: "binary", Type: 3, Hex: "60022480" + v.digest.hex(24)}}}
			}},
		// vSphere, with disk.EnableUUID.
		{Name: "vsphere",
			id: func(d digest) string {
				h := d.hex(32)
				return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
			},
			publish: func(v volume) map[string]string {
				return map[string]string{"diskUUID": vmdk(v.digest), "type": "vSphere CNS Block Volume"}
			},
			disk: func(v volume) simnode.Disk {
				return simnode.Disk{Bus: "sas", Vendor: "VMware", Product: "Virtual disk", Location: "SCSI0",
					Identifiers: []simnode.Identifier{{CodeSet: "binary", Type: 3, Hex: vmdk(v.digest)}}}
			}},
		// The example driver; according to its code.
		{Name: "example",
			id:      func(d digest) string { return "disk#" + serial(d) },
			publish: func(v volume) map[string]string { return map[string]string{"serialNumber": serial(v.digest)} },
			disk:    func(v volume) simnode.Disk { return simnode.Disk{Serial: serial(v.digest)} }},
		// The example driver, SMB; according to its code.
		{Name: "example-smb", secrets: smb,
			id:   func(d digest) string { return "smb#" + fileServer + "#" + share + "#" + pvc(d) },
			make: directory(pvc)},
		// SMB share; according to the driver's code.
		{Name: "smb", secrets: smb,
			id:      func(d digest) string { return fileServer + "/" + share + "##" + pvc(d) + "#" },
			context: func(volume) map[string]string { return map[string]string{"source": "//" + fileServer + "/" + share} }},
		// SMB, a directory of a share; according to the driver's code.
		{Name: "smb-subdir", secrets: smb,
			id: func(d digest) string { return fileServer + "/" + share + "#" + pvc(d) + "#" + pvc(d) + "#" },
			context: func(v volume) map[string]string {
				return map[string]string{"source": "//" + fileServer + "/" + share, "subDir": pvc(v.digest)}
			},
			make: directory(pvc)},
		// Azure File, SMB; according to the driver's code.
		{Name: "azurefile",
			secrets: map[string]string{"azurestorageaccountname": azureAccount, "azurestorageaccountkey": azureKey},
			id:      func(d digest) string { return "lab#" + azureAccount + "#" + pvc(d) + "###default" },
			context: func(v volume) map[string]string {
				return map[string]string{"storageAccount": azureAccount, "shareName": pvc(v.digest)}
			},
			make: azureShare},
	}
}

// Named returns a preset by its name.
func Named(name string) (Cloud, error) {
	var names []string
	for _, c := range Clouds() {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Cloud{}, fmt.Errorf("unknown cloud %q, want one of: %s", name, strings.Join(names, ", "))
}

// compact returns the ID of an EBS volume as serial numbers have it.
func compact(id string) string { return strings.ReplaceAll(id, "-", "") }

// base returns the name of a GCE disk.
func base(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// vmdk returns the UUID of a disk of VMware, which begins with VMware's number of NAA.
func vmdk(d digest) string { return "6000c29" + d.hex(25) }

// namespace returns the identifier of an NVMe namespace of GCE.
func (v volume) namespace() uint64 {
	var n uint64
	for _, b := range v.digest[:8] {
		n = n<<8 | uint64(b)
	}
	return n
}

// namespaceSerial returns what Windows prints as the serial number of a namespace with
// such an EUI-64: 16 bytes in groups of two.
func namespaceSerial(n uint64) string {
	digits := fmt.Sprintf("%016X%016X", n, 0)
	var groups []string
	for i := 0; i < len(digits); i += 4 {
		groups = append(groups, digits[i:i+4])
	}
	return strings.Join(groups, "_") + "."
}
