package win32

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// FirmwareSMBIOS is the provider 'RSMB' of GetSystemFirmwareTable: the SMBIOS tables. It has
// one table, with ID 0.
const FirmwareSMBIOS = 0x52534D42

// smbiosHeader is the size of the header of RawSMBIOSData (Microsoft:
// GetSystemFirmwareTable): calling method, major and minor version, DMI revision,
// and the table's length as a u32.
const smbiosHeader = 8

// Structure types and fields of SMBIOS (DMTF DSP0134).
const (
	smbiosSystem = 1   // System Information
	smbiosEnd    = 127 // End-of-Table
	// smbiosSerial is the offset in System Information of the number of the
	// serial number's string.
	smbiosSerial = 7
	// smbiosFormatted is the size of the shortest formatted area: type, length,
	// handle.
	smbiosFormatted = 4
)

// ErrNoSerial is returned for tables without a system serial number.
var ErrNoSerial = errors.New("the SMBIOS tables contain no serial number of the system")

// SMBIOSSerial finds the system's serial number in the table that [Firmware]
// returns. b comes from firmware, so its lengths cannot be
// trusted. Blanks and control characters at both ends of the serial number are
// removed.
func SMBIOSSerial(b []byte) (string, error) {
	if len(b) < smbiosHeader {
		return "", fmt.Errorf("SMBIOS data of %d bytes, want at least %d", len(b), smbiosHeader)
	}
	claimed := binary.LittleEndian.Uint32(b[4:])
	table := b[smbiosHeader:]
	if uint64(claimed) < uint64(len(table)) {
		table = table[:claimed]
	}
	for len(table) >= smbiosFormatted {
		kind, length := table[0], int(table[1])
		if length < smbiosFormatted || length > len(table) {
			return "", fmt.Errorf("SMBIOS structure of type %d claims %d bytes, but %d are left", kind, length, len(table))
		}
		formatted := table[:length]
		texts, rest, ok := bytes.Cut(table[length:], []byte{0, 0})
		if !ok && kind != smbiosEnd {
			return "", fmt.Errorf("SMBIOS structure of type %d has strings that do not end", kind)
		}
		switch kind {
		case smbiosEnd:
			return "", ErrNoSerial
		case smbiosSystem:
			if length <= smbiosSerial {
				return "", ErrNoSerial
			}
			return smbiosText(texts, int(formatted[smbiosSerial]))
		}
		table = rest
	}
	return "", ErrNoSerial
}

// smbiosText returns string number n of a structure. The first is number 1.
func smbiosText(texts []byte, n int) (string, error) {
	if n == 0 {
		return "", ErrNoSerial
	}
	all := bytes.Split(texts, []byte{0})
	if n > len(all) || len(texts) == 0 {
		return "", fmt.Errorf("SMBIOS system information refers to string %d of %d", n, len(all))
	}
	text := bytes.TrimFunc(all[n-1], func(r rune) bool { return r <= ' ' || r == 0x7f })
	if len(text) == 0 {
		return "", ErrNoSerial
	}
	return string(bytes.ToValidUTF8(text, []byte("\uFFFD"))), nil
}

// EncodeSMBIOS returns small SMBIOS tables with the serial number, in the form
// that [Firmware] returns.
func EncodeSMBIOS(manufacturer, product, serial string) []byte {
	var texts []byte
	index := byte(0)
	number := func(s string) byte {
		// A NUL would end the string, and an empty one the list.
		s = string(bytes.ReplaceAll([]byte(s), []byte{0}, nil))
		if s == "" {
			return 0
		}
		texts = append(append(texts, s...), 0)
		index++
		return index
	}
	const length = 0x1B // System Information since SMBIOS 2.4
	system := make([]byte, length)
	system[0], system[1] = smbiosSystem, length
	system[4], system[5], system[smbiosSerial] = number(manufacturer), number(product), number(serial)
	if texts == nil {
		texts = []byte{0}
	}
	table := append(append(system, texts...), 0)
	table = append(table, smbiosEnd, smbiosFormatted, 1, 0, 0, 0)
	b := []byte{0, 3, 2, 0}
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(table))), table...)
}
