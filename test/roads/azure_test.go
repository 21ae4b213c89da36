package roads

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// onWindowsAdapter returns a disk of an Azure machine of generation 2 on the adapter of Windows' own.
func onWindowsAdapter(lun uint32, d simnode.Disk) simnode.Disk {
	d.Bus, d.Vendor, d.Product, d.Address = "sas", "Msft", "Virtual Disk", &simnode.Address{Lun: uint8(lun)}
	d.Location = fmt.Sprintf("Integrated : Bus 0 : Device 63667 : Function 30746 : Adapter 0 : Port 0 : Target 0 : LUN %d", lun)
	return d
}

var temporaryDisk = simnode.Disk{Size: 4 * gib, Content: "mbr", Partitions: []simnode.Partition{{FileSystem: "NTFS", Label: "Temporary Storage", Letter: "D"}}}

// Azure's driver looks for a LUN, and takes whichever disk has it. On Azure's machines of
// generation 2, the disk of Windows and the temporary disk are on an adapter of their own, and
// have the LUNs 0 and 1, as data disks do (azuredisk-csi-driver issue 2661).
func TestAzureDisksWithOneLUN(t *testing.T) {
	for name, luns := range map[string][2]uint32{"the temporary disk": {0, azureLUN}, "the disk of Windows": {azureLUN, 1}} {
		for _, w := range azureDisk.ways {
			t.Run(name+", "+w.name, func(t *testing.T) {
				life := func(node func(*simnode.Config)) (v *visit, notes string) {
					d := azureDisk
					d.expand = nil // it fails on every node
					j := &journey{v: arrive(t, d, w, world{node: node}), d: d}
					err := j.life(reboot, j.twice)
					if err == nil {
						err = j.after()
					}
					if err != nil {
						t.Fatalf("%v: %s", err, j.result())
					}
					return j.v, j.result()
				}
				_, usual := life(func(c *simnode.Config) {
					keepsNumbers(c)
					c.Disks = []simnode.Disk{{Content: "system"}, {Size: gib}}
				})
				for range 8 { // the driver looks through the disks in random order
					v, notes := life(func(c *simnode.Config) {
						keepsNumbers(c)
						c.Disks = []simnode.Disk{onWindowsAdapter(luns[0], simnode.Disk{Content: "system"}), onWindowsAdapter(luns[1], temporaryDisk)}
						c.Registry = map[string][]string{`SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\ExistingPageFiles`: {`\??\D:\pagefile.sys`}}
					})
					state, err := v.node.Show()
					if err != nil || notes != usual {
						t.Fatalf("%v: %s; usually %s", err, notes, usual)
					}
					if temporary, data := state.Disks[1].Style, state.Disks[2].Style; temporary != "MBR" || data != "GPT" {
						t.Fatalf("the temporary disk is %s, and the data disk %s; want MBR and GPT", temporary, data)
					}
				}
			})
		}
	}
	// While the data disk is on its way, its LUN is that of no disk.
	v := arrive(t, azureDisk, azureDisk.ways[0], world{node: func(c *simnode.Config) {
		c.Disks = []simnode.Disk{onWindowsAdapter(0, simnode.Disk{Content: "system"}), onWindowsAdapter(azureLUN, temporaryDisk)}
	}})
	number, err := v.number()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.node.DetachDisk(number); err != nil {
		t.Fatal(err)
	}
	if _, err := v.disk.Rescan(v.ctx, &disk.RescanRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := azureDisk.stage(v); err == nil || !strings.Contains(err.Error(), "no disk has LUN") {
		t.Errorf("stage without the data disk: %v, want no disk with its LUN", err)
	}
}
