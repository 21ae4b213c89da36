// Package mountutils makes pkg/mounter a mount.Interface of k8s.io/mount-utils, for a driver that
// has one today: the calls that Kubernetes' own package makes with PowerShell go to the node.
//
//	conn, err := pipes.Open(ctx, []string{"disk", "volume", "filesystem"}) // or inprocess.Open
//	m, err := mountutils.New(conn.Node, mountutils.Options{})
//	safe := &mount.SafeFormatAndMount{Interface: m, Exec: exec.New()}
//
// FormatAndMount of SafeFormatAndMount is no method of its Interface, and runs PowerShell. So
// drivers assert that the Interface has more methods. [Mounter] has those that Azure File and GCE PD
// assert, and of Azure Disk all but GetVolumeStats, which returns a type of CSI: a type that embeds
// Mounter adds it. A driver whose methods take a context calls pkg/mounter itself.
package mountutils

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	mount "k8s.io/mount-utils"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Options configure a Mounter. The zero value is useful.
type Options struct {
	// Mounter are the options of pkg/mounter.
	Mounter mounter.Options
	// Limit is how long a call may take, because mount.Interface has no contexts. 0 means two
	// minutes, which is the kubelet's limit.
	Limit time.Duration
	// Format is when FormatAndMount formats.
	Format mounter.Format
	// NotAdapter are adapters whose disks FindDiskByLun does not find. The existing CSI Proxy
	// needs them: those of Windows' disk and of the temporary disk.
	NotAdapter []uint32
}

// Mounter is a mount.Interface on a Windows node. Mount options have no meaning there and are
// not used, except for the credentials of a share.
type Mounter struct {
	node    mounter.Node
	m       *mounter.Mounter
	options Options
}

var _ mount.Interface = (*Mounter)(nil)

// New returns a Mounter for a node.
func New(n mounter.Node, o Options) (*Mounter, error) {
	m, err := mounter.New(n, o.Mounter)
	if err != nil {
		return nil, err
	}
	o.Limit = cmp.Or(o.Limit, 2*time.Minute)
	if o.Limit < 0 {
		return nil, hosterr.Text(hosterr.ErrInvalid, "Limit is %s, want a positive duration", o.Limit)
	}
	if o.Mounter.Log == nil {
		o.Mounter.Log = slog.Default()
	}
	if o.Mounter.Local.Readlink == nil {
		o.Mounter.Local.Readlink = os.Readlink
	}
	return &Mounter{node: n, m: m, options: o}, nil
}

// Mounter returns the Mounter of pkg/mounter, whose methods take contexts.
func (m *Mounter) Mounter() *mounter.Mounter { return m.m }

func (m *Mounter) limit() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), m.options.Limit)
}

// needs returns an error if the node was opened without a group.
func needs(group string, open bool) error {
	if !open {
		return hosterr.TextWithHint(hosterr.ErrUnimplemented, "open the group with the node", "the node was opened without the group %s", group)
	}
	return nil
}

// Mount is [Mounter.MountSensitive] without sensitive options.
func (m *Mounter) Mount(source, target, fstype string, options []string) error {
	return m.MountSensitive(source, target, fstype, options, nil)
}

// MountSensitive maps a share, \\server\share, and makes a link from target to it. Of any other
// source, which must be staged, it makes a link. The first two of the options and the sensitive
// options are the user and the password of a share; without any, it is mapped with the node's
// own account.
func (m *Mounter) MountSensitive(source, target, fstype string, options, sensitiveOptions []string) error {
	ctx, cancel := m.limit()
	defer cancel()
	remote := strings.ReplaceAll(source, "/", `\`)
	if !strings.HasPrefix(remote, `\\`) {
		return m.m.Publish(ctx, source, target)
	}
	credentials := append(slices.Clone(options), sensitiveOptions...)
	if len(options) > 1 && len(sensitiveOptions) > 0 {
		credentials = []string{options[0], sensitiveOptions[0]}
	}
	share := mounter.Share{Remote: strings.TrimRight(remote, `\`)}
	switch len(credentials) {
	case 0:
	case 1:
		return hosterr.Text(hosterr.ErrInvalid, "share %q with one option, want the user and the password, or none", share.Remote)
	default:
		share.User, share.Password = credentials[0], mounter.Secret(credentials[1])
	}
	return m.m.StageShare(ctx, share, target)
}

// MountSensitiveWithoutSystemd is [Mounter.MountSensitive].
func (m *Mounter) MountSensitiveWithoutSystemd(source, target, fstype string, options, sensitiveOptions []string) error {
	return m.MountSensitive(source, target, fstype, options, sensitiveOptions)
}

// MountSensitiveWithoutSystemdWithMountFlags is [Mounter.MountSensitive].
func (m *Mounter) MountSensitiveWithoutSystemdWithMountFlags(source, target, fstype string, options, sensitiveOptions, _ []string) error {
	return m.MountSensitive(source, target, fstype, options, sensitiveOptions)
}

// SMBMount is [Mounter.MountSensitive] of a share.
func (m *Mounter) SMBMount(source, target, fstype string, options, sensitiveOptions []string) error {
	return m.MountSensitive(source, target, fstype, options, sensitiveOptions)
}

// Unmount removes the link or the mounted volume at target, if there is one. It writes the cache
// of a volume to its disk before. The mapping of a share goes with its last link, if the driver
// itself can read the link. A directory with content is an error.
func (m *Mounter) Unmount(target string) error {
	ctx, cancel := m.limit()
	defer cancel()
	if found, err := m.unmap(ctx, target); found || err != nil {
		return err
	}
	if m.node.Volume != nil {
		id, _, err := m.m.VolumeAt(ctx, target)
		switch {
		case err == nil:
			if _, err := m.node.Volume.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeID: id}); err != nil {
				return hosterr.Wrap("unmount", hosterr.Quote(target), err)
			}
		case ctx.Err() != nil, hosterr.KindOf(err) != nil && !errors.Is(err, hosterr.ErrNotFound):
			return err
		case id != "": // its disk is not known: it may be gone, and then nothing can be written
			if _, failed := m.node.Volume.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeID: id}); failed != nil && ctx.Err() != nil {
				return failed
			}
		case hosterr.KindOf(err) == nil && m.node.SMB == nil:
			// An error of the existing proxy, which has no kind, and not that of a share.
			return err
		} // otherwise nothing is mounted, the volume is gone, or it is a share
	}
	return m.m.Remove(ctx, target)
}

// unmap removes the link at a path, and the mapping with its last link, if it is one to a share
// and the driver itself can read it.
func (m *Mounter) unmap(ctx context.Context, path string) (found bool, err error) {
	if m.node.SMB == nil {
		return false, nil
	}
	to, err := m.options.Mounter.Local.Readlink(path)
	if err != nil {
		return false, nil
	}
	if _, err := smb.ParseRemotePath(to); err != nil {
		return false, nil
	}
	return true, m.m.UnstageShare(ctx, path, to)
}

// UnmountDevice is [Mounter.Unmount].
func (m *Mounter) UnmountDevice(target string) error { return m.Unmount(target) }

// List fails: no version of the API lists mounts.
func (m *Mounter) List() ([]mount.MountPoint, error) {
	return nil, hosterr.TextWithHint(hosterr.ErrUnimplemented, "ask IsMountPoint for each path", "no version of the API lists mounts")
}

// IsLikelyNotMountPoint reports whether there is neither a mounted volume nor a link at a path.
// It fails with fs.ErrNotExist if there is nothing.
func (m *Mounter) IsLikelyNotMountPoint(file string) (bool, error) {
	ctx, cancel := m.limit()
	defer cancel()
	s, err := m.m.State(ctx, file)
	if err == nil && s == mounter.Absent {
		// Callers ask os.IsNotExist, which does not see a wrapped error.
		return true, &fs.PathError{Op: "look at", Path: file, Err: fs.ErrNotExist}
	}
	return s != mounter.Linked, err
}

// IsMountPoint is the opposite of [Mounter.IsLikelyNotMountPoint].
func (m *Mounter) IsMountPoint(file string) (bool, error) {
	not, err := m.IsLikelyNotMountPoint(file)
	return err == nil && !not, err
}

// CanSafelySkipMountPointCheck returns false.
func (m *Mounter) CanSafelySkipMountPointCheck() bool { return false }

// GetMountRefs returns the path itself if there is a mounted volume or a link: Windows cannot
// list more. As with mount-utils, a path where nothing is has none.
func (m *Mounter) GetMountRefs(pathname string) ([]string, error) {
	is, err := m.IsMountPoint(pathname)
	if os.IsNotExist(err) || err == nil && !is {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []string{pathname}, nil
}

// IsMountPointMatch reports whether a mount point is at a path.
func (m *Mounter) IsMountPointMatch(mp mount.MountPoint, dir string) bool { return mp.Path == dir }

// EvalHostSymlinks returns the target of a link, which the driver itself reads.
func (m *Mounter) EvalHostSymlinks(pathname string) (string, error) {
	return m.options.Mounter.Local.Readlink(pathname)
}

// ExistsPath reports whether there is something at a path. It does not follow a link.
func (m *Mounter) ExistsPath(path string) (bool, error) {
	ctx, cancel := m.limit()
	defer cancel()
	return m.m.Exists(ctx, path)
}

// MakeDir makes a directory and its parents, if they are missing.
func (m *Mounter) MakeDir(path string) error {
	ctx, cancel := m.limit()
	defer cancel()
	return m.m.MakeDir(ctx, path)
}

// Rmdir removes a link, a file or an empty directory, if it exists. Azure File unstages a share with it:
// as with [Mounter.Unmount], the mapping goes with its last link. Drivers remove directories with
// content, which may be a pod's data; this is an error.
func (m *Mounter) Rmdir(path string) error {
	ctx, cancel := m.limit()
	defer cancel()
	if found, err := m.unmap(ctx, path); found || err != nil {
		return err
	}
	return m.m.Remove(ctx, path)
}

// RemovePodDir is [Mounter.Rmdir].
func (m *Mounter) RemovePodDir(target string) error { return m.Rmdir(target) }

// Rescan makes the node look for new disks and new sizes.
func (m *Mounter) Rescan() error {
	ctx, cancel := m.limit()
	defer cancel()
	return m.m.Rescan(ctx)
}

// FindDiskByLun returns the number of the disk with a LUN.
func (m *Mounter) FindDiskByLun(lun string) (string, error) {
	n, err := number("LUN", lun)
	if err != nil {
		return "", err
	}
	id := mounter.AzureLUN(n)
	id.NotAdapter = m.options.NotAdapter
	return m.find(id)
}

// GetDiskNumber returns the number of the disk with a device name of Compute Engine. A driver
// whose disks are NVMe finds them with pkg/mounter, by the EUI-64 that its metadata has.
func (m *Mounter) GetDiskNumber(deviceName, partition, _ string) (string, error) {
	if partition != "" {
		return "", hosterr.TextWithHint(hosterr.ErrUnimplemented, "use pkg/mounter with StageOptions.Partition", "partition %q, want the whole disk", partition)
	}
	return m.find(mounter.GCE(deviceName))
}

func (m *Mounter) find(id mounter.Identity) (string, error) {
	ctx, cancel := m.limit()
	defer cancel()
	d, err := m.m.FindDisk(ctx, id)
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(uint64(d.Number), 10), nil
}

func number(what, text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, hosterr.Text(hosterr.ErrInvalid, "%s %q, want a decimal number", what, text)
	}
	return uint32(n), nil
}

// FormatAndMount takes the disk with a number online, formats it if Options.Format allows it, and
// mounts its volume at target. The disk is the one that has the number when the call begins.
func (m *Mounter) FormatAndMount(source, target, fstype string, _ []string) error {
	n, err := number("disk", source)
	if err != nil {
		return err
	}
	ctx, cancel := m.limit()
	defer cancel()
	d, err := m.disk(ctx, n)
	if err == nil {
		_, err = m.m.StageDisk(ctx, d, target, mounter.StageOptions{FSType: fstype, Format: m.options.Format})
	}
	return err
}

// disk returns the disk with a number, and what identifies it.
func (m *Mounter) disk(ctx context.Context, n uint32) (mounter.Disk, error) {
	d := mounter.Disk{Number: n}
	if err := needs("disk", m.node.Disk != nil); err != nil {
		return d, err
	}
	ids, err := m.node.Disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	if err == nil && ids.DiskIDs[n] != nil {
		d.IDs = *ids.DiskIDs[n]
	}
	if err == nil && d.IDs == (disk.DiskIDs{}) {
		places, failed := m.node.Disk.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{})
		if err = failed; err == nil && places.DiskLocations[n] != nil {
			d.Location = *places.DiskLocations[n]
		}
	}
	return d, hosterr.Wrap("identify disk", strconv.FormatUint(uint64(n), 10), err)
}

// GetDiskTotalBytes returns the size of the disk with a number.
func (m *Mounter) GetDiskTotalBytes(devicePath string) (int64, error) {
	n, err := number("disk", devicePath)
	if err == nil {
		err = needs("disk", m.node.Disk != nil)
	}
	if err != nil {
		return 0, err
	}
	ctx, cancel := m.limit()
	defer cancel()
	out, err := m.node.Disk.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: n})
	if err != nil {
		return 0, err
	}
	return out.TotalBytes, nil
}

// GetDeviceNameFromMount returns the ID of the volume at a path, or at the end of a link there.
func (m *Mounter) GetDeviceNameFromMount(mountPath, _ string) (string, error) {
	ctx, cancel := m.limit()
	defer cancel()
	id, _, err := m.m.VolumeAt(ctx, mountPath)
	return id, err
}

// ResizeVolume grows a volume to the end of its disk. It fails if the proxy has skipped a small
// growth.
func (m *Mounter) ResizeVolume(volumeID string) error {
	ctx, cancel := m.limit()
	defer cancel()
	_, err := m.m.ExpandVolume(ctx, volumeID, 0)
	return err
}

// GetVolumeSizeInBytes returns the size of a volume's file system.
func (m *Mounter) GetVolumeSizeInBytes(volumeID string) (int64, error) {
	if err := needs("volume", m.node.Volume != nil); err != nil {
		return 0, err
	}
	ctx, cancel := m.limit()
	defer cancel()
	out, err := m.node.Volume.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeID: volumeID})
	if err != nil {
		return 0, err
	}
	return out.TotalBytes, nil
}

// GetAPIVersions returns the versions of the API that are used, for a log.
func (m *Mounter) GetAPIVersions() string {
	ctx, cancel := m.limit()
	defer cancel()
	can, err := m.m.Abilities(ctx)
	if err != nil {
		return err.Error()
	}
	if len(can.Versions) == 0 {
		return "in process"
	}
	var s []string
	for _, group := range slices.Sorted(maps.Keys(can.Versions)) {
		s = append(s, fmt.Sprintf("%s %s", group, can.Versions[group]))
	}
	return strings.Join(s, ", ")
}
