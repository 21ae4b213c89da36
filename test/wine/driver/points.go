package driver

import (
	"encoding/binary"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// point is a MOUNTMGR_MOUNT_POINT: a name of a device, and the device.
type point struct{ link, id, device string }

// points returns the result of IOCTL_MOUNTMGR_QUERY_POINTS, the basis of
// FindFirstVolume and related functions: the names of the model's volumes that
// the input asks for, as `\??\Volume{…}` and `\DosDevices\E:`.
func (s *Server) points(in []byte, room uint32) ([]byte, error) {
	link, id, device, ok := decodePoint(in)
	if !ok || room < 8 {
		return nil, win32.ERROR_INVALID_PARAMETER
	}
	volumes, err := s.api.VolumeNames()
	if err != nil {
		return nil, err
	}
	var found []point
	for _, v := range volumes {
		name := strings.TrimSuffix(v, `\`)
		names, err := s.api.VolumePathNames(v)
		if err != nil {
			return nil, err
		}
		p := point{link: `\??\` + name[4:], id: name, device: `\Device\` + name[4:]}
		if len(names) > 0 {
			// Wine first looks up the device of a letter.
			if d, err := s.port.dosDevice(strings.TrimSuffix(names[0], `\`)); err == nil {
				p.device = d
			}
		}
		all := []point{p}
		for _, n := range names {
			if letter, ok := strings.CutSuffix(n, `:\`); ok && len(letter) == 1 {
				p.link = `\DosDevices\` + letter + ":"
				all = append(all, p)
			}
		}
		for _, p := range all {
			if (link == "" || strings.EqualFold(link, p.link)) && (device == "" || strings.EqualFold(device, p.device)) && (id == "" || id == p.id) {
				found = append(found, p)
			}
		}
	}
	b := encodePoints(found)
	if uint32(len(b)) > room {
		return b[:4], win32.ERROR_MORE_DATA // the required size
	}
	return b, nil
}

const pointSize = 24

// decodePoint reads the three names of a MOUNTMGR_MOUNT_POINT. A name is empty if
// any matches.
func decodePoint(b []byte) (link, id, device string, ok bool) {
	if len(b) < pointSize {
		return "", "", "", false
	}
	text := func(at int) string {
		off, n := binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint16(b[at+4:])
		if off == 0 {
			return ""
		}
		if uint64(off)+uint64(n) > uint64(len(b)) {
			ok = false
			return ""
		}
		var u []uint16
		for i := off; i+2 <= off+uint32(n); i += 2 {
			u = append(u, binary.LittleEndian.Uint16(b[i:]))
		}
		return win32.FromUTF16(u)
	}
	ok = true
	link, id, device = text(0), text(8), text(16)
	return link, id, device, ok
}

// encodePoints returns a MOUNTMGR_MOUNT_POINTS.
func encodePoints(list []point) []byte {
	le := binary.LittleEndian
	b := make([]byte, 8+pointSize*len(list))
	le.PutUint32(b[4:], uint32(len(list)))
	for i, p := range list {
		for j, text := range []string{p.link, p.id, p.device} {
			at := 8 + i*pointSize + j*8
			le.PutUint32(b[at:], uint32(len(b)))
			u := win32.UTF16(text)
			le.PutUint16(b[at+4:], uint16(2*len(u)))
			for _, c := range u {
				b = le.AppendUint16(b, c)
			}
		}
	}
	le.PutUint32(b, uint32(len(b)))
	return b
}
