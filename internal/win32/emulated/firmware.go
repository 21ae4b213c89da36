package emulated

import (
	"cmp"
	"encoding/hex"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// FirmwareTable implements [win32.Firmware]. There is one SMBIOS table. Another
// provider is ERROR_INVALID_FUNCTION (Microsoft: GetSystemFirmwareTable, and
// general knowledge for the number).
//
// Source: document, GetSystemFirmwareTable; specification, SMBIOS.
func (n *Node) FirmwareTable(provider, id uint32) (table []byte, err error) {
	err = n.Do(func(*kernel.Tx) error {
		if provider != win32.FirmwareSMBIOS {
			// Source: inference, of a provider that GetSystemFirmwareTable does not know.
			return win32.ERROR_INVALID_FUNCTION
		}
		if f := n.Config.Firmware; f.SMBIOS != "" {
			table, err = hex.DecodeString(f.SMBIOS)
			return err
		}
		table = win32.EncodeSMBIOS("Emulated", "Virtual Machine", cmp.Or(n.Config.Firmware.SerialNumber, "EMU-0001"))
		return nil
	})
	return table, err
}
