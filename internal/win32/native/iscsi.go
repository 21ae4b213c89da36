package native

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Structures of iscsidsc.h on 64-bit Windows. A test pins sizes and offsets as
// literal numbers, because some of them are wrong in open copies of the header.
// Structures with pointers into the same buffer are decoded from its bytes,
// because a service's output cannot be trusted.

const (
	iscsiNameLen    = 224 // MAX_ISCSI_NAME_LEN + 1
	iscsiHBANameLen = 256 // MAX_ISCSI_HBANAME_LEN
	iscsiTextLen    = 256 // symbolic names and addresses

	// Flags in ISCSI_LOGIN_OPTIONS for the fields that are set.
	iscsiUsername = 0x20
	iscsiPassword = 0x40
	iscsiAuthType = 0x80
)

// iscsiTargetPortal is ISCSI_TARGET_PORTALW.
type iscsiTargetPortal struct {
	symbolicName [iscsiTextLen]uint16
	address      [iscsiTextLen]uint16
	socket       uint16
}

// iscsiTargetPortalInfo is ISCSI_TARGET_PORTAL_INFOW.
type iscsiTargetPortalInfo struct {
	initiator     [iscsiHBANameLen]uint16
	initiatorPort uint32
	symbolicName  [iscsiTextLen]uint16
	address       [iscsiTextLen]uint16
	socket        uint16
}

// iscsiLoginOptions is ISCSI_LOGIN_OPTIONS. User name and password are bytes
// without a NUL.
type iscsiLoginOptions struct {
	version        uint32
	specified      uint32
	flags          uint32
	authType       uint32
	headerDigest   uint32
	dataDigest     uint32
	maxConnections uint32
	time2Wait      uint32
	time2Retain    uint32
	usernameLength uint32
	passwordLength uint32
	username       *byte
	password       *byte
}

// iscsiSessionID is ISCSI_UNIQUE_SESSION_ID and ISCSI_UNIQUE_CONNECTION_ID.
type iscsiSessionID struct {
	adapterUnique, adapterSpecific uint64
}

// Size and offsets of ISCSI_SESSION_INFOW.
const (
	sizeofISCSISession          = 64
	iscsiSessionNodeName        = 24
	iscsiSessionTargetName      = 32
	iscsiSessionConnectionCount = 48
	iscsiSessionConnections     = 56
)

// Size and offsets of ISCSI_CONNECTION_INFOW.
const (
	sizeofISCSIConnection        = 40
	iscsiConnectionTargetAddress = 24
	iscsiConnectionTargetSocket  = 34
)

// iscsiDevice is ISCSI_DEVICE_ON_SESSIONW.
type iscsiDevice struct {
	initiator       [iscsiHBANameLen]uint16
	target          [iscsiNameLen]uint16
	scsiLength      uint32
	_               [3]uint8 // port, path and target
	scsiLun         uint8
	interfaceType   guid
	interfaceName   [260]uint16
	legacyName      [260]uint16
	deviceType      uint32
	deviceNumber    uint32
	partitionNumber uint32
	instance        uint32
}

// Size and offsets of PERSISTENT_ISCSI_LOGIN_INFOW.
const (
	sizeofISCSILogin        = 2080
	iscsiLoginInitiator     = 450
	iscsiLoginInitiatorPort = 964
	iscsiLoginAddress       = 968 + 512
	iscsiLoginSocket        = 968 + 1024
)

// fill copies s, with a NUL, into a field of a structure.
func fill(field []uint16, what, s string) error {
	u := win32.UTF16(s)
	if len(u) >= len(field) || strings.ContainsRune(s, 0) {
		return fmt.Errorf("%s of %d characters, want at most %d and no NUL: %w", what, len(u), len(field)-1, win32.ERROR_INVALID_PARAMETER)
	}
	copy(field, u)
	return nil
}

func encodeISCSIPortal(p win32.ISCSIPortal) (*iscsiTargetPortal, error) {
	out := &iscsiTargetPortal{socket: p.Socket}
	return out, fill(out.address[:], "portal address", p.Address)
}

func (p *iscsiTargetPortal) decode() win32.ISCSIPortal {
	return win32.ISCSIPortal{Address: terminated(p.address[:]), Socket: p.socket}
}

func (p *iscsiTargetPortalInfo) decode() win32.ISCSISendTargetPortal {
	return win32.ISCSISendTargetPortal{
		Initiator: terminated(p.initiator[:]), InitiatorPort: p.initiatorPort,
		ISCSIPortal: win32.ISCSIPortal{Address: terminated(p.address[:]), Socket: p.socket},
	}
}

func (d *iscsiDevice) decode() win32.ISCSIDevice {
	return win32.ISCSIDevice{
		Interface: d.interfaceType, Lun: d.scsiLun,
		Number: win32.DeviceNumber{DeviceType: d.deviceType, DeviceNumber: d.deviceNumber, PartitionNumber: d.partitionNumber},
	}
}

// encodeISCSILogin returns the options of a login. It sets user name and secret
// if they are given; their bytes belong to Go and must live as long as the
// result.
func encodeISCSILogin(l win32.ISCSILogin) (*iscsiLoginOptions, error) {
	o := &iscsiLoginOptions{specified: iscsiAuthType, authType: l.AuthType}
	text := func(s string, bit uint32, length *uint32, at **byte) error {
		if len(s) > math.MaxUint16 {
			return win32.ERROR_INVALID_PARAMETER
		}
		b := append([]byte(s), 0) // the NUL is not counted; it is for functions that expect one
		o.specified |= bit
		*length, *at = uint32(len(s)), &b[0]
		return nil
	}
	if l.User != nil {
		if err := text(*l.User, iscsiUsername, &o.usernameLength, &o.username); err != nil {
			return nil, err
		}
	}
	if l.Password != nil {
		if err := text(l.Password.Reveal(), iscsiPassword, &o.passwordLength, &o.password); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// output is a buffer that a function filled, and the address that it had at that
// time: the pointers in it point into the buffer.
type output struct {
	b    []byte
	base uint64
}

// offsetAt returns the offset in the buffer of the pointer that is stored at an
// offset. ok is false if the pointer is nil or points elsewhere.
func (o output) offsetAt(at int) (off int, ok bool) {
	if at < 0 || at > len(o.b)-8 {
		return 0, false
	}
	p := binary.LittleEndian.Uint64(o.b[at:])
	if p < o.base || p-o.base >= uint64(len(o.b)) {
		return 0, false
	}
	return int(p - o.base), true
}

// text returns the string of the pointer that is stored at an offset.
func (o output) text(at int) string {
	off, ok := o.offsetAt(at)
	if !ok {
		return ""
	}
	return o.inline(off, (len(o.b)-off)/2)
}

// inline returns the string stored at an offset, of at most n units.
func (o output) inline(off, n int) string {
	if off < 0 || off > len(o.b) {
		return ""
	}
	var u []uint16
	for i := off; i+2 <= len(o.b) && len(u) < n; i += 2 {
		c := binary.LittleEndian.Uint16(o.b[i:])
		if c == 0 {
			break
		}
		u = append(u, c)
	}
	return win32.FromUTF16(u)
}

// sessions decodes the output of GetIScsiSessionListW.
func (o output) sessions(count uint32) []win32.ISCSISession {
	var list []win32.ISCSISession
	for i := range min(int(count), len(o.b)/sizeofISCSISession) {
		at := i * sizeofISCSISession
		s := win32.ISCSISession{
			ID: win32.ISCSISessionID{
				AdapterUnique:   binary.LittleEndian.Uint64(o.b[at:]),
				AdapterSpecific: binary.LittleEndian.Uint64(o.b[at+8:]),
			},
			TargetName: o.text(at + iscsiSessionTargetName),
		}
		if s.TargetName == "" {
			s.TargetName = o.text(at + iscsiSessionNodeName)
		}
		connections := binary.LittleEndian.Uint32(o.b[at+iscsiSessionConnectionCount:])
		if off, ok := o.offsetAt(at + iscsiSessionConnections); ok {
			for range min(int(connections), (len(o.b)-off)/sizeofISCSIConnection) {
				s.Connections = append(s.Connections, win32.ISCSIConnection{
					TargetAddress: o.text(off + iscsiConnectionTargetAddress),
					TargetSocket:  binary.LittleEndian.Uint16(o.b[off+iscsiConnectionTargetSocket:]),
				})
				off += sizeofISCSIConnection
			}
		}
		list = append(list, s)
	}
	return list
}

// logins decodes the output of ReportIScsiPersistentLoginsW, without the
// credentials.
func (o output) logins(count uint32) []win32.ISCSIPersistentLogin {
	var list []win32.ISCSIPersistentLogin
	for i := range min(int(count), len(o.b)/sizeofISCSILogin) {
		at := i * sizeofISCSILogin
		list = append(list, win32.ISCSIPersistentLogin{
			TargetName:    o.inline(at, iscsiNameLen),
			Initiator:     o.inline(at+iscsiLoginInitiator, iscsiHBANameLen),
			InitiatorPort: binary.LittleEndian.Uint32(o.b[at+iscsiLoginInitiatorPort:]),
			Portal: win32.ISCSIPortal{
				Address: o.inline(at+iscsiLoginAddress, iscsiTextLen),
				Socket:  binary.LittleEndian.Uint16(o.b[at+iscsiLoginSocket:]),
			},
		})
	}
	return list
}
