package win32

import "fmt"

// MountManager is the path of the mount manager's device.
const MountManager = `\\.\MountPointManager`

// MountPoint is a MOUNTMGR_MOUNT_POINT: a name that leads to the device of a volume. In a
// query, an empty field matches everything.
type MountPoint struct {
	Link   string // `\??\Volume{…}` or `\DosDevices\E:`
	ID     string // bytes by which the mount manager knows the volume
	Device string // `\Device\HarddiskVolume3`
}

// SizeofMountPoint and SizeofMountPoints are the lengths of MOUNTMGR_MOUNT_POINT and
// MOUNTMGR_MOUNT_POINTS, without and with one entry.
const (
	SizeofMountPoint  = 24
	SizeofMountPoints = sizeofPoints + SizeofMountPoint
	sizeofPoints      = 8
)

// Encode returns the structure in Windows' layout, with its names behind it.
func (p MountPoint) Encode() []byte { return p.put(make([]byte, SizeofMountPoint), 0) }

// put writes the structure at b[at:] and appends its names. A name that is empty has the
// offset 0.
func (p MountPoint) put(b []byte, at int) []byte {
	for i, name := range [][]byte{appendUTF16(nil, p.Link), []byte(p.ID), appendUTF16(nil, p.Device)} {
		if len(name) > 0 {
			le.PutUint32(b[at+8*i:], uint32(len(b)))
			le.PutUint16(b[at+8*i+4:], uint16(len(name)))
			b = append(b, name...)
		}
	}
	return b
}

// DecodeMountPoint reads a MOUNTMGR_MOUNT_POINT, such as a query.
func DecodeMountPoint(b []byte) (MountPoint, error) { return mountPointAt(b, 0) }

func mountPointAt(b []byte, at int) (MountPoint, error) {
	if len(b) < at+SizeofMountPoint {
		return MountPoint{}, short("MOUNTMGR_MOUNT_POINT", len(b), at+SizeofMountPoint)
	}
	var names [3][]byte
	for i := range names {
		off, n := uint64(le.Uint32(b[at+8*i:])), uint64(le.Uint16(b[at+8*i+4:]))
		if off == 0 {
			continue
		}
		if off+n > uint64(len(b)) || i != 1 && n%2 != 0 {
			return MountPoint{}, fmt.Errorf("MOUNTMGR_MOUNT_POINT: %w: a name of %d bytes at %d of %d", ErrLayout, n, off, len(b))
		}
		names[i] = b[off : off+n]
	}
	return MountPoint{utf16At(names[0], 0, len(names[0])), string(names[1]), utf16At(names[2], 0, len(names[2]))}, nil
}

// EncodeMountPoints returns MOUNTMGR_MOUNT_POINTS.
func EncodeMountPoints(all []MountPoint) []byte {
	b := make([]byte, sizeofPoints+SizeofMountPoint*len(all))
	le.PutUint32(b[4:], uint32(len(all)))
	for i, p := range all {
		b = p.put(b, sizeofPoints+SizeofMountPoint*i)
	}
	le.PutUint32(b, uint32(len(b)))
	return b
}

// DecodeMountPoints reads MOUNTMGR_MOUNT_POINTS.
func DecodeMountPoints(b []byte) ([]MountPoint, error) {
	if len(b) < sizeofPoints {
		return nil, short("MOUNTMGR_MOUNT_POINTS", len(b), sizeofPoints)
	}
	n := le.Uint32(b[4:])
	if uint64(n)*SizeofMountPoint > uint64(len(b)-sizeofPoints) {
		return nil, fmt.Errorf("MOUNTMGR_MOUNT_POINTS: %w: %d entries in %d bytes", ErrLayout, n, len(b))
	}
	all := make([]MountPoint, n)
	for i := range all {
		var err error
		if all[i], err = mountPointAt(b, sizeofPoints+SizeofMountPoint*i); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// SizeofDeviceName is sizeof(MOUNTDEV_NAME), which has one unit of the name.
const SizeofDeviceName = 4

// EncodeDeviceName returns MOUNTDEV_NAME, the name of a device in the object manager.
func EncodeDeviceName(name string) []byte {
	b := appendUTF16(make([]byte, 2), name)
	le.PutUint16(b, uint16(len(b)-2))
	return b
}

// DecodeDeviceName reads a MOUNTDEV_NAME.
func DecodeDeviceName(b []byte) (string, error) {
	if len(b) < 2 {
		return "", short("MOUNTDEV_NAME", len(b), 2)
	}
	n := int(le.Uint16(b))
	if n%2 != 0 || n > len(b)-2 {
		return "", fmt.Errorf("MOUNTDEV_NAME: %w: a name of %d bytes in %d", ErrLayout, n, len(b))
	}
	return utf16At(b, 2, n), nil
}
