package win32

import (
	"encoding/binary"
	"fmt"
)

// Constants of security descriptors (winnt.h).
const (
	DACL_SECURITY_INFORMATION = 0x4
	READ_CONTROL              = 0x20000
	WRITE_DAC                 = 0x40000
	FILE_ALL_ACCESS           = 0x1F01FF

	OBJECT_INHERIT_ACE    = 0x1
	CONTAINER_INHERIT_ACE = 0x2
	INHERIT_ONLY_ACE      = 0x8
)

// SID identifies an account: the authority that issued it, and up to 15 numbers.
type SID struct {
	Authority uint64 // of 48 bits
	Sub       []uint32
}

// ACE is an entry of an access control list that grants rights (ACCESS_ALLOWED_ACE).
type ACE struct {
	Flags byte // OBJECT_INHERIT_ACE …
	Mask  uint32
	SID   SID
}

// Sizes and values of a self-relative SECURITY_DESCRIPTOR, ACL, ACE and SID (MS-DTYP 2.4).
const (
	sizeofDescriptor = 20
	descriptorDACL   = 16 // .OffsetDacl
	sizeofACL        = 8
	aceSID           = 8
	sizeofSID        = 8
	seDACLPresent    = 0x4
	seSelfRelative   = 0x8000
	maxSubs          = 15
)

// EncodeDACL returns a self-relative security descriptor that has nothing but an access
// control list.
func EncodeDACL(aces []ACE) []byte {
	b := make([]byte, sizeofDescriptor+sizeofACL)
	b[0] = 1
	binary.LittleEndian.PutUint16(b[2:], seDACLPresent|seSelfRelative)
	binary.LittleEndian.PutUint32(b[descriptorDACL:], sizeofDescriptor)
	for _, a := range aces {
		b = append(b, 0, a.Flags)
		b = binary.LittleEndian.AppendUint16(b, uint16(aceSID+sizeofSID+4*len(a.SID.Sub)))
		b = binary.LittleEndian.AppendUint32(b, a.Mask)
		b = append(b, 1, byte(len(a.SID.Sub)))
		b = append(b, binary.BigEndian.AppendUint64(nil, a.SID.Authority)[2:]...)
		for _, sub := range a.SID.Sub {
			b = binary.LittleEndian.AppendUint32(b, sub)
		}
	}
	b[sizeofDescriptor] = 2
	binary.LittleEndian.PutUint16(b[sizeofDescriptor+2:], uint16(len(b)-sizeofDescriptor))
	binary.LittleEndian.PutUint16(b[sizeofDescriptor+4:], uint16(len(aces)))
	return b
}

// DecodeDACL reads the access control list of a self-relative security descriptor, in which
// all entries grant rights.
func DecodeDACL(b []byte) ([]ACE, error) {
	bad := func(what string) error { return fmt.Errorf("SECURITY_DESCRIPTOR: %w: %s", ErrLayout, what) }
	const present = seDACLPresent | seSelfRelative
	if len(b) < sizeofDescriptor || b[0] != 1 || binary.LittleEndian.Uint16(b[2:])&present != present {
		return nil, bad("no access control list")
	}
	at := uint64(binary.LittleEndian.Uint32(b[descriptorDACL:]))
	if at < sizeofDescriptor || at+sizeofACL > uint64(len(b)) {
		return nil, bad("the offset of the access control list")
	}
	acl := b[at:]
	size := int(binary.LittleEndian.Uint16(acl[2:]))
	if acl[0] != 2 || size < sizeofACL || size > len(acl) {
		return nil, bad("the size of the access control list")
	}
	rest := acl[sizeofACL:size]
	var aces []ACE
	for range binary.LittleEndian.Uint16(acl[4:]) {
		if len(rest) < aceSID+sizeofSID {
			return nil, bad("an entry is cut off")
		}
		subs, length := int(rest[aceSID+1]), int(binary.LittleEndian.Uint16(rest[2:]))
		if rest[0] != 0 || rest[aceSID] != 1 || subs > maxSubs || length != aceSID+sizeofSID+4*subs || length > len(rest) {
			return nil, bad("an entry of another kind or size")
		}
		a := ACE{Flags: rest[1], Mask: binary.LittleEndian.Uint32(rest[4:])}
		a.SID.Authority = binary.BigEndian.Uint64(append([]byte{0, 0}, rest[aceSID+2:aceSID+8]...))
		for i := range subs {
			a.SID.Sub = append(a.SID.Sub, binary.LittleEndian.Uint32(rest[aceSID+sizeofSID+4*i:]))
		}
		aces, rest = append(aces, a), rest[length:]
	}
	return aces, nil
}
