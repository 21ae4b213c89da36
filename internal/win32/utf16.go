package win32

import (
	"unicode/utf16"
	"unicode/utf8"
)

// UTF16 converts s to Windows' 16-bit units, without a final NUL. Windows accepts
// any unit in a file name, even half of a surrogate pair, which UTF-8 cannot
// represent. s holds such a half as its own three bytes (WTF-8), as in package
// os; otherwise an attacker could create names that we can list but not open or
// remove. Other bytes that are not UTF-8 become U+FFFD.
func UTF16(s string) []uint16 {
	u := make([]uint16, 0, len(s))
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 && len(s) >= 3 && s[0] == 0xED && s[1]&0xE0 == 0xA0 && s[2]&0xC0 == 0x80 {
			u = append(u, 0xD000|uint16(s[1]&0x3F)<<6|uint16(s[2]&0x3F))
			s = s[3:]
			continue
		}
		u = utf16.AppendRune(u, r)
		s = s[n:]
	}
	return u
}

// FromUTF16 converts units to a string. It is the inverse of UTF16.
func FromUTF16(u []uint16) string {
	b := make([]byte, 0, len(u))
	for i := 0; i < len(u); i++ {
		if !utf16.IsSurrogate(rune(u[i])) {
			b = utf8.AppendRune(b, rune(u[i]))
			continue
		}
		if i+1 < len(u) {
			if r := utf16.DecodeRune(rune(u[i]), rune(u[i+1])); r != utf8.RuneError {
				b = utf8.AppendRune(b, r)
				i++
				continue
			}
		}
		b = append(b, 0xED, 0x80|byte(u[i]>>6&0x3F), 0x80|byte(u[i]&0x3F))
	}
	return string(b)
}
