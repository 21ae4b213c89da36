package emulated

import (
	"cmp"
	"encoding/hex"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// FirmwareConfig is what the machine tells about itself.
type FirmwareConfig struct {
	// SerialNumber is the system's serial number in the SMBIOS tables; without
	// it, "EMU-0001".
	SerialNumber string `json:"serialNumber,omitempty"`
	// SMBIOS, in hexadecimal, is answered in place of the tables that would hold
	// SerialNumber, whatever it is.
	SMBIOS string `json:"smbios,omitempty"`
}

// FirmwareTable implements [win32.Firmware]. There is one SMBIOS table. Another
// provider is ERROR_INVALID_FUNCTION (Microsoft: GetSystemFirmwareTable, and
// general knowledge for the number).
func (n *Node) FirmwareTable(provider, id uint32) (table []byte, err error) {
	err = n.do(func(*tx) error {
		if provider != win32.FirmwareSMBIOS {
			return win32.ERROR_INVALID_FUNCTION
		}
		if f := n.cfg.Firmware; f.SMBIOS != "" {
			table, err = hex.DecodeString(f.SMBIOS)
			return err
		}
		table = win32.EncodeSMBIOS("Emulated", "Virtual Machine", cmp.Or(n.cfg.Firmware.SerialNumber, "EMU-0001"))
		return nil
	})
	return table, err
}
