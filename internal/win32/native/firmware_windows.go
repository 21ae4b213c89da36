package native

import "github.com/kubernetes-csi/csi-proxy/v2/internal/win32"

// https://learn.microsoft.com/windows/win32/api/sysinfoapi/nf-sysinfoapi-getsystemfirmwaretable
//sys	getSystemFirmwareTable(provider uint32, id uint32, buf *byte, size uint32) (n uint32, err error) = kernel32.GetSystemFirmwareTable?

// FirmwareTable is GetSystemFirmwareTable of the SMBIOS tables.
func (a *API) FirmwareTable() ([]byte, error) {
	var table []byte
	// The first call learns the size and the second one reads the table. The
	// third is for a table that Windows was still assembling; afterwards it does
	// not grow.
	for range 3 {
		p, size, err := buffer(table)
		if err != nil {
			return nil, err
		}
		n, err := getSystemFirmwareTable(win32.FirmwareSMBIOS, 0, p, size)
		if n == 0 {
			return nil, errorOf(err)
		}
		if n <= size {
			return table[:n], nil
		}
		table = make([]byte, n)
	}
	return nil, win32.ERROR_INSUFFICIENT_BUFFER
}
