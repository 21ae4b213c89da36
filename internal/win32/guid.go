package win32

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// GUID is Windows' GUID structure (guiddef.h). Its first three fields are
// little-endian in memory and on a GPT disk, but big-endian in text.
type GUID struct {
	Data1 uint32
	Data2 uint16
	Data3 uint16
	Data4 [8]byte
}

// String returns the registry form with braces and lower-case digits,
// "{ebd0a0a2-b9e5-4433-87c0-68b6b72699c7}".
func (g GUID) String() string {
	text := hex.EncodeToString(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, g.Data1), g.Data2), g.Data3))
	last := hex.EncodeToString(g.Data4[:])
	return "{" + text[:8] + "-" + text[8:12] + "-" + text[12:] + "-" + last[:4] + "-" + last[4:] + "}"
}

// IsZero reports whether g is all zeros, which GPT uses for "no entry".
func (g GUID) IsZero() bool { return g == GUID{} }

// AppendTo appends the 16 bytes of g in memory order.
func (g GUID) AppendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, g.Data1)
	b = binary.LittleEndian.AppendUint16(b, g.Data2)
	b = binary.LittleEndian.AppendUint16(b, g.Data3)
	return append(b, g.Data4[:]...)
}

// GUIDFromBytes reads 16 bytes in memory order. b must have that many.
func GUIDFromBytes(b []byte) GUID {
	g := GUID{
		Data1: binary.LittleEndian.Uint32(b),
		Data2: binary.LittleEndian.Uint16(b[4:]),
		Data3: binary.LittleEndian.Uint16(b[6:]),
	}
	copy(g.Data4[:], b[8:16])
	return g
}

// ParseGUID parses the text form, with or without braces, in any case.
func ParseGUID(s string) (GUID, error) {
	t := s
	if strings.HasPrefix(t, "{") && strings.HasSuffix(t, "}") {
		t = t[1 : len(t)-1]
	}
	if len(t) != 36 || t[8] != '-' || t[13] != '-' || t[18] != '-' || t[23] != '-' {
		return GUID{}, fmt.Errorf("GUID %q: want the form {xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}", s)
	}
	raw, err := hex.DecodeString(t[:8] + t[9:13] + t[14:18] + t[19:23] + t[24:])
	if err != nil {
		return GUID{}, fmt.Errorf("GUID %q: want hexadecimal digits: %w", s, err)
	}
	g := GUID{
		Data1: binary.BigEndian.Uint32(raw),
		Data2: binary.BigEndian.Uint16(raw[4:]),
		Data3: binary.BigEndian.Uint16(raw[6:]),
	}
	copy(g.Data4[:], raw[8:])
	return g, nil
}
