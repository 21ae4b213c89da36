package driver

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// mountPoint is a MOUNTMGR_MOUNT_POINT: a name that leads to the device of a volume. In a
// query, an empty field matches everything.
type mountPoint struct{ link, id, device string }

// Lengths of MOUNTMGR_MOUNT_POINT, and of what is in front of the first one in
// MOUNTMGR_MOUNT_POINTS.
const (
	sizeofPoint  = 24
	sizeofPoints = 8
)

func decodePoint(b []byte) (p mountPoint, ok bool) {
	le := binary.LittleEndian
	var names [3][]byte
	for i := range names {
		if len(b) < sizeofPoint {
			return p, false
		}
		off, n := uint64(le.Uint32(b[8*i:])), uint64(le.Uint16(b[8*i+4:]))
		if off+n > uint64(len(b)) {
			return p, false
		}
		names[i] = b[off : off+n]
	}
	text := func(b []byte) string {
		units := make([]uint16, len(b)/2)
		for i := range units {
			units[i] = le.Uint16(b[2*i:])
		}
		return string(utf16.Decode(units))
	}
	return mountPoint{text(names[0]), string(names[1]), text(names[2])}, true
}

// encodePoints returns MOUNTMGR_MOUNT_POINTS.
func encodePoints(all []mountPoint) []byte {
	le := binary.LittleEndian
	b := make([]byte, sizeofPoints+sizeofPoint*len(all))
	le.PutUint32(b[4:], uint32(len(all)))
	text := func(s string) (b []byte) {
		for _, u := range utf16.Encode([]rune(s)) {
			b = le.AppendUint16(b, u)
		}
		return b
	}
	for i, p := range all {
		for j, name := range [][]byte{text(p.link), []byte(p.id), text(p.device)} {
			at := sizeofPoints + sizeofPoint*i + 8*j
			le.PutUint32(b[at:], uint32(len(b)))
			le.PutUint16(b[at+4:], uint16(len(name)))
			b = append(b, name...)
		}
	}
	le.PutUint32(b, uint32(len(b)))
	return b
}

// points returns the result of IOCTL_MOUNTMGR_QUERY_POINTS, the basis of FindFirstVolume and
// related functions: the names of the model's volumes that the input asks for, as
// `\??\Volume{…}` and `\DosDevices\E:`.
func (s *Server) points(in []byte, room uint32) ([]byte, error) {
	query, ok := decodePoint(in)
	if !ok || room < sizeofPoints {
		return nil, win32.ERROR_INVALID_PARAMETER
	}
	volumes, err := s.api.VolumeNames()
	if err != nil {
		return nil, err
	}
	var found []mountPoint
	for _, v := range volumes {
		name := strings.TrimSuffix(v, `\`)
		names, err := s.api.VolumePathNames(v)
		if err != nil {
			return nil, err
		}
		p := mountPoint{link: `\??\` + name[4:], id: name, device: `\Device\` + name[4:]}
		if len(names) > 0 {
			// Wine first looks up the device of a letter.
			if d, err := s.driver.dosDevice(strings.TrimSuffix(names[0], `\`)); err == nil {
				p.device = d
			}
		}
		all := []mountPoint{p}
		for _, n := range names {
			if letter, ok := strings.CutSuffix(n, `:\`); ok && len(letter) == 1 {
				p.link = `\DosDevices\` + letter + ":"
				all = append(all, p)
			}
		}
		for _, p := range all {
			if (query.link == "" || strings.EqualFold(query.link, p.link)) && (query.device == "" || strings.EqualFold(query.device, p.device)) && (query.id == "" || query.id == p.id) {
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
