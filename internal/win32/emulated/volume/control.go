package volume

import (
	"errors"
	"io"
	"math"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// answers returns the error of a request to a volume that is offline. Its state can
// still be asked for and changed (Microsoft: IOCTL_VOLUME_OFFLINE). direct means that
// the handle has no access to data.
//
// Source of ERROR_NOT_READY: document, winioctl.h and IOCTL_VOLUME_OFFLINE; Windows printed 21
// (rufus issues 386, 2630).
func (v *Volume) answers(code uint32, direct bool) error {
	switch {
	case !v.OfflineNow, code == win32.IOCTL_VOLUME_ONLINE, code == win32.IOCTL_VOLUME_OFFLINE, code == win32.IOCTL_VOLUME_IS_OFFLINE:
		return nil
	case code == win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS && direct:
		if v.n.Windows.OfflineVolumes == behavior.OfflineLocated {
			return nil
		}
		v.n.Chosen("offlineVolumes", "refuse to say where an offline volume lies", v.Name())
	case v.Offline:
		v.n.Chosen("automount", "refuse a request to a new volume, which is offline", v.Name())
	}
	return win32.ERROR_NOT_READY
}

// Control handles the control codes of a volume. Like the volume manager, it
// passes storage and disk codes about the medium to the disk.
//
// Source: document, the page of each control code.
// Source of ERROR_INVALID_FUNCTION: inference, by the text of the code in ntstatus.h.
func (v *Volume) Control(t *kernel.Tx, h *kernel.DeviceHandle, code uint32, in, out []byte) (int, error) {
	if err := v.answers(code, !h.Reads && !h.Writes); err != nil {
		return 0, err
	}
	switch code {
	// Source: document, FSCTL_LOCK_VOLUME.
	case win32.FSCTL_LOCK_VOLUME:
		return 0, v.lock(h)
	// Source: document, FSCTL_DISMOUNT_VOLUME; that the cache is not flushed is inference.
	case win32.FSCTL_DISMOUNT_VOLUME:
		return 0, v.dismount(t)
	case win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS:
		return v.diskExtents(out)
	case win32.IOCTL_VOLUME_ONLINE:
		record := v.Record
		record.Offline = false
		v.setRecord(t, record)
		t.OnCommit(func() { v.OfflineNow = false })
		return 0, nil
	case win32.IOCTL_VOLUME_UPDATE_PROPERTIES:
		v.grow(t)
		return 0, nil
	case win32.IOCTL_VOLUME_OFFLINE:
		v.OfflineNow = true
		return 0, nil
	case win32.IOCTL_VOLUME_IS_OFFLINE:
		if !v.OfflineNow {
			// STATUS_UNSUCCESSFUL means that it is online (Microsoft:
			// IOCTL_VOLUME_IS_OFFLINE).
			return 0, win32.ERROR_GEN_FAILURE // Source: document, IOCTL_VOLUME_IS_OFFLINE, STATUS_UNSUCCESSFUL
		}
		return 0, nil
	// Source: document, IOCTL_DISK_GET_LENGTH_INFO; code, hcsshim expandscratchsize.go asks the
	// volume.
	case win32.IOCTL_DISK_GET_LENGTH_INFO:
		return kernel.Output(out, win32.EncodeLength(v.Size()))
	case win32.FSCTL_GET_NTFS_VOLUME_DATA:
		return v.ntfsData(t, out)
	// Source: document, FSCTL_EXTEND_VOLUME; code, hcsshim expandscratchsize.go.
	case win32.FSCTL_EXTEND_VOLUME:
		return 0, v.extend(t, in)
	}
	if len(v.Ranges) != 1 {
		// Source: code, hcsshim: a volume on several disks has no device number; the number of
		// the error is inference.
		return 0, win32.ERROR_INVALID_FUNCTION // such a volume has no disk (docs/develop/contract/volumes.md#finding-volumes)
	}
	d := v.Ranges[0].Disk
	switch code {
	case win32.IOCTL_STORAGE_GET_DEVICE_NUMBER:
		return kernel.Output(out, win32.DeviceNumber{
			DeviceType: win32.FILE_DEVICE_DISK, DeviceNumber: d.Number, PartitionNumber: v.OnTable.Number,
		}.Encode())
	case win32.IOCTL_STORAGE_QUERY_PROPERTY, win32.IOCTL_SCSI_GET_ADDRESS, win32.IOCTL_DISK_GET_DRIVE_GEOMETRY_EX,
		win32.IOCTL_DISK_IS_WRITABLE, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX:
		return d.Control(t, h, code, in, out)
	}
	return 0, win32.ERROR_INVALID_FUNCTION
}

// diskExtents is IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS. If out has space for only
// some of the extents, it returns them, the true number and ERROR_MORE_DATA
// (Microsoft's page of the code).
func (v *Volume) diskExtents(out []byte) (int, error) {
	const one, each = 32, 24
	var es []win32.Extent
	for _, e := range v.Ranges {
		es = append(es, win32.Extent{Disk: e.Disk.Number, Offset: e.Off, Length: e.Length})
	}
	b := win32.EncodeExtents(es)
	switch {
	case len(out) < one:
		return 0, win32.ERROR_INVALID_PARAMETER // Source: document, IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS (DDI)
	case len(out) < len(b):
		whole := (len(out)-(one-each))/each*each + one - each
		return copy(out, b[:whole]), win32.ERROR_MORE_DATA // Source: document, IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS
	}
	return copy(out, b), nil
}

// ntfsData is FSCTL_GET_NTFS_VOLUME_DATA. Without NTFS it fails with
// ERROR_INVALID_FUNCTION.
func (v *Volume) ntfsData(t *kernel.Tx, out []byte) (int, error) {
	if err := v.Ready(); err != nil {
		return 0, err
	}
	if !v.Mounted(t) || v.FS.Kind != bootsector.NTFS {
		// Source: document, FSCTL_GET_NTFS_VOLUME_DATA, only of NTFS; the number is inference.
		return 0, win32.ERROR_INVALID_FUNCTION
	}
	return kernel.Output(out, win32.NTFSVolumeData{
		Sectors: v.FS.Sectors, TotalClusters: v.FS.Clusters, FreeClusters: v.Free() / uint64(v.FS.BytesPerCluster),
		BytesPerSector: v.FS.BytesPerSector, BytesPerCluster: v.FS.BytesPerCluster,
	}.Encode())
}

// extend is FSCTL_EXTEND_VOLUME (docs/develop/contract/volumes.md#growth). The new number
// of sectors must fit the partition and add at least one cluster. NTFS reserves a
// sector, and so up to a cluster, for the copy of its boot sector.
func (v *Volume) extend(t *kernel.Tx, in []byte) error {
	sectors, err := win32.DecodeSectors(in)
	if err != nil {
		return kernel.InputError(in, 8)
	}
	if err := v.Ready(); err != nil {
		return err
	}
	if err := v.Writable(); err != nil {
		return err
	}
	s := uint64(v.sector())
	if sectors <= 0 || uint64(sectors) > v.Size()/s {
		// Source: document, FSCTL_EXTEND_VOLUME, "must have enough sectors"; the number is
		// inference.
		return win32.ERROR_INVALID_PARAMETER
	}
	if !v.Mounted(t) {
		return nil // RAW accepts any size up to that of its partition
	}
	if v.FS.Kind != bootsector.NTFS {
		// Source: document, FSCTL_EXTEND_VOLUME, "supported on NTFS, RAW, and ReFS"; the number
		// is inference.
		return win32.ERROR_INVALID_FUNCTION // FAT cannot grow
	}
	target := uint64(sectors) * s / uint64(v.FS.BytesPerCluster)
	if target <= v.FS.Clusters+1 || target > math.MaxUint32 {
		// Source: document, FSCTL_EXTEND_VOLUME, "at least one cluster larger"; the number is
		// inference.
		return win32.ERROR_INVALID_PARAMETER
	}
	boot := make([]byte, s)
	if _, err := v.ReadAt(boot, 0); err != nil {
		return win32.ERROR_IO_DEVICE // Source: node, a disk image cannot be read
	}
	fs, writes := bootsector.GrowNTFS(boot, v.FS, uint64(sectors))
	for _, w := range writes {
		v.put(t, w.Offset, w.Data)
	}
	t.OnCommit(func() { v.FS = fs })
	return nil
}

// Present implements device.
func (v *Volume) Present() error {
	if v.Gone {
		// Source: document, "Handling an IRP_MN_SURPRISE_REMOVAL Request", new requests fail;
		// the number is inference.
		return win32.ERROR_NO_SUCH_DEVICE // docs/develop/contract/calls.md#transient-errors
	}
	return nil
}

// Opens implements device.
func (v *Volume) Opens(write bool, path string) error {
	if v.Exclusive() {
		// Source: code, fastfat create.c, of a locked volume.
		return win32.ERROR_ACCESS_DENIED // locked by a format or by its holder
	}
	if write && !v.OfflineNow && v.Writable() != nil && v.n.Windows.WriteProtected == behavior.WriteProtectedRefused && v.Mounted(&v.n.Tx) {
		v.n.Chosen("writeProtected", "refuse to open a volume for writing", path)
		// Source: inference, of a mounted file system; see the option writeProtected.
		return win32.ERROR_WRITE_PROTECT
	}
	return nil
}

// Covers implements device.
func (v *Volume) Covers(d kernel.Device) bool {
	return d == kernel.Device(v) || slices.ContainsFunc(v.Ranges, func(e extent) bool { return e.Disk.Covers(d) })
}

// Flush implements device. On a read-only volume it fails
// (docs/develop/contract/volumes.md#flush).
func (v *Volume) Flush() error {
	if err := v.Ready(); err != nil {
		return err
	}
	if err := v.Writable(); err != nil {
		return err
	}
	v.Flushed()
	return nil
}

// Read reads whole sectors. At the end of the volume it returns fewer bytes.
func (v *Volume) Read(p []byte, off int64) (int, error) {
	s := int64(v.sector())
	if off < 0 || off%s != 0 || int64(len(p))%s != 0 {
		// Source: document, CreateFileW, "Physical Disks and Volumes"; the number is inference.
		return 0, win32.ERROR_INVALID_PARAMETER
	}
	if v.OfflineNow {
		// Source: document, IOCTL_VOLUME_OFFLINE, "read and write operations will fail"; Windows
		// printed 21 (rufus issue 386).
		return 0, win32.ERROR_NOT_READY
	}
	if uint64(off) >= v.Size() {
		return 0, win32.ERROR_HANDLE_EOF // Source: document, ReadFile, at the end of a file
	}
	size, err := v.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return size, err
}

// Write writes whole sectors of a volume without a file system. On a mounted
// file system it fails, as for a disk; see disk.write.
func (v *Volume) Write(t *kernel.Tx, p []byte, off int64) (int, error) {
	s := int64(v.sector())
	if off < 0 || off%s != 0 || int64(len(p))%s != 0 || uint64(off) > v.Size() || uint64(len(p)) > v.Size()-uint64(off) {
		// Source: document, CreateFileW, "Physical Disks and Volumes"; the number is inference.
		return 0, win32.ERROR_INVALID_PARAMETER
	}
	if v.OfflineNow {
		// Source: document, IOCTL_VOLUME_OFFLINE, "read and write operations will fail"; Windows
		// printed 21 (rufus issue 386).
		return 0, win32.ERROR_NOT_READY
	}
	if err := v.Writable(); err != nil {
		return 0, err
	}
	if v.Mounted(t) {
		// Source: document, WriteFile, "a write on a volume handle"; the number is inference.
		return 0, win32.ERROR_ACCESS_DENIED
	}
	v.put(t, uint64(off), p)
	return len(p), nil
}
