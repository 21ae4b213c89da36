package driver

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
)

// A volume is what a volume ID describes. Its methods work on the node and may be
// repeated.
type volume interface {
	// stage makes the volume available at a path of the node.
	stage(ctx context.Context, node *mounter.Mounter, in *csi.NodeStageVolumeRequest) error
	// unstage undoes stage. It succeeds if there is nothing to undo.
	unstage(ctx context.Context, node *mounter.Mounter, path string) error
	// shared reports whether several nodes can write to the volume at the same time.
	shared() bool
}

// Volume IDs are a kind and what finds the storage. CSI gives most calls of a volume's
// life nothing but the ID, so it must be enough to undo what stage did. IDs have at
// most 128 bytes.
const (
	KindDisk  = "disk"
	KindSMB   = "smb"
	KindISCSI = "iscsi"

	separator = "#"
)

// DiskID returns the ID of a volume on a disk of its own. name is the storage
// system's name of the disk.
func DiskID(name string) string { return KindDisk + separator + name }

// SMBID returns the ID of a volume in a directory of a share.
func SMBID(server, share, directory string) string {
	return strings.Join([]string{KindSMB, server, share, directory}, separator)
}

// ISCSIID returns the ID of a volume on a LUN. portal is an IPv4 address or a host
// name, and a port.
func ISCSIID(address string, port uint32, iqn string, lun uint8) string {
	return strings.Join([]string{KindISCSI, address, strconv.FormatUint(uint64(port), 10), iqn, strconv.FormatUint(uint64(lun), 10)}, separator)
}

// parseVolume returns the volume of an ID. It fails with errNoVolume.
func parseVolume(id string) (volume, error) {
	part := strings.Split(id, separator)
	switch {
	case slices.Contains(part, ""):
	case len(part) == 2 && part[0] == KindDisk:
		return diskVolume{name: part[1]}, nil
	case len(part) == 4 && part[0] == KindSMB && !strings.ContainsAny(part[1]+part[2], `\/`):
		return smbVolume{remote: `\\` + strings.Join(part[1:], `\`)}, nil
	case len(part) == 5 && part[0] == KindISCSI:
		port, errPort := strconv.ParseUint(part[2], 10, 16)
		lun, errLUN := strconv.ParseUint(part[4], 10, 8)
		if errPort == nil && errLUN == nil {
			return iscsiVolume{mounter.Target{Address: part[1], Port: uint32(port), IQN: part[3], LUN: uint32(lun)}}, nil
		}
	}
	return nil, fmt.Errorf("volume ID %q: %w", id, errNoVolume)
}

// unsupported returns why a volume cannot be used in a way, or "".
func unsupported(shared bool, c *csi.VolumeCapability) string {
	if c.GetBlock() != nil {
		return "raw block access is not possible: Windows containers cannot have block devices"
	}
	if fs := c.GetMount().GetFsType(); fs != "" && !strings.EqualFold(fs, "ntfs") {
		return fmt.Sprintf("file system %q is not supported, want ntfs", fs)
	}
	switch mode := c.GetAccessMode().GetMode(); mode {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		return ""
	case csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		if shared {
			return ""
		}
		return fmt.Sprintf("access mode %s is not supported: NTFS on a disk is for one node", mode)
	default:
		return fmt.Sprintf("access mode %s is not supported", mode)
	}
}

// Keys of the publish context of an attached disk, by which the node finds it: Page83,
// or SerialNumber, or LUN. Disks on several adapters can have the same LUN, so that
// one has Adapter, too.
const (
	Page83       = "page83"       // the SCSI identifier, as in disk.DiskIDs
	SerialNumber = "serialNumber" // the serial number, as in disk.DiskIDs
	LUN          = "lun"          // as in disk.DiskLocation
	Adapter      = "adapter"      // as in disk.DiskLocation
)

// diskVolume is a volume on an attached disk.
type diskVolume struct{ name string }

func (diskVolume) shared() bool { return false }

func (diskVolume) stage(ctx context.Context, node *mounter.Mounter, in *csi.NodeStageVolumeRequest) error {
	id, err := identity(in.GetPublishContext())
	if err != nil {
		return err
	}
	disk, err := node.FindDisk(ctx, id)
	if err != nil {
		return err
	}
	_, err = node.StageDisk(ctx, disk, in.GetStagingTargetPath(), mounter.StageOptions{})
	return err
}

func (diskVolume) unstage(ctx context.Context, node *mounter.Mounter, path string) error {
	return node.UnstageDisk(ctx, path, mounter.UnstageOptions{})
}

// identity returns what a publish context says about the disk.
func identity(publish map[string]string) (mounter.Identity, error) {
	id := mounter.Identity{Page83: publish[Page83], SerialNumber: publish[SerialNumber]}
	for key, to := range map[string]**uint32{LUN: &id.LUN, Adapter: &id.Adapter} {
		if text := publish[key]; text != "" {
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				return id, status.Errorf(codes.InvalidArgument, "%s %q of the publish context is no number", key, text)
			}
			*to = new(uint32)
			**to = uint32(n)
		}
	}
	return id, nil
}

// Keys of the node stage secrets of an SMB volume.
const (
	Username = "username" // a name, or DOMAIN\name
	Password = "password"
)

// smbVolume is a volume in a directory of a share.
type smbVolume struct{ remote string }

func (smbVolume) shared() bool { return true }

func (v smbVolume) stage(ctx context.Context, node *mounter.Mounter, in *csi.NodeStageVolumeRequest) error {
	share := mounter.Share{Remote: v.remote, User: in.GetSecrets()[Username], Password: mounter.Secret(in.GetSecrets()[Password])}
	return node.StageShare(ctx, share, in.GetStagingTargetPath())
}

func (v smbVolume) unstage(ctx context.Context, node *mounter.Mounter, path string) error {
	return node.UnstageShare(ctx, path, v.remote)
}

// Keys of the node stage secrets of an iSCSI volume. Without them the login has no
// authentication.
const (
	CHAPUser   = "chapUser"
	CHAPSecret = "chapSecret"
)

// iscsiVolume is a volume on a LUN of a target. Each target has one volume: unstage
// ends the session of the whole target.
type iscsiVolume struct{ target mounter.Target }

func (iscsiVolume) shared() bool { return false }

func (v iscsiVolume) stage(ctx context.Context, node *mounter.Mounter, in *csi.NodeStageVolumeRequest) error {
	v.target.User, v.target.Secret = in.GetSecrets()[CHAPUser], mounter.Secret(in.GetSecrets()[CHAPSecret])
	disk, err := node.Login(ctx, v.target)
	if err != nil {
		return err
	}
	_, err = node.StageDisk(ctx, disk, in.GetStagingTargetPath(), mounter.StageOptions{})
	return err
}

func (v iscsiVolume) unstage(ctx context.Context, node *mounter.Mounter, path string) error {
	if err := node.UnstageDisk(ctx, path, mounter.UnstageOptions{}); err != nil {
		return err
	}
	return node.Logout(ctx, v.target)
}
