package driver

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// A volume is what a volume ID describes. Its methods work on the node and may be
// repeated.
type volume interface {
	// stage makes the volume available at a path of the node.
	stage(ctx context.Context, d *Driver, in *csi.NodeStageVolumeRequest) error
	// unstage undoes stage. It succeeds if there is nothing to undo.
	unstage(ctx context.Context, d *Driver, path string) error
	// stats returns the size and the free bytes of the volume at a path.
	stats(ctx context.Context, d *Driver, path string) (total, free int64, err error)
	// expand makes the volume at a path use all of its storage, of which there must be
	// at least so many bytes. It returns the new size.
	expand(ctx context.Context, d *Driver, path string, atLeast int64) (int64, error)
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
	for _, p := range part {
		if p == "" {
			part = nil
		}
	}
	switch {
	case len(part) == 2 && part[0] == KindDisk:
		return diskVolume{name: part[1]}, nil
	case len(part) == 4 && part[0] == KindSMB && !strings.ContainsAny(part[1]+part[2], `\/`):
		return smbVolume{share: `\\` + part[1] + `\` + part[2], directory: part[3]}, nil
	case len(part) == 5 && part[0] == KindISCSI:
		port, errPort := strconv.ParseUint(part[2], 10, 16)
		lun, errLUN := strconv.ParseUint(part[4], 10, 8)
		if errPort == nil && errLUN == nil {
			return iscsiVolume{address: part[1], port: uint32(port), iqn: part[3], lun: uint8(lun)}, nil
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
