package api

import (
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// GetBIOSSerialNumber implements [HostAPI]. It fails with [hosterr.ErrNotFound] if the
// firmware has no serial number: an empty one would be the same for many machines.
func (s SystemAPI) GetBIOSSerialNumber() (string, error) {
	if err := s.host.Ready(); err != nil {
		return "", err
	}
	table, err := s.host.Node.API.FirmwareTable()
	if err != nil {
		return "", hosterr.Wrap("read SMBIOS tables", "", err)
	}
	serial, err := win32.SMBIOSSerial(table)
	if errors.Is(err, win32.ErrNoSerial) {
		return "", hosterr.Text(hosterr.ErrNotFound, "%w", err)
	}
	return serial, err
}
