package volume

import (
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// MaxPath is the number of UTF-16 units that fit into a UNICODE_STRING, whose
// length is 16 bits and counts bytes (ntdef.h).
const MaxPath = 32767

// NTName returns the NT name that Windows' Win32 layer makes of a path, like
// RtlDosPathNameToNtPathName (Microsoft: "Naming Files, Paths, and Namespaces";
// "File path formats on Windows systems"):
//
//   - `\\?\…` is literal: nothing is normalized;
//   - `\\.\…`, `\\server\share\…` and `C:\…` are normalized: "/" becomes "\";
//     empty parts and "." are removed; ".." removes the part before it; a single
//     dot at the end of a part is removed, and all dots and blanks at the end of
//     the path. There is no limit of 260 characters, since csi-proxy.exe's
//     manifest says longPathAware.
//
// If a normalized path ends in a name that Win32 reserves for a device (CON, NUL,
// COM1 …), name is that device and device is true.
//
// Windows resolves a relative path in the current directory of the process. The
// emulated node has none, so it returns ERROR_BAD_PATHNAME, an error that cannot
// be mistaken for a missing file.
func NTName(path string) (name string, device bool, err error) {
	if path == "" {
		return "", false, win32.ERROR_PATH_NOT_FOUND // Source: inference, as of GetFileAttributesW
	}
	if strings.ContainsRune(path, 0) {
		// Source: node, it would end the string in C; the native side refuses it, too.
		return "", false, win32.ERROR_INVALID_NAME
	}
	if Units(path) > MaxPath {
		return "", false, win32.ERROR_FILENAME_EXCED_RANGE // Source: inference, by the text of the code in winerror.h
	}
	if rest, ok := strings.CutPrefix(path, `\\?\`); ok {
		return `\??\` + rest, false, nil
	}
	p := strings.ReplaceAll(path, "/", `\`)
	root, rest, fixed := "", "", 0 // fixed: how many parts ".." cannot remove
	switch {
	case strings.HasPrefix(p, `\\.\`) || strings.HasPrefix(p, `\\?\`):
		root, rest, fixed = `\??\`, p[4:], 1
	case strings.HasPrefix(p, `\\`):
		root, rest, fixed = `\??\UNC\`, p[2:], 2
	case len(p) >= 3 && isLetter(p[0]) && p[1:3] == `:\`:
		root, rest = `\??\`+p[:2]+`\`, p[3:]
	default:
		return "", false, win32.ERROR_BAD_PATHNAME // Source: node, it has no current directory
	}
	end := "" // the path's last backslash
	if strings.HasSuffix(p, `\`) {
		end = `\`
	} else {
		rest = strings.TrimRight(rest, ". ") + dots(rest)
	}
	var parts []string
	for _, part := range strings.Split(rest, `\`) {
		switch part {
		case "", ".":
		case "..":
			parts = parts[:max(len(parts)-1, min(len(parts), fixed))]
		default:
			if strings.HasSuffix(part, ".") && !strings.HasSuffix(part, "..") {
				part = part[:len(part)-1]
			}
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return root, false, nil
	}
	if last := parts[len(parts)-1]; fixed == 0 && isDeviceName(last) {
		return `\??\` + last, true, nil
	}
	return root + strings.Join(parts, `\`) + end, false, nil
}

// dots returns the last part of rest if it is "." or "..", which are not dots at
// the end of a name.
func dots(rest string) string {
	last := rest[strings.LastIndex(rest, `\`)+1:]
	if last == "." || last == ".." {
		return last
	}
	return ""
}

// Units counts the UTF-16 units of s.
func Units(s string) int { return len(utf16.Encode([]rune(s))) }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isDeviceName reports whether Win32 reserves name, without its extension, for a
// device (RtlIsDosDeviceName_U; Microsoft: "Naming Files, Paths, and
// Namespaces"). Windows 11 and later reserve fewer names; this is Windows Server
// 2019.
func isDeviceName(name string) bool {
	if i := strings.IndexAny(name, ".:"); i >= 0 {
		name = name[:i]
	}
	name = strings.ToUpper(strings.TrimRight(name, " "))
	switch name {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, ok := strings.CutPrefix(name, "COM")
	if !ok {
		port, ok = strings.CutPrefix(name, "LPT")
	}
	switch port {
	case "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
		return ok
	}
	return false
}

// OfName finds the volume of an NT name. rest is the remainder of the name:
// "" for the volume's device, `\` for its root directory, `\a\b` for a path on
// it. vol.tree is up to date; it is nil if vol has no file system or is being
// formatted.
//
// Names are `\??\C:…`, `\??\Volume{…}…`, `\??\GLOBALROOT\Device\HarddiskVolume3…`
// and `\Device\HarddiskVolume3…`.
func (n *Volumes) OfName(name string) (vol *Volume, rest string, ok bool) {
	device := name
	if short, ok := CutPrefixFold(name, `\??\`); ok {
		first, rest := short, ""
		if i := strings.IndexByte(short, '\\'); i >= 0 {
			first, rest = short[:i], short[i:]
		}
		if len(first) == 2 && first[1] == ':' && isLetter(first[0]) {
			if guid, ok := n.Letters[first[0]&^0x20]; ok {
				return n.found(n.ByGUID(guid), rest)
			}
			return nil, "", false
		}
		if text, ok := CutPrefixFold(first, "Volume"); ok && strings.HasPrefix(text, "{") {
			guid, err := win32.ParseGUID(text)
			if err != nil {
				return nil, "", false
			}
			return n.found(n.ByGUID(guid), rest)
		}
		if !strings.EqualFold(first, "GLOBALROOT") {
			return nil, "", false
		}
		device = rest
	}
	device, ok = CutPrefixFold(device, `\Device\`)
	if !ok {
		return nil, "", false
	}
	first := device
	if i := strings.IndexByte(device, '\\'); i >= 0 {
		first, rest = device[:i], device[i:]
	}
	for _, v := range n.List {
		if v.visible() && strings.EqualFold(v.NTDevice(), `\Device\`+first) {
			return n.found(v, rest)
		}
	}
	return nil, "", false
}

func (n *Volumes) found(v *Volume, rest string) (*Volume, string, bool) {
	if v == nil {
		return nil, "", false
	}
	v.detect(&n.Tx)
	if v.formatting != nil {
		v.forget()
	}
	return v, rest, true
}

// ByGUID returns a volume that has arrived, or nil.
func (n *Volumes) ByGUID(guid win32.GUID) *Volume {
	for _, v := range n.List {
		if v.guid() == guid && v.visible() {
			return v
		}
	}
	return nil
}

// volumeByPlace returns the volume of `\\?\Harddisk<disk>Partition<partition>`, or nil.
// place is what follows "Harddisk".
func (n *Volumes) volumeByPlace(place string) *Volume {
	disk, partition, ok := cutFold(place, "Partition")
	if !ok {
		return nil
	}
	for _, v := range n.List {
		if len(v.Ranges) == 1 && v.visible() && disk == strconv.FormatUint(uint64(v.Ranges[0].Disk.Number), 10) &&
			partition == strconv.FormatUint(uint64(v.OnTable.Number), 10) {
			return v
		}
	}
	return nil
}

// DeviceOf returns the disk or volume of an NT name, or nil if it is the name of
// something else.
func (n *Volumes) DeviceOf(name string) kernel.Device {
	short, ok := CutPrefixFold(name, `\??\`)
	if !ok {
		return nil
	}
	if digits, ok := CutPrefixFold(short, "PhysicalDrive"); ok {
		number, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || digits != strconv.FormatUint(number, 10) {
			return nil
		}
		if d := n.disks.ByNumber(uint32(number)); d != nil {
			return d
		}
		return nil
	}
	if rest, ok := CutPrefixFold(short, "Harddisk"); ok {
		if v := n.volumeByPlace(rest); v != nil {
			return v
		}
		return nil
	}
	if strings.HasSuffix(strings.ToLower(short), win32.GUID_DEVINTERFACE_DISK.String()) {
		for _, d := range n.disks.List {
			if strings.EqualFold(d.InterfacePath()[4:], short) {
				return d
			}
		}
		return nil
	}
	if v, rest, ok := n.OfName(name); ok && rest == "" {
		return v
	}
	return nil
}

func cutFold(s, sep string) (before, after string, found bool) {
	i := strings.Index(strings.ToLower(s), strings.ToLower(sep))
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func CutPrefixFold(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}
