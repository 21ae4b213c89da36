package driver

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// points returns the result of IOCTL_MOUNTMGR_QUERY_POINTS, the basis of FindFirstVolume and
// related functions: the names of the model's volumes that the input asks for, as
// `\??\Volume{…}` and `\DosDevices\E:`. A query by a name that no device of Wine has goes to
// the model's mount manager.
func (s *Server) points(in []byte, room uint32) ([]byte, error) {
	query, err := win32.DecodeMountPoint(in)
	if err != nil || room < 8 {
		return nil, win32.ERROR_INVALID_PARAMETER
	}
	volumes, err := s.api.VolumeNames()
	if err != nil {
		return nil, err
	}
	var found []win32.MountPoint
	for _, v := range volumes {
		name := strings.TrimSuffix(v, `\`)
		names, err := s.api.VolumePathNames(v)
		if err != nil {
			return nil, err
		}
		p := win32.MountPoint{Link: `\??\` + name[4:], ID: name, Device: `\Device\` + name[4:]}
		if len(names) > 0 {
			// Wine first looks up the device of a letter.
			if d, err := s.driver.dosDevice(strings.TrimSuffix(names[0], `\`)); err == nil {
				p.Device = d
			}
		}
		all := []win32.MountPoint{p}
		for _, n := range names {
			if letter, ok := strings.CutSuffix(n, `:\`); ok && len(letter) == 1 {
				p.Link = `\DosDevices\` + letter + ":"
				all = append(all, p)
			}
		}
		for _, p := range all {
			if (query.Link == "" || strings.EqualFold(query.Link, p.Link)) && (query.Device == "" || strings.EqualFold(query.Device, p.Device)) && (query.ID == "" || query.ID == p.ID) {
				found = append(found, p)
			}
		}
	}
	if len(found) == 0 && query.Device != "" {
		return s.modelPoints(in, room)
	}
	b := win32.EncodeMountPoints(found)
	if uint32(len(b)) > room {
		return b[:4], win32.ERROR_MORE_DATA // the required size
	}
	return b, nil
}

func (s *Server) modelPoints(in []byte, room uint32) ([]byte, error) {
	h, err := s.api.CreateFile(win32.MountManager, 0, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
	if err != nil {
		return nil, err
	}
	defer s.api.CloseHandle(h)
	out := make([]byte, room)
	n, err := s.api.DeviceIoControl(h, win32.IOCTL_MOUNTMGR_QUERY_POINTS, in, out)
	return out[:n], err
}
