package roads

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// A driver is a script of calls, and of decisions about what they return.
type driver struct {
	name   string
	repo   string
	commit string // of the code that was read
	ways   []way
	// volume is the disk that the cloud attaches. nil for drivers of SMB shares.
	volume *simnode.Disk
	// rescans says whether the driver rescans before it looks for a disk. Others rely on
	// plug and play.
	rescans bool

	// prepare is what an administrator does before the driver. nil for nothing.
	prepare                                           func(*visit) error
	stage, publish, stats, expand, unpublish, unstage step // nil if the driver has none
}

type step func(*visit) error

// eachEntry calls f for the entries of a map in random order, as Go's range does, until
// it returns true. Drivers take the first match, so their result must not depend on it.
func eachEntry[V any](m map[uint32]V, f func(uint32, V) bool) {
	keys := make([]uint32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, k := range keys {
		if f(k, m[k]) {
			return
		}
	}
}

func (v *visit) findByID(match func(*disk.DiskIDs) bool) (uint32, bool, error) {
	out, err := v.disk.ListDiskIDs(v.ctx, &disk.ListDiskIDsRequest{})
	if err != nil {
		return 0, false, err
	}
	var number uint32
	found := false
	eachEntry(out.DiskIDs, func(n uint32, ids *disk.DiskIDs) bool {
		number, found = n, match(ids)
		return found
	})
	return number, found, nil
}

// AWS EBS.

const ebsVolume = "vol-02190fee5da4d75e3"

func ebsFind(v *visit, volumeID string) (uint32, error) {
	n, found, err := v.findByID(func(ids *disk.DiskIDs) bool { return ebsSerial(ids.SerialNumber, volumeID) })
	if err == nil && !found {
		err = fmt.Errorf("no disk has a serial number with volume ID %q", volumeID)
	}
	return n, err
}

// ebsSerial: the serial number contains the volume ID without its hyphens.
func ebsSerial(serial, volumeID string) bool {
	return strings.Contains(serial, strings.ReplaceAll(volumeID, "-", ""))
}

// ebsAbsent: these texts mean "nothing is mounted here", any other is a failure. The
// expression is the driver's, with its parentheses, which group instead of matching.
var ebsAbsent = regexp.MustCompile(`(Get-Item -Path \S+).Target, output: , error: <nil>|because it does not exist`)

// ebsDevice returns the disk that is mounted, or "".
func ebsDevice(v *visit, path string) (string, error) {
	id, err := v.volumeAt(normal(path))
	if err == nil {
		var n uint32
		if n, err = v.diskOf(id); err == nil {
			return strconv.Itoa(int(n)), nil
		}
	}
	if ebsAbsent.MatchString(err.Error()) {
		return "", nil
	}
	return "", err
}

var ebs = driver{
	name: "AWS EBS", repo: "kubernetes-sigs/aws-ebs-csi-driver", commit: "429e202e5897",
	ways:   []way{served("v1", "disk/v1", "volume/v1", "filesystem/v1"), inProcess},
	volume: &simnode.Disk{Bus: "nvme", Serial: "vol02190fee5da4d75e3_00000001."},
	stage: func(v *visit) error {
		n, err := ebsFind(v, ebsVolume)
		if err != nil {
			return err
		}
		exists, err := v.exists(v.staging)
		if err != nil {
			return err
		}
		if !exists {
			if err := v.mkdir(v.staging); err != nil {
				return err
			}
		}
		device, err := ebsDevice(v, v.staging)
		if err != nil || device == strconv.Itoa(int(n)) {
			return err
		}
		if err := v.formatAndMount(n, normal(v.staging), true); err != nil {
			return err
		}
		// It ignores a failed rescan. It resizes if the file system is not smaller than
		// the disk by more than a block.
		_, _ = v.disk.Rescan(v.ctx, &disk.RescanRequest{})
		size, err := v.diskSize(n)
		if err != nil {
			return err
		}
		id, err := v.volumeAt(normal(v.staging))
		if err != nil {
			return err
		}
		used, err := v.sizeOf(id)
		if err != nil || size > used+4096 {
			return err
		}
		return v.resize(id)
	},
	publish: func(v *visit) error {
		if err := v.clear(v.target); err != nil {
			return err
		}
		exists, err := v.exists(v.target)
		if err != nil {
			return err
		}
		if exists {
			is, err := v.isLink(normal(v.target))
			if err != nil || is {
				return err
			}
		}
		return v.link(v.staging, v.target)
	},
	stats: func(v *visit) error {
		exists, err := v.exists(v.target)
		if err == nil && !exists {
			err = errors.New("the path does not exist")
		}
		return err
	},
	expand: func(v *visit) error {
		if _, err := ebsDevice(v, v.target); err != nil {
			return err
		}
		n, err := ebsFind(v, ebsVolume)
		if err != nil {
			return err
		}
		_, _ = v.disk.Rescan(v.ctx, &disk.RescanRequest{})
		id, err := v.volumeAt(normal(v.target))
		if err != nil {
			return err
		}
		if err := v.resize(id); err != nil {
			return err
		}
		_, err = v.diskSize(n)
		return err
	},
	unpublish: func(v *visit) error { return v.rmdir(v.target) },
	unstage: func(v *visit) error {
		device, err := ebsDevice(v, v.staging)
		if err != nil || device == "" {
			return err
		}
		return v.unmount(normal(v.staging))
	},
}

// GCE PD.

// googlePage83: the last word of the identifier is the name of the device.
func googlePage83(page83, device string) bool {
	words := strings.Fields(page83)
	return len(words) > 0 && words[len(words)-1] == device
}

const googleDevice = "persistent-disk-1"

func gceFind(v *visit) (uint32, error) {
	n, found, err := v.findByID(func(ids *disk.DiskIDs) bool { return googlePage83(ids.Page83, googleDevice) })
	if err == nil && !found {
		err = fmt.Errorf("no disk has page 83h of device %q", googleDevice)
	}
	return n, err
}

// gceMounted ignores errors.
func gceMounted(v *visit, path string) bool {
	is, err := v.isLink(path)
	return err == nil && is
}

func gceResize(v *visit, path string) error {
	id, err := v.volumeAt(path)
	if err != nil {
		return err
	}
	return v.resize(id)
}

var gce = driver{
	name: "GCE PD", repo: "kubernetes-sigs/gcp-compute-persistent-disk-csi-driver", commit: "b560165c3508",
	ways: []way{
		served("v1", "disk/v1", "volume/v1", "filesystem/v1"),
		served("v1beta", "disk/v1beta2", "volume/v1beta1", "filesystem/v1beta1"),
	},
	volume: &simnode.Disk{Bus: "scsi", Vendor: "Google", Product: "PersistentDisk", Serial: strings.Repeat(" ", 20),
		Identifiers: []simnode.Identifier{{CodeSet: "ascii", Type: 1, Text: "Google  " + googleDevice}}},
	stage: func(v *visit) error {
		n, err := gceFind(v)
		if err != nil {
			return err
		}
		if gceMounted(v, v.staging) {
			return nil
		}
		if _, err := v.diskSize(n); err != nil {
			return err
		}
		if err := v.formatAndMount(n, v.staging, true); err != nil {
			return err
		}
		return gceResize(v, v.staging)
	},
	publish: func(v *visit) error {
		if gceMounted(v, v.target) {
			return nil
		}
		if err := v.clear(v.target); err != nil {
			return err
		}
		return v.link(v.staging, v.target)
	},
	stats: volumeStats,
	expand: func(v *visit) error {
		n, err := gceFind(v)
		if err != nil {
			return err
		}
		if err := gceResize(v, v.target); err != nil {
			return err
		}
		size, err := v.diskSize(n)
		if err == nil && size < v.want {
			err = fmt.Errorf("after the resize the disk has %d bytes, want %d", size, v.want)
		}
		return err
	},
	unpublish: func(v *visit) error { return v.rmdir(v.target) },
	unstage: func(v *visit) error {
		exists, err := v.exists(v.staging)
		if err != nil || !exists {
			return err
		}
		err = v.unmount(normal(v.staging))
		if err != nil && strings.Contains(err.Error(), "not a mounted folder") {
			err = fmt.Errorf("the driver returns an error if the volume is already unmounted: %w", err)
		}
		return err
	},
}

// volumeStats is how all block drivers but EBS get their figures.
func volumeStats(v *visit) error {
	id, err := v.volumeAt(v.target)
	if err != nil {
		return err
	}
	out, err := v.volume.GetVolumeStats(v.ctx, &volume.GetVolumeStatsRequest{VolumeID: id})
	if err != nil {
		return err
	}
	if out.UsedBytes > out.TotalBytes {
		return fmt.Errorf("available bytes are negative: total %d, used %d", out.TotalBytes, out.UsedBytes)
	}
	return nil
}

// Azure Disk.

const azureLUN = 7

// azureLocation: LUNs are compared as texts.
func azureLocation(l *disk.DiskLocation, lun string) bool { return strings.EqualFold(l.LUNID, lun) }

func azureFind(v *visit) (uint32, error) {
	out, err := v.disk.ListDiskLocations(v.ctx, &disk.ListDiskLocationsRequest{})
	if err != nil {
		return 0, err
	}
	var number uint32
	found := false
	eachEntry(out.DiskLocations, func(n uint32, l *disk.DiskLocation) bool {
		number, found = n, azureLocation(l, strconv.Itoa(azureLUN))
		return found
	})
	if !found {
		return 0, fmt.Errorf("no disk has LUN %d", azureLUN)
	}
	return number, nil
}

// azureUnmount flushes if it can, and removes the directory.
func azureUnmount(v *visit, path string) error {
	if id, err := v.volumeAt(path); err == nil {
		_, _ = v.volume.WriteVolumeCache(v.ctx, &volume.WriteVolumeCacheRequest{VolumeID: id})
	}
	return v.rmdir(path)
}

// azureLargeEnough compares in GiB, rounded up, before and after a resize.
func azureLargeEnough(v *visit, id string) error {
	size, err := v.sizeOf(id)
	if err != nil {
		return err
	}
	if have, want := (size+gib-1)/gib, (v.want+gib-1)/gib; have < want {
		return fmt.Errorf("the volume has %d GiB, want %d", have, want)
	}
	return nil
}

var azureDisk = driver{
	name: "Azure Disk", repo: "kubernetes-sigs/azuredisk-csi-driver", commit: "d983d613b6dd",
	ways: []way{
		served("v1", "disk/v1", "volume/v1", "filesystem/v1"),
		served("v1beta", "disk/v1beta2", "volume/v1beta2", "filesystem/v1beta1"),
	},
	volume: &simnode.Disk{Bus: "sas", Vendor: "Msft", Product: "Virtual Disk", Address: &simnode.Address{Lun: azureLUN}}, rescans: true,
	stage: func(v *visit) error {
		_, _ = v.disk.Rescan(v.ctx, &disk.RescanRequest{})
		n, err := azureFind(v)
		if err != nil {
			return err
		}
		mounted, err := v.linked(v.staging, func(p string) error { return azureUnmount(v, p) })
		if err != nil || mounted {
			return err
		}
		err = v.formatAndMount(n, normal(v.staging), false)
		if errors.Is(err, errNoVolume) {
			return errors.New("the driver panics: it leaves the disk offline, and uses the first of no volumes")
		}
		if err != nil {
			return err
		}
		// It passes the number of the disk where the method wants the ID of a volume.
		return v.resize(strconv.Itoa(int(n)))
	},
	publish: func(v *visit) error {
		if err := v.clear(v.target); err != nil {
			return err
		}
		mounted, err := v.linked(v.target, func(p string) error { return azureUnmount(v, p) })
		if err != nil || mounted {
			return err
		}
		return v.link(v.staging, v.target)
	},
	stats: volumeStats,
	expand: func(v *visit) error {
		id, err := v.volumeAt(normal(v.target))
		if err != nil {
			return err
		}
		if err := azureLargeEnough(v, id); err != nil {
			return err
		}
		if err := v.resize(id); err != nil {
			return err
		}
		return azureLargeEnough(v, id)
	},
	unpublish: func(v *visit) error { return v.rmdir(v.target) },
	unstage:   func(v *visit) error { return azureUnmount(v, v.staging) },
}

// vSphere.

const vspherePage83 = "6000c29a98d05e384a43f0ef189aaf5a"

func vsphereFind(v *visit) (uint32, error) {
	n, found, err := v.findByID(func(ids *disk.DiskIDs) bool { return ids.Page83 != "" && ids.Page83 == vspherePage83 })
	if err == nil && !found {
		err = errors.New("no disk has the page 83h identifier")
	}
	return n, err
}

var vsphere = driver{
	name: "vSphere", repo: "kubernetes-sigs/vsphere-csi-driver", commit: "bf8090256717",
	ways: []way{inProcess},
	volume: &simnode.Disk{Bus: "sas", Vendor: "VMware", Product: "Virtual disk",
		Identifiers: []simnode.Identifier{{CodeSet: "binary", Type: 3, Hex: vspherePage83}}},
	stage: func(v *visit) error {
		n, err := vsphereFind(v)
		if err != nil {
			return err
		}
		mounted, err := v.linked(v.staging, func(p string) error { return vsphereUnstage(v) })
		if err != nil || mounted {
			return err
		}
		return v.formatAndMount(n, normal(v.staging), true)
	},
	publish: func(v *visit) error {
		if err := v.clear(v.target); err != nil {
			return err
		}
		if err := v.mkdir(parent(v.target)); err != nil {
			return err
		}
		return v.link(v.staging, v.target)
	},
	stats: volumeStats,
	expand: func(v *visit) error {
		id, err := v.volumeAt(normal(v.target))
		if err != nil {
			return err
		}
		size, err := v.sizeOf(id)
		if err != nil {
			return err
		}
		if size < v.want {
			_, _ = v.disk.Rescan(v.ctx, &disk.RescanRequest{})
		}
		n, err := v.diskOf(id)
		if err != nil {
			return err
		}
		total, err := v.diskSize(n)
		// It compares the size of the disk with the wanted one, and skips the resize if
		// less than 1 MiB is missing.
		if err != nil || v.want-total < 1<<20 {
			return err
		}
		if err := v.online(n, true); err != nil {
			return err
		}
		return v.resize(id)
	},
	unpublish: func(v *visit) error { return v.rmdir(v.target) },
	unstage:   vsphereUnstage,
}

func vsphereUnstage(v *visit) error {
	exists, err := v.exists(v.staging)
	if err != nil || !exists {
		return err
	}
	return v.unmount(normal(v.staging))
}

// The drivers of SMB shares.

func (v *visit) mapShare(local string) error {
	_, err := v.smb.NewSMBGlobalMapping(v.ctx, &smb.NewSMBGlobalMappingRequest{
		RemotePath: share, LocalPath: local, Username: user, Password: password})
	return err
}

// mountShare makes the parent directory and maps the share.
func (v *visit) mountShare() error {
	exists, err := v.exists(parent(v.staging))
	if err != nil {
		return err
	}
	if !exists {
		if err := v.mkdir(parent(v.staging)); err != nil {
			return err
		}
	}
	return v.mapShare(normal(v.staging))
}

// stageShare is how the drivers for SMB and Azure Files begin.
func stageShare(v *visit) error {
	mounted, err := v.linked(v.staging, v.rmdir)
	if err != nil || mounted {
		return err
	}
	if err := v.clear(v.staging); err != nil {
		return err
	}
	return v.mountShare()
}

func publishShare(v *visit) error {
	mounted, err := v.linked(v.target, v.rmdir)
	if err != nil || mounted {
		return err
	}
	if err := v.clear(v.target); err != nil {
		return err
	}
	return v.link(v.staging, v.target)
}

func readShare(v *visit) error {
	if !v.readable(v.target) {
		return errors.New("the path cannot be read")
	}
	return nil
}

var shareWays = []way{
	served("v1", "filesystem/v1", "smb/v1"),
	served("v1beta", "filesystem/v1beta1", "smb/v1beta1"),
}

var azureFile = driver{
	name: "Azure File", repo: "kubernetes-sigs/azurefile-csi-driver", commit: "7b5ae18e74f0",
	ways:  shareWays,
	stage: stageShare, publish: publishShare, stats: readShare,
	unpublish: func(v *visit) error { return v.rmdir(v.target) },
	unstage:   func(v *visit) error { return v.rmdir(v.staging) },
}

var smbDriver = driver{
	name: "SMB", repo: "kubernetes-csi/csi-driver-smb", commit: "95c6968057ee",
	ways: []way{served("v1", "filesystem/v1", "smb/v1")},
	stage: func(v *visit) error {
		err := stageShare(v)
		v.referenced = v.referenced || err == nil
		return err
	},
	publish: publishShare, stats: readShare,
	unpublish: func(v *visit) error { return v.rmdir(v.target) },
	// It reads the link itself, removes its own note about the volume, which must exist,
	// and the mapping before the link.
	unstage: func(v *visit) error {
		if linked, err := v.node.Filesystem().IsSymlink(v.ctx, linkAt(v.staging)); err == nil && linked.IsSymlink {
			if !v.referenced {
				return errors.New("the first call removed the driver's own note of the volume, which the second needs")
			}
			v.referenced = false
			if _, err := v.smb.RemoveSMBGlobalMapping(v.ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: share}); err != nil {
				return err
			}
		}
		return v.rmdir(v.staging)
	},
}

// smbBeta is the same driver on an old proxy: it never removes a mapping.
var smbBeta = driver{
	name: "SMB", repo: smbDriver.repo, commit: smbDriver.commit,
	ways:  []way{shareWays[1]},
	stage: stageShare, publish: publishShare, stats: readShare,
	unpublish: func(v *visit) error { return v.rmdir(v.target) },
	unstage:   func(v *visit) error { return v.rmdir(v.staging) },
}

var trident = driver{
	name: "Trident", repo: "NetApp/trident", commit: "71dd7161840c",
	ways: []way{served("v1", "filesystem/v1", "smb/v1")},
	stage: func(v *visit) error {
		if err := v.clear(v.staging); err != nil {
			return err
		}
		return v.mountShare()
	},
	publish: func(v *visit) error {
		exists, err := v.exists(v.target)
		if err != nil {
			return err
		}
		if exists {
			is, err := v.isLink(normal(v.target))
			if err != nil || is {
				return err
			}
		} else if _, err := v.node.Filesystem().Mkdir(v.ctx, directory(v.target)); err != nil {
			return err
		}
		if err := v.rmdir(v.target); err != nil {
			return err
		}
		return v.link(v.staging, v.target)
	},
	stats: readShare,
	unpublish: func(v *visit) error {
		exists, err := v.exists(v.target)
		if err != nil || !exists {
			return err
		}
		is, err := v.isLink(normal(v.target))
		if err != nil || !is {
			return err
		}
		return v.rmdir(v.target)
	},
	unstage: func(v *visit) error {
		if err := v.rmdir(v.staging); err != nil {
			return err
		}
		_, err := v.smb.RemoveSMBGlobalMapping(v.ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: share})
		return err
	},
}

// The local static provisioner: an administrator mounts the disk, the provisioner finds
// it, and formats it when the claim is gone.

const found = discovery + `\vol-1`

var local = driver{
	name: "local static provisioner", repo: "kubernetes-sigs/sig-storage-local-static-provisioner", commit: "6cbe253cb2ef",
	ways: []way{
		served("v1", "volume/v1", "filesystem/v1"),
		served("v1beta", "volume/v1beta2", "filesystem/v1beta2"),
	},
	volume: &simnode.Disk{Bus: "sas"},
	prepare: func(v *visit) error {
		n, err := v.number()
		if err != nil {
			return err
		}
		admin := visit{ctx: v.ctx, node: v.node, proxy: proxy{disk: v.node.Disk(), volume: v.node.Volume(), files: v.node.Filesystem()}}
		if err := admin.mkdir(found); err != nil {
			return err
		}
		return admin.formatAndMount(n, found, true)
	},
	// Discovery.
	stage: func(v *visit) error {
		is, err := v.isLink(found)
		if err == nil && !is {
			err = errors.New("the path is not a link: neither the driver nor the administrator took the disk online")
		}
		return err
	},
	// The kubelet links the volume into the pod.
	publish: func(v *visit) error {
		if linked, err := v.node.Filesystem().IsSymlink(v.ctx, linkAt(v.target)); err == nil && linked.IsSymlink {
			return nil
		}
		kubelet := visit{ctx: v.ctx, proxy: proxy{files: v.node.Filesystem()}}
		return kubelet.link(found, v.target)
	},
	stats: func(v *visit) error {
		id, err := v.volumeAt(found)
		if err != nil {
			return err
		}
		_, err = v.sizeOf(id)
		return err
	},
	unpublish: func(v *visit) error {
		kubelet := visit{ctx: v.ctx, proxy: proxy{files: v.node.Filesystem()}}
		return kubelet.rmdir(v.target)
	},
	// Reclaim.
	unstage: func(v *visit) error {
		id, err := v.volumeAt(found)
		if err != nil {
			return err
		}
		_, err = v.volume.FormatVolume(v.ctx, &volume.FormatVolumeRequest{VolumeID: id})
		return err
	},
}

func drivers() []driver {
	return []driver{ebs, gce, azureDisk, azureFile, smbDriver, smbBeta, vsphere, trident, local}
}
