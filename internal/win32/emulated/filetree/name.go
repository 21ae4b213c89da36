package filetree

import (
	"encoding/binary"
	"unicode"
	"unicode/utf16"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// MaxName is the longest name of an entry, in UTF-16 units ([MS-FSCC] 2.1.5.2).
const MaxName = 255

// CheckName tells whether a file system takes name for an entry:
// STATUS_OBJECT_NAME_INVALID if it is empty, longer than [MaxName], "." or "..",
// or has a control character or one of "\ / : * ? < > | in it ([MS-FSCC] 2.1.5.2
// and, for the two dots, 2.1.5.1). The colon would be a stream, which this
// emulation does not have.
func CheckName(name string) error {
	if name == "" || name == "." || name == ".." {
		return win32.STATUS_OBJECT_NAME_INVALID
	}
	units := 0
	for _, r := range name {
		if r < 0x20 {
			return win32.STATUS_OBJECT_NAME_INVALID
		}
		switch r {
		case '"', '\\', '/', ':', '*', '?', '<', '>', '|':
			return win32.STATUS_OBJECT_NAME_INVALID
		}
		if r > 0xFFFF {
			units++
		}
		units++
	}
	if units > MaxName {
		return win32.STATUS_OBJECT_NAME_INVALID
	}
	return nil
}

// clean replaces what is not UTF-8 by U+FFFD, as turning the name into UTF-16
// and back does.
func clean(name string) string { return string([]rune(name)) }

// Equal tells whether two names are one to a case-insensitive file system.
func Equal(a, b string) bool { return a == b || fold(a) == fold(b) }

// fold is the key under which a directory keeps name: its upper-cased UTF-16
// units, big-endian, so that keys sort as NTFS sorts a directory (by unit).
func fold(name string) string {
	b := make([]byte, 0, 2*len(name))
	for _, r := range name {
		if r > 0xFFFF {
			hi, lo := utf16.EncodeRune(r)
			b = binary.BigEndian.AppendUint16(b, uint16(hi))
			b = binary.BigEndian.AppendUint16(b, uint16(lo))
			continue
		}
		b = binary.BigEndian.AppendUint16(b, upper(uint16(r)))
	}
	return string(b)
}

func upper(u uint16) uint16 {
	if u < 0x80 {
		if 'a' <= u && u <= 'z' {
			u -= 'a' - 'A'
		}
		return u
	}
	if r := unicode.ToUpper(rune(u)); r >= 0x80 && r <= 0xFFFF {
		return uint16(r)
	}
	return u
}
