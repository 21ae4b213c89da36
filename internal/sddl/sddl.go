// Package sddl reads access control lists in the security descriptor definition language, in
// the form in which Windows writes them.
package sddl

import (
	"regexp"
	"strconv"
	"strings"
)

// Entry is what a security descriptor allows an account on the object itself.
type Entry struct {
	Account string // as in the text: an abbreviation such as BA, or a SID
	Mask    uint32 // generic rights are not replaced by those that they stand for
}

// ace matches the beginning of an entry: type, flags, rights and account. A conditional entry
// has more.
var ace = regexp.MustCompile(`\(([A-Z]+);([A-Z]*);([^;()]*);[^;()]*;[^;()]*;([^;()]+)[;)]`)

// Allowed returns the entries that allow something. ok is false if the descriptor has no
// access control list, which allows everyone everything. Entries that deny are ignored, and
// so are the conditions of those that allow.
func Allowed(text string) (entries []Entry, ok bool) {
	_, acl, ok := strings.Cut(text, "D:")
	if !ok || strings.HasPrefix(acl, "NO_ACCESS_CONTROL") {
		return nil, false
	}
	acl, _, _ = strings.Cut(acl, "S:")
	for _, m := range ace.FindAllStringSubmatch(acl, -1) {
		if allows(m[1]) && !inheritOnly(m[2]) {
			entries = append(entries, Entry{Account: m[4], Mask: mask(m[3])})
		}
	}
	return entries, true
}

// allows reports whether an entry of this type allows something: A, and for an object (OA), a
// callback (XA) or both (ZA). Source: document, "ACE Strings".
func allows(kind string) bool { return kind == "A" || kind == "OA" || kind == "XA" || kind == "ZA" }

// inheritOnly reports whether an entry is only for what is made in the object. Flags have
// two letters each.
func inheritOnly(flags string) bool {
	for i := 0; i+1 < len(flags); i += 2 {
		if flags[i:i+2] == "IO" {
			return true
		}
	}
	return false
}

// mask returns the bits of rights. Unknown letters count as all of them.
func mask(rights string) uint32 {
	if n, err := strconv.ParseUint(rights, 0, 32); err == nil {
		return uint32(n)
	}
	letters := map[string]uint32{
		"GA": 0x10000000, "GX": 0x20000000, "GW": 0x40000000, "GR": 0x80000000,
		"RC": 0x20000, "SD": 0x10000, "WD": 0x40000, "WO": 0x80000,
		"FA": 0x1f01ff, "FR": 0x120089, "FW": 0x120116, "FX": 0x1200a0,
		"CC": 0x1, "DC": 0x2, "LC": 0x4, "SW": 0x8, "RP": 0x10, "WP": 0x20, "DT": 0x40, "LO": 0x80, "CR": 0x100,
	}
	var m uint32
	for i := 0; i < len(rights); i += 2 {
		bits, ok := letters[rights[i:min(i+2, len(rights))]]
		if !ok {
			return ^uint32(0)
		}
		m |= bits
	}
	return m
}
