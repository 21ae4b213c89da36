package native

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Structures of iscsidsc.h on 64-bit Windows. Sizes and offsets are pinned by a
// test as literal numbers, because open copies of the header have some of them
// wrong. Those that hold pointers to other memory in the same buffer are decoded
// from its bytes: what a service answered is a claim.

const (
	iscsiNameLen    = 224 // MAX_ISCSI_NAME_LEN + 1
	iscsiHBANameLen = 256 // MAX_ISCSI_HBANAME_LEN
	iscsiTextLen    = 256 // symbolic names and addresses

	// What ISCSI_LOGIN_OPTIONS says that it specifies.
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

// Where ISCSI_SESSION_INFOW has what is read of it.
const (
	sizeofISCSISession          = 64
	iscsiSessionNodeName        = 24
	iscsiSessionTargetName      = 32
	iscsiSessionConnectionCount = 48
	iscsiSessionConnections     = 56
)

// Where ISCSI_CONNECTION_INFOW has what is read of it.
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

// Where PERSISTENT_ISCSI_LOGIN_INFOW has what is read of it.
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
		return fmt.Errorf("%s of %d characters, want at most %d without NUL: %w", what, len(u), len(field)-1, win32.ERROR_INVALID_PARAMETER)
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

// encodeISCSILogin makes the options of a login. User name and secret are in it
// where they are given; its bytes are Go's and must live as long as it.
func encodeISCSILogin(l win32.ISCSILogin) (*iscsiLoginOptions, error) {
	o := &iscsiLoginOptions{specified: iscsiAuthType, authType: l.AuthType}
	text := func(s string, bit uint32, length *uint32, at **byte) error {
		if len(s) > math.MaxUint16 {
			return win32.ERROR_INVALID_PARAMETER
		}
		b := append([]byte(s), 0) // the NUL is not counted; it is there for whoever expects one
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

// answered is a buffer that a function filled, and the address that it had then:
// the pointers in it point into it.
type answered struct {
	b    []byte
	base uint64
}

// within is the offset to which the pointer at an offset points; ok is false
// for one that points elsewhere, nil included.
func (a answered) within(at int) (off int, ok bool) {
	if at < 0 || at > len(a.b)-8 {
		return 0, false
	}
	p := binary.LittleEndian.Uint64(a.b[at:])
	if p < a.base || p-a.base >= uint64(len(a.b)) {
		return 0, false
	}
	return int(p - a.base), true
}

// text is the string to which the pointer at an offset points.
func (a answered) text(at int) string {
	off, ok := a.within(at)
	if !ok {
		return ""
	}
	return a.inline(off, (len(a.b)-off)/2)
}

// inline is the string that lies at an offset, of at most n units.
func (a answered) inline(off, n int) string {
	if off < 0 || off > len(a.b) {
		return ""
	}
	var u []uint16
	for i := off; i+2 <= len(a.b) && len(u) < n; i += 2 {
		c := binary.LittleEndian.Uint16(a.b[i:])
		if c == 0 {
			break
		}
		u = append(u, c)
	}
	return win32.FromUTF16(u)
}

// sessions decodes what GetIScsiSessionListW answered.
func (a answered) sessions(count uint32) []win32.ISCSISession {
	var list []win32.ISCSISession
	for i := range min(int(count), len(a.b)/sizeofISCSISession) {
		at := i * sizeofISCSISession
		s := win32.ISCSISession{
			ID: win32.ISCSISessionID{
				AdapterUnique:   binary.LittleEndian.Uint64(a.b[at:]),
				AdapterSpecific: binary.LittleEndian.Uint64(a.b[at+8:]),
			},
			TargetName: a.text(at + iscsiSessionTargetName),
		}
		if s.TargetName == "" {
			s.TargetName = a.text(at + iscsiSessionNodeName)
		}
		connections := binary.LittleEndian.Uint32(a.b[at+iscsiSessionConnectionCount:])
		if off, ok := a.within(at + iscsiSessionConnections); ok {
			for range min(int(connections), (len(a.b)-off)/sizeofISCSIConnection) {
				s.Connections = append(s.Connections, win32.ISCSIConnection{
					TargetAddress: a.text(off + iscsiConnectionTargetAddress),
					TargetSocket:  binary.LittleEndian.Uint16(a.b[off+iscsiConnectionTargetSocket:]),
				})
				off += sizeofISCSIConnection
			}
		}
		list = append(list, s)
	}
	return list
}

// logins decodes what ReportIScsiPersistentLoginsW answered. Credentials in it
// are not read.
func (a answered) logins(count uint32) []win32.ISCSIPersistentLogin {
	var list []win32.ISCSIPersistentLogin
	for i := range min(int(count), len(a.b)/sizeofISCSILogin) {
		at := i * sizeofISCSILogin
		list = append(list, win32.ISCSIPersistentLogin{
			TargetName:    a.inline(at, iscsiNameLen),
			Initiator:     a.inline(at+iscsiLoginInitiator, iscsiHBANameLen),
			InitiatorPort: binary.LittleEndian.Uint32(a.b[at+iscsiLoginInitiatorPort:]),
			Portal: win32.ISCSIPortal{
				Address: a.inline(at+iscsiLoginAddress, iscsiTextLen),
				Socket:  binary.LittleEndian.Uint16(a.b[at+iscsiLoginSocket:]),
			},
		})
	}
	return list
}
