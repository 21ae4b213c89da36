package servers

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	shared "github.com/kubernetes-csi/csi-proxy/pkg/shared/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// host is a simulated node. Each published group sees a part of it.
type host struct {
	n *simnode.Node
	p *simnode.Process
}

var background = context.Background()

// disks is the published pkg/os/disk.API.
type disks struct{ host }

func (h disks) ListDiskLocations() (map[uint32]shared.DiskLocation, error) {
	out, err := h.p.Disk().ListDiskLocations(background, &disk.ListDiskLocationsRequest{})
	if err != nil {
		return nil, err
	}
	all := map[uint32]shared.DiskLocation{}
	for number, l := range out.DiskLocations {
		all[number] = shared.DiskLocation(*l)
	}
	return all, nil
}

func (h disks) ListDiskIDs() (map[uint32]shared.DiskIDs, error) {
	out, err := h.p.Disk().ListDiskIDs(background, &disk.ListDiskIDsRequest{})
	if err != nil {
		return nil, err
	}
	all := map[uint32]shared.DiskIDs{}
	for number, id := range out.DiskIDs {
		all[number] = shared.DiskIDs(*id)
	}
	return all, nil
}

func (h disks) IsDiskInitialized(number uint32) (bool, error) {
	s, err := h.n.Show()
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(s.Disks, func(d simnode.DiskInfo) bool { return d.Number == number })
	if i < 0 {
		return false, fmt.Errorf("no disk %d", number)
	}
	return s.Disks[i].Style != "RAW", nil
}

// InitializeDisk leaves the work to CreateBasicPartition.
func (h disks) InitializeDisk(uint32) error { return nil }

func (h disks) BasicPartitionsExist(number uint32) (bool, error) {
	out, err := h.p.Volume().ListVolumesOnDisk(background, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return false, err
	}
	return len(out.VolumeIDs) > 0, nil
}

func (h disks) CreateBasicPartition(number uint32) error {
	_, err := h.p.Disk().PartitionDisk(background, &disk.PartitionDiskRequest{DiskNumber: number})
	return err
}

func (h disks) GetDiskNumberByName(page83 string) (uint32, error) {
	all, err := h.ListDiskIDs()
	for number, id := range all {
		if id.Page83 == page83 {
			return number, nil
		}
	}
	return 0, fmt.Errorf("no disk %q: %w", page83, err)
}

func (h disks) Rescan() error {
	_, err := h.p.Disk().Rescan(background, &disk.RescanRequest{})
	return err
}

func (h disks) GetDiskStats(number uint32) (int64, error) {
	out, err := h.p.Disk().GetDiskStats(background, &disk.GetDiskStatsRequest{DiskNumber: number})
	if err != nil {
		return 0, err
	}
	return out.TotalBytes, nil
}

func (h disks) SetDiskState(number uint32, online bool) error {
	_, err := h.p.Disk().SetDiskState(background, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: online})
	return err
}

func (h disks) GetDiskState(number uint32) (bool, error) {
	out, err := h.p.Disk().GetDiskState(background, &disk.GetDiskStateRequest{DiskNumber: number})
	if err != nil {
		return false, err
	}
	return out.IsOnline, nil
}

// volumes is the published pkg/os/volume.API.
type volumes struct{ host }

func (h volumes) ListVolumesOnDisk(number, partition uint32) ([]string, error) {
	out, err := h.p.Volume().ListVolumesOnDisk(background, &volume.ListVolumesOnDiskRequest{DiskNumber: number, PartitionNumber: partition})
	if err != nil {
		return nil, err
	}
	return out.VolumeIDs, nil
}

func (h volumes) MountVolume(id, path string) error {
	_, err := h.p.Volume().MountVolume(background, &volume.MountVolumeRequest{VolumeID: id, TargetPath: path})
	return err
}

func (h volumes) UnmountVolume(id, path string) error {
	if _, err := h.GetDiskNumberFromVolumeID(id); err != nil {
		return err // D17
	}
	_, err := h.p.Volume().UnmountVolume(background, &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: path})
	return err
}

// IsVolumeFormatted returns false for what cannot be read (D2).
func (h volumes) IsVolumeFormatted(id string) (bool, error) {
	out, err := h.p.Volume().IsVolumeFormatted(background, &volume.IsVolumeFormattedRequest{VolumeID: id})
	return err == nil && out.Formatted, nil
}

func (h volumes) FormatVolume(id string) error {
	_, err := h.p.Volume().FormatVolume(background, &volume.FormatVolumeRequest{VolumeID: id})
	return err
}

// ResizeVolume does nothing for less than 100 MiB (D32).
func (h volumes) ResizeVolume(id string, size int64) error {
	number, err := h.GetDiskNumberFromVolumeID(id)
	if err != nil {
		return err
	}
	disk, err := disks(h).GetDiskStats(number)
	if err != nil {
		return err
	}
	if now, _, err := h.GetVolumeStats(id); err != nil || disk-now < 100<<20 {
		return err
	}
	_, err = h.p.Volume().ResizeVolume(background, &volume.ResizeVolumeRequest{VolumeID: id, SizeBytes: size})
	return err
}

func (h volumes) GetVolumeStats(id string) (total, used int64, err error) {
	out, err := h.p.Volume().GetVolumeStats(background, &volume.GetVolumeStatsRequest{VolumeID: id})
	if err != nil {
		return 0, 0, err
	}
	return out.TotalBytes, out.UsedBytes, nil
}

func (h volumes) GetDiskNumberFromVolumeID(id string) (uint32, error) {
	out, err := h.p.Volume().GetDiskNumberFromVolumeID(background, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: id})
	if err != nil {
		return 0, err
	}
	return out.DiskNumber, nil
}

func (h volumes) GetVolumeIDFromTargetPath(path string) (string, error) {
	out, err := h.p.Volume().GetVolumeIDFromTargetPath(background, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: path})
	if err != nil {
		return "", err
	}
	return out.VolumeID, nil
}

func (h volumes) GetClosestVolumeIDFromTargetPath(path string) (string, error) {
	out, err := h.p.Volume().GetClosestVolumeIDFromTargetPath(background, &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: path})
	if err != nil {
		return "", err
	}
	return out.VolumeID, nil
}

func (h volumes) WriteVolumeCache(id string) error {
	_, err := h.p.Volume().WriteVolumeCache(background, &volume.WriteVolumeCacheRequest{VolumeID: id})
	return err
}

// files is the published pkg/os/filesystem.API, which calls package os.
type files struct{ host }

func (h files) PathExists(path string) (bool, error) {
	out, err := h.p.Filesystem().PathExists(background, &filesystem.PathExistsRequest{Path: path})
	return err == nil && out.Exists, err
}

func (h files) PathValid(path string) (bool, error) {
	out, err := h.p.Filesystem().PathValid(background, &filesystem.PathValidRequest{Path: path})
	return err == nil && out.Valid, err
}

func (h files) Mkdir(path string) error {
	_, err := h.p.Filesystem().Mkdir(background, &filesystem.MkdirRequest{Path: path})
	return err
}

func (h files) Rmdir(path string, force bool) error {
	if there, err := h.PathExists(path); err != nil || !there && !force {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	_, err := h.p.Filesystem().Rmdir(background, &filesystem.RmdirRequest{Path: path, Force: force})
	return err
}

func (h files) RmdirContents(path string) error {
	_, err := h.p.Filesystem().RmdirContents(background, &filesystem.RmdirContentsRequest{Path: path})
	return err
}

func (h files) CreateSymlink(source, target string) error {
	if there, err := h.PathExists(target); err != nil || there {
		return &fs.PathError{Op: "symlink", Path: target, Err: fs.ErrExist}
	}
	_, err := h.p.Filesystem().CreateSymlink(background, &filesystem.CreateSymlinkRequest{SourcePath: source, TargetPath: target})
	return err
}

func (h files) IsSymlink(path string) (bool, error) {
	out, err := h.p.Filesystem().IsSymlink(background, &filesystem.IsSymlinkRequest{Path: path})
	return err == nil && out.IsSymlink, err
}

// shares is the published pkg/os/smb.API. The simulated node makes a link to a share together with
// its mapping, so the last credentials are kept.
type shares struct {
	host
	last *smb.NewSMBGlobalMappingRequest
}

func (h shares) IsSmbMapped(remote string) (bool, error) {
	s, err := h.n.Show()
	return slices.ContainsFunc(s.SMBMappings, func(m simnode.SMBMappingInfo) bool { return strings.EqualFold(m.Remote, remote) }), err
}

func (h shares) NewSmbGlobalMapping(remote, user, password string) error {
	*h.last = smb.NewSMBGlobalMappingRequest{RemotePath: remote, Username: user, Password: password}
	_, err := h.p.SMB().NewSMBGlobalMapping(background, h.last)
	return err
}

func (h shares) NewSmbLink(remote, local string) error {
	if there, err := (files{h.host}).PathExists(local); err != nil || there {
		return &fs.PathError{Op: "symlink", Path: local, Err: fs.ErrExist}
	}
	in := *h.last
	in.RemotePath, in.LocalPath = remote, local
	_, err := h.p.SMB().NewSMBGlobalMapping(background, &in)
	return err
}

func (h shares) RemoveSmbGlobalMapping(remote string) error {
	_, err := h.p.SMB().RemoveSMBGlobalMapping(background, &smb.RemoveSMBGlobalMappingRequest{RemotePath: remote})
	return err
}
