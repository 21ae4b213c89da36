package driver

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Structures of iscsidsc.h by sizes and offsets, as literal numbers and
// independent of the native side. Two open Go bindings and the SDK's text agree
// on them.
const (
	portalSize    = 1026 // ISCSI_TARGET_PORTALW
	portalAddress = 512
	portalSocket  = 1024

	portalInfoSize          = 1544 // ISCSI_TARGET_PORTAL_INFOW
	portalInfoInitiatorPort = 512
	portalInfoAddress       = 1028
	portalInfoSocket        = 1540

	sessionSize        = 64 // ISCSI_SESSION_INFOW
	sessionNode        = 24
	sessionTarget      = 32
	sessionCount       = 48
	sessionConnections = 56

	connectionSize    = 40 // ISCSI_CONNECTION_INFOW
	connectionAddress = 24
	connectionSocket  = 34

	onSessionSize      = 2040 // ISCSI_DEVICE_ON_SESSIONW
	onSessionLun       = 967
	onSessionInterface = 968
	onSessionNumber    = 2024

	persistentSize          = 2080 // PERSISTENT_ISCSI_LOGIN_INFOW
	persistentInitiator     = 450
	persistentInitiatorPort = 964
	persistentAddress       = 968 + 512
	persistentSocket        = 968 + 1024

	loginSize           = 64 // ISCSI_LOGIN_OPTIONS
	loginSpecified      = 4
	loginAuthType       = 12
	loginUsernameLength = 36
	loginPasswordLength = 40

	specifiedUsername = 0x20
	specifiedPassword = 0x40
	specifiedAuthType = 0x80

	sessionIDSize  = 16
	anyPort        = 0xFFFFFFFF
	mechanismsInfo = 2 // DiscoveryMechanisms
)

// Login is the arguments of a login through iscsidsc.dll.
type Login struct {
	Target    string
	Address   string
	Socket    uint16
	AuthType  uint32
	Specified uint32
	User      string
	Secret    string
}

// Logins returns the arguments of all logins through iscsidsc.dll, including
// failed ones.
func (s *Server) Logins() []Login {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Login(nil), s.logins...)
}

// iscsi makes a call of iscsidsc.dll.
func (s *Server) iscsi(what uint32, a *arguments) (results, error) {
	switch what {
	case callAddPortal:
		instance, port, p := a.text(), a.number(), a.portal()
		a.refuse(instance != "" || port != anyPort, "the call is for a specific initiator")
		if a.err != nil {
			return results{}, a.err
		}
		return results{}, s.api.AddIScsiSendTargetPortal(p)
	case callRefreshPortal, callRemovePortal:
		p := win32.ISCSISendTargetPortal{Initiator: a.text(), InitiatorPort: a.number(), ISCSIPortal: a.portal()}
		known, _ := s.api.ReportIScsiSendTargetPortals()
		a.refuse(slices.ContainsFunc(known, func(k win32.ISCSISendTargetPortal) bool { return k.ISCSIPortal == p.ISCSIPortal && k != p }),
			"the portal is registered for another initiator")
		if a.err != nil {
			return results{}, a.err
		}
		if what == callRemovePortal {
			return results{}, s.api.RemoveIScsiSendTargetPortal(p)
		}
		return results{}, s.api.RefreshIScsiSendTargetPortal(p)
	case callPortals:
		room := a.number()
		list, err := s.api.ReportIScsiSendTargetPortals()
		return array(list, portalInfoSize, room, func(b []byte, p win32.ISCSISendTargetPortal) {
			put(b, 0, p.Initiator)
			binary.LittleEndian.PutUint32(b[portalInfoInitiatorPort:], p.InitiatorPort)
			put(b, portalInfoAddress, p.Address)
			binary.LittleEndian.PutUint16(b[portalInfoSocket:], p.Socket)
		}, err)
	case callTargets:
		force, room := a.number(), a.number()
		list, err := s.api.ReportIScsiTargets(force != 0)
		return multiString(list, room, 1, err)
	case callTargetInformation:
		target, mechanism, class, room := a.text(), a.text(), a.number(), a.number()
		a.refuse(mechanism != "" || class != mechanismsInfo, "the class is not that of the discovery mechanisms")
		if a.err != nil {
			return results{}, a.err
		}
		list, err := s.api.IScsiTargetDiscovery(target)
		return multiString(list, room, 2, err)
	case callTargetPortals:
		target, room := a.text(), a.number()
		list, err := s.api.ReportIScsiTargetPortals(target)
		return array(list, portalSize, room, func(b []byte, p win32.ISCSIPortal) {
			put(b, portalAddress, p.Address)
			binary.LittleEndian.PutUint16(b[portalSocket:], p.Socket)
		}, err)
	case callLogin:
		return s.login(a)
	case callLogout:
		id := a.session()
		if a.err != nil {
			return results{}, a.err
		}
		return results{}, s.api.LogoutIScsiTarget(id)
	case callSessions:
		room := a.number()
		list, err := s.api.GetIScsiSessionList()
		return sessions(list, room, err)
	case callDevices:
		id, room := a.session(), a.number()
		if a.err != nil {
			return results{}, a.err
		}
		list, err := s.api.GetDevicesForIScsiSession(id)
		return array(list, onSessionSize, room, func(b []byte, d win32.ISCSIDevice) {
			b[onSessionLun] = d.Lun
			copy(b[onSessionInterface:], d.Interface.AppendTo(nil))
			copy(b[onSessionNumber:], d.Number.Encode())
		}, err)
	case callPersistent:
		room := a.number()
		list, err := s.api.ReportIScsiPersistentLogins()
		r, err := array(list, persistentSize, room/persistentSize, func(b []byte, l win32.ISCSIPersistentLogin) {
			put(b, 0, l.TargetName)
			put(b, persistentInitiator, l.Initiator)
			binary.LittleEndian.PutUint32(b[persistentInitiatorPort:], l.InitiatorPort)
			put(b, persistentAddress, l.Portal.Address)
			binary.LittleEndian.PutUint16(b[persistentSocket:], l.Portal.Socket)
		}, err)
		r.first, r.second = r.first*persistentSize, r.first // a size, and a count
		return r, err
	case callRemovePersistent:
		l := win32.ISCSIPersistentLogin{Initiator: a.text(), InitiatorPort: a.number(), TargetName: a.text(), Portal: a.portal()}
		if a.err != nil {
			return results{}, a.err
		}
		return results{}, s.api.RemoveIScsiPersistentTarget(l)
	case callSecret:
		secret, _ := a.bytes()
		if a.err != nil {
			return results{}, a.err
		}
		return results{}, s.api.SetIScsiInitiatorCHAPSharedSecret(win32.NewSecret(string(secret)))
	}
	return results{}, fmt.Errorf("call %d: %w", what, win32.ERROR_INVALID_FUNCTION)
}

func (s *Server) login(a *arguments) (results, error) {
	le := binary.LittleEndian
	target, informational, instance, port := a.text(), a.number(), a.text(), a.number()
	portal, persistent := a.portal(), a.number()
	options := a.structure(loginSize)
	user, withUser := a.bytes()
	secret, withSecret := a.bytes()
	l := Login{
		Target: target, Address: portal.Address, Socket: portal.Socket,
		AuthType: le.Uint32(options[loginAuthType:]), Specified: le.Uint32(options[loginSpecified:]),
		User: string(user), Secret: string(secret),
	}
	a.refuse(informational != 0 || persistent != 0, "the login is informational or persistent")
	a.refuse(instance != "" || port != anyPort, "the call is for a specific initiator")
	a.refuse(le.Uint32(options) != 0, "the options do not have version 0")
	a.refuse(l.Specified&^(specifiedUsername|specifiedPassword|specifiedAuthType) != 0, "the login has unexpected options")
	a.refuse(withUser != (l.Specified&specifiedUsername != 0) || withSecret != (l.Specified&specifiedPassword != 0), "the credentials do not match the flags")
	if a.err != nil {
		return results{}, a.err
	}
	s.mu.Lock()
	s.logins = append(s.logins, l)
	s.mu.Unlock()
	login := win32.ISCSILogin{AuthType: l.AuthType}
	if withUser {
		login.User = &l.User
	}
	if withSecret {
		hidden := win32.NewSecret(l.Secret)
		login.Password = &hidden
	}
	id, err := s.api.LoginIScsiTarget(target, portal, login)
	b := le.AppendUint64(le.AppendUint64(nil, id.AdapterUnique), id.AdapterSpecific)
	return results{bytes: append(b, b...)}, err // the session and its connection
}

func (a *arguments) portal() win32.ISCSIPortal {
	b := a.structure(portalSize)
	return win32.ISCSIPortal{Address: textAt(b, portalAddress, 256), Socket: binary.LittleEndian.Uint16(b[portalSocket:])}
}

func (a *arguments) session() win32.ISCSISessionID {
	b := a.structure(sessionIDSize)
	return win32.ISCSISessionID{AdapterUnique: binary.LittleEndian.Uint64(b), AdapterSpecific: binary.LittleEndian.Uint64(b[8:])}
}

// put writes a string into a structure, whose rest is zero.
func put(b []byte, at int, s string) {
	for i, u := range win32.UTF16(s) {
		binary.LittleEndian.PutUint16(b[at+2*i:], u)
	}
}

// array returns a list as structures of size bytes, if room is enough for them.
func array[T any](list []T, size int, room uint32, fill func([]byte, T), err error) (results, error) {
	r := results{first: uint32(len(list))}
	if err == nil && len(list) > int(room) {
		err = win32.ERROR_INSUFFICIENT_BUFFER
	}
	if err != nil {
		return r, err
	}
	r.bytes = make([]byte, size*len(list))
	for i, e := range list {
		fill(r.bytes[i*size:][:size], e)
	}
	return r, nil
}

// multiString returns a list as NUL-terminated strings, with a final NUL. The
// list's length and room are in units of unit bytes.
func multiString(list []string, room uint32, unit int, err error) (results, error) {
	var b []byte
	for _, s := range list {
		for _, u := range append(win32.UTF16(s), 0) {
			b = binary.LittleEndian.AppendUint16(b, u)
		}
	}
	b = append(b, 0, 0)
	r := results{first: uint32(len(b) / 2 * unit)}
	if err == nil && r.first > room {
		err = win32.ERROR_INSUFFICIENT_BUFFER
	}
	if err == nil {
		r.bytes = b
	}
	return r, err
}

// sessions returns ISCSI_SESSION_INFOW structures, followed by their connections,
// followed by the strings.
func sessions(list []win32.ISCSISession, room uint32, err error) (results, error) {
	le := binary.LittleEndian
	r := results{second: uint32(len(list))}
	b := make([]byte, sessionSize*len(list))
	pointer := func(at int) {
		r.pointers = append(r.pointers, uint32(at))
		le.PutUint64(b[at:], uint64(len(b)))
	}
	text := func(at int, s string) {
		pointer(at)
		for _, u := range append(win32.UTF16(s), 0) {
			b = le.AppendUint16(b, u)
		}
	}
	for i, s := range list {
		at := i * sessionSize
		le.PutUint64(b[at:], s.ID.AdapterUnique)
		le.PutUint64(b[at+8:], s.ID.AdapterSpecific)
		le.PutUint32(b[at+sessionCount:], uint32(len(s.Connections)))
		b = append(b, make([]byte, (8-len(b)%8)%8)...)
		pointer(at + sessionConnections)
		first := len(b)
		b = append(b, make([]byte, connectionSize*len(s.Connections))...)
		for j, c := range s.Connections {
			text(first+j*connectionSize+connectionAddress, c.TargetAddress)
			le.PutUint16(b[first+j*connectionSize+connectionSocket:], c.TargetSocket)
		}
		text(at+sessionNode, s.TargetName)
		text(at+sessionTarget, s.TargetName)
	}
	r.first = uint32(len(b))
	if err == nil && r.first > room {
		err = win32.ERROR_INSUFFICIENT_BUFFER
	}
	if err == nil {
		r.bytes = b
	} else {
		r.pointers = nil
	}
	return r, err
}
