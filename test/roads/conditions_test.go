package roads

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// A condition is a place where drivers compare what a method returned.
type condition struct {
	name     string // of its test
	drivers  []driver
	method   string
	compares string
	hold     func(*visit) error // runs the drivers' own comparison
}

func conditions() []condition {
	return []condition{
		{
			"a directory without a volume", []driver{ebs}, "GetVolumeIDFromTargetPath",
			"the error matches `(Get-Item -Path \\S+).Target, output: , error: <nil>\\|because it does not exist`: nothing is mounted; any other error ends the call",
			func(v *visit) error {
				if err := v.kubelet(v.staging); err != nil {
					return err
				}
				for _, path := range []string{v.staging, v.staging + `-missing`} {
					if device, err := ebsDevice(v, path); device != "" || err != nil {
						return fmt.Errorf("device mounted at %s = %q, %v; want none, without an error", path, device, err)
					}
				}
				// An error that says something else must not match.
				if _, err := v.volumeAt(`C:\Windows`); err == nil || ebsAbsent.MatchString(err.Error()) {
					if v.lost != nil { // in process there are no working directories
						return fmt.Errorf("a path outside the working directories: %v, want an error that does not match", err)
					}
				}
				return nil
			},
		},
		{
			"the disk of a mounted volume", []driver{ebs}, "GetDiskNumberFromVolumeID",
			"the number, as text, equals that of the disk found by ListDiskIDs: the volume is staged already",
			func(v *visit) error {
				n, err := staged(v)
				if err != nil {
					return err
				}
				if device, err := ebsDevice(v, v.staging); err != nil || device != fmt.Sprint(n) {
					return fmt.Errorf("device mounted = %q, %v; want %d", device, err, n)
				}
				return nil
			},
		},
		{
			"the serial number has the volume ID", []driver{ebs}, "ListDiskIDs",
			"SerialNumber contains the volume ID without `-`",
			func(v *visit) error { return finds(v, func() (uint32, error) { return ebsFind(v, ebsVolume) }) },
		},
		{
			"a disk is larger than its volume", []driver{ebs}, "GetDiskStats, GetVolumeStats",
			"at stage: resize if TotalBytes of the disk ≤ TotalBytes of the volume + 4096",
			func(v *visit) error {
				n, err := staged(v)
				if err != nil {
					return err
				}
				size, volume, err := sizes(v, n)
				if err == nil && size <= volume+4096 {
					err = fmt.Errorf("disk %d bytes, volume %d; want a larger disk", size, volume)
				}
				return err
			},
		},
		{
			"page 83h ends in the device's name", []driver{gce}, "ListDiskIDs",
			"the last word of Page83 (before v1: of the identifier `page83`) equals the device's name",
			func(v *visit) error { return finds(v, func() (uint32, error) { return gceFind(v) }) },
		},
		{
			"page 83h is the disk's UUID", []driver{vsphere}, "ListDiskIDs",
			"Page83 equals the disk's UUID: lower-case hexadecimal digits without `-`",
			func(v *visit) error { return finds(v, func() (uint32, error) { return vsphereFind(v) }) },
		},
		{
			"the LUN", []driver{azureDisk}, "ListDiskLocations",
			"LUNID equals the LUN as a decimal number, without case",
			func(v *visit) error { return finds(v, func() (uint32, error) { return azureFind(v) }) },
		},
		{
			"a partitioned disk has a volume", []driver{ebs, gce, azureDisk, vsphere}, "ListVolumesOnDisk",
			"after PartitionDisk, the first volume ID is used. GCE PD reports an empty list; the others panic",
			func(v *visit) error {
				n, err := v.number()
				if err != nil {
					return err
				}
				if _, err := v.disk.PartitionDisk(v.ctx, &disk.PartitionDiskRequest{DiskNumber: n}); err != nil {
					return err
				}
				list, err := v.volume.ListVolumesOnDisk(v.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: n})
				if err == nil && len(list.VolumeIDs) != 1 {
					err = fmt.Errorf("volumes %q, want one", list.VolumeIDs)
				}
				return err
			},
		},
		{
			"a new volume is not formatted", []driver{ebs, gce, azureDisk, vsphere}, "IsVolumeFormatted",
			"FormatVolume is called if, and only if, Formatted is false",
			func(v *visit) error {
				n, err := v.number()
				if err != nil {
					return err
				}
				if _, err := v.disk.PartitionDisk(v.ctx, &disk.PartitionDiskRequest{DiskNumber: n}); err != nil {
					return err
				}
				list, err := v.volume.ListVolumesOnDisk(v.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: n})
				if err != nil {
					return err
				}
				for _, want := range []bool{false, true} {
					out, err := v.volume.IsVolumeFormatted(v.ctx, &volume.IsVolumeFormattedRequest{VolumeID: list.VolumeIDs[0]})
					if err != nil || out.Formatted != want {
						return fmt.Errorf("formatted = %v, %v; want %t", out, err, want)
					}
					if _, err := v.volume.FormatVolume(v.ctx, &volume.FormatVolumeRequest{VolumeID: list.VolumeIDs[0]}); err != nil {
						return err
					}
				}
				return nil
			},
		},
		{
			"a missing staging path", []driver{gce, vsphere, azureDisk, azureFile, smbDriver, smbBeta, trident}, "PathExists",
			"Exists is false, without an error: the volume is unstaged, or nothing is to be removed before a mount",
			func(v *visit) error {
				if exists, err := v.exists(v.staging); exists || err != nil {
					return fmt.Errorf("before: %t, %v; want false", exists, err)
				}
				if err := v.kubelet(v.staging); err != nil {
					return err
				}
				if exists, err := v.exists(v.staging); !exists || err != nil {
					return fmt.Errorf("after: %t, %v; want true", exists, err)
				}
				return nil
			},
		},
		{
			"a directory is not a link", []driver{ebs, gce, azureDisk, azureFile, smbDriver, smbBeta, trident, vsphere}, "IsSymlink",
			"IsSymlink (IsMountPoint in filesystem v1beta1) is false: not mounted. GCE PD takes an error for the same",
			func(v *visit) error {
				if err := v.kubelet(v.staging, parent(v.target)); err != nil {
					return err
				}
				if is, err := v.isLink(normal(v.staging)); is || err != nil {
					return fmt.Errorf("a directory: %t, %v; want false", is, err)
				}
				if err := v.link(v.staging, v.target); err != nil {
					return err
				}
				if is, err := v.isLink(normal(v.target)); !is || err != nil {
					return fmt.Errorf("a link: %t, %v; want true", is, err)
				}
				if is, err := v.isLink(normal(v.staging) + `-missing`); is || err == nil {
					return fmt.Errorf("a missing path: %t, %v; want an error", is, err)
				}
				return nil
			},
		},
		{
			"a staged volume is a link", []driver{gce, azureDisk, vsphere, azureFile, smbDriver, smbBeta, trident}, "IsSymlink",
			"IsSymlink is true for a mounted volume and for a link to a share: staged already",
			func(v *visit) error {
				if err := v.kubelet(v.staging); err != nil {
					return err
				}
				var err error
				if v.id == "" {
					if err = v.rmdir(v.staging); err == nil {
						err = v.mapShare(normal(v.staging))
					}
				} else {
					var n uint32
					if n, err = v.number(); err == nil {
						err = v.formatAndMount(n, normal(v.staging), true)
					}
				}
				if err != nil {
					return err
				}
				if is, err := v.isLink(normal(v.staging)); !is || err != nil {
					return fmt.Errorf("staged: %t, %v; want true", is, err)
				}
				return nil
			},
		},
		{
			"a discovered volume is a link", []driver{local}, "IsSymlink",
			"IsSymlink is true for a mounted volume; otherwise discovery fails",
			func(v *visit) error {
				if is, err := v.isLink(found); !is || err != nil {
					return fmt.Errorf("mounted: %t, %v; want true", is, err)
				}
				if err := v.kubelet(discovery + `\plain`); err != nil {
					return err
				}
				if is, err := v.isLink(discovery + `\plain`); is || err != nil {
					return fmt.Errorf("a directory: %t, %v; want false", is, err)
				}
				return nil
			},
		},
		{
			"a link to a share that is no longer mapped", []driver{azureFile, smbDriver, smbBeta}, "IsSymlink",
			"IsSymlink is false: map the share again. An error ends the call, unless the driver itself gets Windows error 53, 64, 65, 66, 67, 1219 or 1326 for the path",
			func(v *visit) error {
				if err := v.kubelet(parent(v.staging)); err != nil {
					return err
				}
				if err := v.mapShare(normal(v.staging)); err != nil {
					return err
				}
				if err := v.node.Reboot(); err != nil { // of a node that loses its mappings
					return err
				}
				if is, err := v.isLink(normal(v.staging)); is || err != nil {
					return fmt.Errorf("%t, %v; want false", is, err)
				}
				return nil
			},
		},
		{
			"the disk's size after a resize", []driver{gce}, "GetDiskStats",
			"TotalBytes ≥ the bytes asked for",
			func(v *visit) error {
				n, err := grown(v)
				if err != nil {
					return err
				}
				size, _, err := sizes(v, n)
				if err == nil && size < v.want {
					err = fmt.Errorf("the disk has %d bytes, want %d", size, v.want)
				}
				return err
			},
		},
		{
			"the volume's size after a resize", []driver{azureDisk}, "GetVolumeStats",
			"TotalBytes, rounded up to GiB, ≥ the GiB asked for; compared before the resize, too, which therefore never happens",
			func(v *visit) error {
				n, err := grown(v)
				if err != nil {
					return err
				}
				id, err := onDisk(v, n)
				if err != nil {
					return err
				}
				return azureLargeEnough(v, id)
			},
		},
		{
			"the disk has its new size after a rescan", []driver{vsphere}, "GetDiskStats",
			"no resize if the bytes asked for exceed TotalBytes of the disk by less than 1 MiB; after the rescan that it makes before, they do not",
			func(v *visit) error {
				n, err := grown(v)
				if err != nil {
					return err
				}
				size, _, err := sizes(v, n)
				if err == nil && v.want-size >= 1<<20 {
					err = fmt.Errorf("the disk has %d bytes, want %d", size, v.want)
				}
				return err
			},
		},
		{
			"the serial number of the machine", []driver{vsphere}, "GetBIOSSerialNumber",
			"`VMware-` and 16 bytes in hexadecimal, with blanks and `-` between them",
			func(v *visit) error {
				out, err := v.node.System().GetBIOSSerialNumber(v.ctx, &system.GetBIOSSerialNumberRequest{})
				if err != nil {
					return err
				}
				digits, ok := strings.CutPrefix(strings.TrimSpace(out.SerialNumber), "VMware-")
				b, err := hex.DecodeString(strings.NewReplacer(" ", "", "-", "").Replace(digits))
				if !ok || err != nil || len(b) != 16 {
					return fmt.Errorf("serial number %q, want VMware- and 16 bytes", out.SerialNumber)
				}
				return nil
			},
		},
		{
			"a directory is removed with its contents", []driver{ebs, gce, azureDisk, azureFile, smbDriver, smbBeta, trident, vsphere}, "Rmdir",
			"no error, also for a path that does not exist: the path is free, or the step is done",
			func(v *visit) error {
				if err := v.kubelet(v.target + `\left\over`); err != nil {
					return err
				}
				for range 2 {
					if err := v.rmdir(v.target); err != nil {
						return err
					}
				}
				return nil
			},
		},
		{
			"a link that exists already", []driver{azureDisk, azureFile, gce, smbDriver, smbBeta, trident, ebs, vsphere}, "CreateSymlink",
			"no error (LinkPath in filesystem v1beta1: also an empty `error` in the response)",
			func(v *visit) error {
				if err := v.kubelet(v.staging, parent(v.target)); err != nil {
					return err
				}
				for range 2 {
					if err := v.link(v.staging, v.target); err != nil {
						return err
					}
				}
				return nil
			},
		},
	}
}

// finds reports an error unless find returns the driver's disk, among the others of the node.
func finds(v *visit, find func() (uint32, error)) error {
	want, err := v.number()
	if err != nil {
		return err
	}
	if n, err := find(); err != nil || n != want {
		return fmt.Errorf("found disk %d, %v; want %d", n, err, want)
	}
	if err := v.node.DetachDisk(want); err != nil {
		return err
	}
	if n, err := find(); err == nil {
		return fmt.Errorf("found disk %d, which is another one", n)
	}
	return nil
}

// staged stages the driver's volume.
func staged(v *visit) (uint32, error) {
	if err := v.kubelet(v.staging); err != nil {
		return 0, err
	}
	n, err := v.number()
	if err != nil {
		return 0, err
	}
	return n, v.formatAndMount(n, normal(v.staging), true)
}

// grown stages the driver's volume, and expands it with its disk.
func grown(v *visit) (uint32, error) {
	n, err := staged(v)
	if err != nil {
		return 0, err
	}
	v.want = 2 * gib
	if err := v.node.GrowDisk(n, simnode.Size(v.want)); err != nil {
		return 0, err
	}
	if _, err := v.disk.Rescan(v.ctx, &disk.RescanRequest{}); err != nil {
		return 0, err
	}
	id, err := onDisk(v, n)
	if err != nil {
		return 0, err
	}
	return n, v.resize(id)
}

func onDisk(v *visit, n uint32) (string, error) {
	list, err := v.volume.ListVolumesOnDisk(v.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: n})
	if err != nil {
		return "", err
	}
	if len(list.VolumeIDs) == 0 {
		return "", errors.New("no volume")
	}
	return list.VolumeIDs[0], nil
}

func sizes(v *visit, n uint32) (disk, volume int64, err error) {
	id, err := onDisk(v, n)
	if err != nil {
		return 0, 0, err
	}
	if disk, err = v.diskSize(n); err != nil {
		return 0, 0, err
	}
	volume, err = v.sizeOf(id)
	return disk, volume, err
}

// Each comparison that a driver makes has the result that the driver needs, in every
// version of the API that the driver falls back to.
func TestConditions(t *testing.T) {
	for _, c := range conditions() {
		t.Run(c.name, func(t *testing.T) {
			for _, d := range c.drivers {
				for _, w := range d.ways {
					t.Run(d.name+", "+w.name, func(t *testing.T) {
						t.Parallel()
						v := arrive(t, d, w, world{node: func(n *simnode.Config) {
							n.World = behavior.In("", behavior.Windows{SMBAfterReboot: behavior.SMBAbsent})
							n.Firmware.SerialNumber = "VMware-42 29 92 4b 83 35 d9 77-f3 82 cf 46 56 61 ac 60"
						}})
						if err := c.hold(v); err != nil {
							t.Errorf("%s: %v", c.compares, err)
						}
					})
				}
			}
		})
	}
}

// What a driver would do with another response: the comparisons can fail.
func TestComparisonsCanFail(t *testing.T) {
	if ebsAbsent.MatchString("find the volume mounted at \"C:\\x\": not a mounted folder") {
		t.Error("EBS's expression matches a text without what it looks for")
	}
	if ebsSerial("vol0000_00000001.", ebsVolume) || googlePage83("Google persistent-disk-10", googleDevice) || azureLocation(&disk.DiskLocation{LUNID: "17"}, "7") {
		t.Error("a comparison takes the wrong disk for the right one")
	}
}
