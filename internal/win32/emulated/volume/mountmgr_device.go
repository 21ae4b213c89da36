package volume

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// mountManager is the object of a handle of the mount manager's device.
type mountManager struct{ n *Volumes }

// MountManager returns the object of a handle of the mount manager's device.
func (n *Volumes) MountManager() kernel.Object { return mountManager{n} }

// Control answers the one question to the mount manager for which there is no function.
func (m mountManager) Control(_ *kernel.Tx, code uint32, in, out []byte) (int, error) {
	switch code {
	// Source: document, IOCTL_MOUNTMGR_QUERY_POINTS.
	case win32.IOCTL_MOUNTMGR_QUERY_POINTS:
		return m.queryPoints(in, out)
	}
	return 0, win32.ERROR_INVALID_FUNCTION // Source: node, of requests that CSI Proxy does not make
}

func (m mountManager) queryPoints(in, out []byte) (int, error) {
	query, err := win32.DecodeMountPoint(in)
	if err != nil || len(out) < win32.SizeofMountPoints {
		// Source: document, IOCTL_MOUNTMGR_QUERY_POINTS, STATUS_INVALID_PARAMETER of a buffer
		// that is too short for the structure; of names outside of the input it is inference.
		return 0, win32.ERROR_INVALID_PARAMETER
	}
	points := m.n.mountPoints(query)
	if len(points) == 0 {
		// Source: inference, by the text of STATUS_OBJECT_NAME_NOT_FOUND in ntstatus.h; the host
		// takes an empty list for the same.
		return 0, win32.ERROR_FILE_NOT_FOUND
	}
	b := win32.EncodeMountPoints(points)
	if len(b) > len(out) {
		const size = 4 // the first field, which says how much is needed
		// Source: document, MOUNTMGR_MOUNT_POINTS, "Size", STATUS_BUFFER_OVERFLOW.
		return copy(out, b[:size]), win32.ERROR_MORE_DATA
	}
	return copy(out, b), nil
}

// mountPoints returns the names of volumes that a query asks for.
func (n *Volumes) mountPoints(query win32.MountPoint) []win32.MountPoint {
	var found []win32.MountPoint
	for _, v := range n.List {
		if !v.visible() || query.Device != "" && !strings.EqualFold(query.Device, v.NTDevice()) {
			continue
		}
		links := []string{`\??\` + strings.TrimSuffix(strings.TrimPrefix(v.Name(), `\\?\`), `\`)}
		for letter := byte('A'); letter <= 'Z'; letter++ {
			if guid, used := n.Letters[letter]; used && guid == v.guid() {
				links = append(links, `\DosDevices\`+string(letter)+":")
			}
		}
		for _, link := range links {
			p := win32.MountPoint{Link: link, ID: v.identity(), Device: v.NTDevice()}
			if (query.Link == "" || strings.EqualFold(query.Link, link)) && (query.ID == "" || query.ID == p.ID) {
				found = append(found, p)
			}
		}
	}
	return found
}

func (m mountManager) ReadAt(*kernel.Tx, []byte, int64) (int, error)  { return 0, m.Flush(nil) }
func (m mountManager) WriteAt(*kernel.Tx, []byte, int64) (int, error) { return 0, m.Flush(nil) }
func (mountManager) Close(*kernel.Tx) error                           { return nil }

func (mountManager) Flush(*kernel.Tx) error {
	return win32.ERROR_INVALID_FUNCTION // Source: node, CSI Proxy does not read, write or flush the mount manager
}

// deviceName is IOCTL_MOUNTDEV_QUERY_DEVICE_NAME.
func (v *Volume) deviceName(out []byte) (int, error) {
	b := win32.EncodeDeviceName(v.NTDevice())
	switch {
	case len(out) < win32.SizeofDeviceName:
		return 0, win32.ERROR_INVALID_PARAMETER // Source: document, IOCTL_MOUNTDEV_QUERY_DEVICE_NAME, STATUS_INVALID_PARAMETER
	case len(out) < len(b):
		// Source: document, IOCTL_MOUNTDEV_QUERY_DEVICE_NAME, STATUS_BUFFER_OVERFLOW.
		return copy(out, b[:2]), win32.ERROR_MORE_DATA
	}
	return copy(out, b), nil
}
