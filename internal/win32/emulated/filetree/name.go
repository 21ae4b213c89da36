package filetree

import (
	"encoding/binary"
	"unicode"
	"unicode/utf16"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// MaxName is the longest name of an entry, in UTF-16 units ([MS-FSCC] 2.1.5.2).
const MaxName = 255

// CheckName returns STATUS_OBJECT_NAME_INVALID for a name that a file system does
// not accept: one that is empty, longer than [MaxName], "." or "..", or contains
// a control character or one of "\ / : * ? < > | ([MS-FSCC] 2.1.5.2 and, for the
// two dots, 2.1.5.1). A colon would begin a stream name, but this emulation has
// no streams.
//
// Source: specification, [MS-FSCC] 2.1.5.2 and 2.1.5.1.
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

// clean replaces bytes that are not UTF-8 by U+FFFD, as a conversion to UTF-16
// and back does.
func clean(name string) string { return string([]rune(name)) }

// fold returns the key of name in a directory: its upper-cased UTF-16 units,
// big-endian, so that keys sort in NTFS's order (by unit).
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
