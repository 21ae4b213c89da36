package disk

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// identifier returns the STORAGE_IDENTIFIER that c describes.
func identifier(c nodespec.Identifier) (win32.Identifier, error) {
	id := win32.Identifier{Type: c.Type}
	switch c.CodeSet {
	case "binary":
		id.CodeSet = win32.StorageIdCodeSetBinary
	case "ascii":
		id.CodeSet = win32.StorageIdCodeSetAscii
	case "utf8":
		id.CodeSet = win32.StorageIdCodeSetUtf8
	default:
		return id, fmt.Errorf("identifier: code set %q, want binary, ascii or utf8", c.CodeSet)
	}
	switch c.Association {
	case "", "device":
		id.Association = win32.StorageIdAssocDevice
	case "port":
		id.Association = win32.StorageIdAssocPort
	case "target":
		id.Association = win32.StorageIdAssocTarget
	default:
		return id, fmt.Errorf("identifier: association %q, want device, port or target", c.Association)
	}
	if (c.Text == "") == (c.Hex == "") {
		return id, errors.New("identifier: want either text or hex")
	}
	id.ID = []byte(c.Text)
	if c.Hex != "" {
		var err error
		if id.ID, err = hex.DecodeString(c.Hex); err != nil {
			return id, fmt.Errorf("identifier: hex %q: %w", c.Hex, err)
		}
	}
	if len(id.ID) > 255 {
		return id, fmt.Errorf("identifier of %d bytes, want at most 255", len(id.ID))
	}
	return id, nil
}

// busType returns the number of a bus of nodespec.Disk.
func busType(name string) (uint32, error) {
	switch strings.ToLower(name) {
	case "", "sas":
		return win32.BusTypeSas, nil
	case "scsi":
		return win32.BusTypeScsi, nil
	case "iscsi":
		return win32.BusTypeISCSI, nil
	case "nvme":
		return win32.BusTypeNvme, nil
	case "sata":
		return win32.BusTypeSata, nil
	case "ata":
		return win32.BusTypeAta, nil
	case "virtual":
		return win32.BusTypeVirtual, nil
	case "vhd":
		return win32.BusTypeFileBackedVirtual, nil
	}
	return 0, fmt.Errorf("bus %q, want sas, scsi, iscsi, nvme, sata, ata, virtual or vhd", name)
}

// sharedBus reports whether several machines may share a disk on this bus, which
// matters to the SAN policy "offlineShared" (Microsoft: diskpart, san).
func sharedBus(bus uint32) bool {
	switch bus {
	case win32.BusTypeScsi, win32.BusTypeISCSI, win32.BusTypeSas:
		return true
	}
	return false
}

// minDisk and maxDisk limit the size of a disk.
const (
	MinSize = 4 << 20
	MaxSize = 256 << 40 // the most that NTFS can use with 64 KiB clusters
)

// Validate refuses descriptions of disks that cannot be.
func Validate(c nodespec.Disk) error {
	if c.SectorSize != 0 && c.SectorSize != 512 && c.SectorSize != 4096 {
		return fmt.Errorf("sector size %d, want 512 or 4096", c.SectorSize)
	}
	if c.ID != "" && (len(c.ID) > 64 || strings.Trim(c.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "") {
		return fmt.Errorf("disk ID %q, want at most 64 letters, digits, '-' and '_'", c.ID)
	}
	if c.Content != nodespec.ContentImage && c.Image != "" && c.Content != "" {
		return fmt.Errorf("content %q and image %q, want only one of them", c.Content, c.Image)
	}
	switch c.Content {
	case "", nodespec.ContentBlank, nodespec.ContentMBR, nodespec.ContentGPT, nodespec.ContentGPTNoMSR, nodespec.ContentSuperfloppy, nodespec.ContentSystem:
	case nodespec.ContentImage:
		if c.Image == "" {
			return errors.New(`content "image" without an image file`)
		}
	default:
		return fmt.Errorf("content %q, want blank, mbr, gpt, gptNoMSR, superfloppy, system or image", c.Content)
	}
	if c.Size != 0 && (c.Size < MinSize || c.Size > MaxSize) {
		return fmt.Errorf("disk of %d bytes, want %d to %d", c.Size, uint64(MinSize), uint64(MaxSize))
	}
	if len(c.Partitions) > 0 && c.Content != nodespec.ContentMBR && c.Content != nodespec.ContentGPT && c.Content != nodespec.ContentGPTNoMSR {
		return fmt.Errorf("partitions on a disk with content %q, want mbr, gpt or gptNoMSR", c.Content)
	}
	if _, err := busType(c.Bus); err != nil {
		return err
	}
	for _, id := range c.Identifiers {
		if _, err := identifier(id); err != nil {
			return err
		}
	}
	return nil
}
