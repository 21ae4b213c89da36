package winpath

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fold converts s to upper case in the way in which NTFS compares names: character by
// character, only in the basic multilingual plane, and never into or out of ASCII (so
// a dotless i is not an I). It uses Unicode's simple mapping. The table on a volume may
// be older; then Fold may treat more names as different.
func Fold(s string) string {
	if IsASCII(s) {
		return strings.ToUpper(s)
	}
	return strings.Map(func(r rune) rune {
		u := unicode.ToUpper(r)
		if u > 0xFFFF || (r < 0x80) != (u < 0x80) {
			return r
		}
		return u
	}, s)
}

// IsASCII reports whether s has only characters of ASCII.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// SameName reports whether a and b are the same name: whether [Fold] returns the same for
// both.
func SameName(a, b string) bool {
	if a == b {
		return true
	}
	if IsASCII(a) && IsASCII(b) {
		return strings.EqualFold(a, b)
	}
	return Fold(a) == Fold(b)
}

// CheckName returns an error if Windows would change a name, use it for a device, or
// reject it: names with control characters or one of `< > : " / \ | ? *`, names that
// end in a dot or blank, and reserved device names with or without an extension. The
// error is of kind hosterr.ErrInvalid.
func CheckName(name string) error {
	if name == "" {
		return invalid("empty name")
	}
	for _, r := range name {
		switch {
		case r < ' ' || r == 0x7F:
			return invalid("name %[2]q must not contain the control character %[1]U", r, name)
		case r == unicode.ReplacementChar:
			return invalid("name %q is not valid Unicode", name)
		case isReserved(r):
			return invalid("name %[2]q must not contain %[1]c", r, name)
		}
	}
	if strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
		return invalid("name %q ends in a dot or blank, which Windows would remove", name)
	}
	if IsDevice(name) {
		return invalid("name %q is the name of a device", name)
	}
	return nil
}

// isReserved reports whether Windows gives a character of a name a meaning.
func isReserved(r rune) bool {
	switch r {
	case '<', '>', ':', '"', '/', '\\', '|', '?', '*':
		return true
	}
	return false
}

// IsDevice reports whether Windows treats name, in any directory, as a device: CON,
// PRN, AUX, NUL, COM0-9, LPT0-9 (also with superscript 1 to 3), CONIN$ and CONOUT$, also
// followed by an extension or blanks (Microsoft: "Naming Files, Paths, and Namespaces";
// Windows 11 is less strict).
func IsDevice(name string) bool {
	if name == "" || strings.IndexByte("ACLNPaclnp", name[0]) < 0 { // no device begins so
		return false
	}
	base, _, _ := strings.Cut(name, ".")
	base = strings.TrimRight(base, " ")
	if len(base) < 3 {
		return false
	}
	start, rest := base[:3], base[3:]
	is := func(device string) bool { return SameName(start, device) }
	switch rest {
	case "":
		return is("CON") || is("PRN") || is("AUX") || is("NUL")
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
		return is("COM") || is("LPT")
	}
	return is("CON") && (SameName(rest, "IN$") || SameName(rest, "OUT$"))
}
