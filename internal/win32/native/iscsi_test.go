package native

import (
	"encoding/binary"
	"reflect"
	"testing"
	"unsafe"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// The numbers are literals on purpose: some of these structures are wrong in
// mingw-w64's iscsidsc.h.
func TestISCSILayouts(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("needs a 64-bit machine: the structures are those of 64-bit Windows")
	}
	var portal iscsiTargetPortal
	var info iscsiTargetPortalInfo
	var login iscsiLoginOptions
	var id iscsiSessionID
	var device iscsiDevice
	for _, c := range []struct {
		name      string
		got, want uintptr
	}{
		{"ISCSI_TARGET_PORTALW", unsafe.Sizeof(portal), 1026},
		{"ISCSI_TARGET_PORTALW alignment", unsafe.Alignof(portal), 2},
		{"ISCSI_TARGET_PORTALW.SymbolicName", unsafe.Offsetof(portal.symbolicName), 0},
		{"ISCSI_TARGET_PORTALW.Address", unsafe.Offsetof(portal.address), 512},
		{"ISCSI_TARGET_PORTALW.Socket", unsafe.Offsetof(portal.socket), 1024},

		{"ISCSI_TARGET_PORTAL_INFOW", unsafe.Sizeof(info), 1544},
		{"ISCSI_TARGET_PORTAL_INFOW.InitiatorName", unsafe.Offsetof(info.initiator), 0},
		{"ISCSI_TARGET_PORTAL_INFOW.InitiatorPortNumber", unsafe.Offsetof(info.initiatorPort), 512},
		{"ISCSI_TARGET_PORTAL_INFOW.SymbolicName", unsafe.Offsetof(info.symbolicName), 516},
		{"ISCSI_TARGET_PORTAL_INFOW.Address", unsafe.Offsetof(info.address), 1028},
		{"ISCSI_TARGET_PORTAL_INFOW.Socket", unsafe.Offsetof(info.socket), 1540},

		{"ISCSI_LOGIN_OPTIONS", unsafe.Sizeof(login), 64},
		{"ISCSI_LOGIN_OPTIONS.Version", unsafe.Offsetof(login.version), 0},
		{"ISCSI_LOGIN_OPTIONS.InformationSpecified", unsafe.Offsetof(login.specified), 4},
		{"ISCSI_LOGIN_OPTIONS.LoginFlags", unsafe.Offsetof(login.flags), 8},
		{"ISCSI_LOGIN_OPTIONS.AuthType", unsafe.Offsetof(login.authType), 12},
		{"ISCSI_LOGIN_OPTIONS.HeaderDigest", unsafe.Offsetof(login.headerDigest), 16},
		{"ISCSI_LOGIN_OPTIONS.DataDigest", unsafe.Offsetof(login.dataDigest), 20},
		{"ISCSI_LOGIN_OPTIONS.MaximumConnections", unsafe.Offsetof(login.maxConnections), 24},
		{"ISCSI_LOGIN_OPTIONS.DefaultTime2Wait", unsafe.Offsetof(login.time2Wait), 28},
		{"ISCSI_LOGIN_OPTIONS.DefaultTime2Retain", unsafe.Offsetof(login.time2Retain), 32},
		{"ISCSI_LOGIN_OPTIONS.UsernameLength", unsafe.Offsetof(login.usernameLength), 36},
		{"ISCSI_LOGIN_OPTIONS.PasswordLength", unsafe.Offsetof(login.passwordLength), 40},
		{"ISCSI_LOGIN_OPTIONS.Username", unsafe.Offsetof(login.username), 48},
		{"ISCSI_LOGIN_OPTIONS.Password", unsafe.Offsetof(login.password), 56},

		{"ISCSI_UNIQUE_SESSION_ID", unsafe.Sizeof(id), 16},
		{"ISCSI_UNIQUE_SESSION_ID.AdapterUnique", unsafe.Offsetof(id.adapterUnique), 0},
		{"ISCSI_UNIQUE_SESSION_ID.AdapterSpecific", unsafe.Offsetof(id.adapterSpecific), 8},

		{"ISCSI_DEVICE_ON_SESSIONW", unsafe.Sizeof(device), 2040},
		{"ISCSI_DEVICE_ON_SESSIONW.InitiatorName", unsafe.Offsetof(device.initiator), 0},
		{"ISCSI_DEVICE_ON_SESSIONW.TargetName", unsafe.Offsetof(device.target), 512},
		{"ISCSI_DEVICE_ON_SESSIONW.ScsiAddress", unsafe.Offsetof(device.scsiLength), 960},
		{"ISCSI_DEVICE_ON_SESSIONW.ScsiAddress.Lun", unsafe.Offsetof(device.scsiLun), 960 + 7},
		{"ISCSI_DEVICE_ON_SESSIONW.DeviceInterfaceType", unsafe.Offsetof(device.interfaceType), 968},
		{"ISCSI_DEVICE_ON_SESSIONW.DeviceInterfaceName", unsafe.Offsetof(device.interfaceName), 984},
		{"ISCSI_DEVICE_ON_SESSIONW.LegacyName", unsafe.Offsetof(device.legacyName), 1504},
		{"ISCSI_DEVICE_ON_SESSIONW.StorageDeviceNumber", unsafe.Offsetof(device.deviceType), 2024},
		{"ISCSI_DEVICE_ON_SESSIONW.DeviceInstance", unsafe.Offsetof(device.instance), 2036},

		{"ISCSI_SESSION_INFOW", sizeofISCSISession, 64},
		{"ISCSI_SESSION_INFOW.TargetNodeName", iscsiSessionNodeName, 24},
		{"ISCSI_SESSION_INFOW.TargetName", iscsiSessionTargetName, 32},
		{"ISCSI_SESSION_INFOW.ConnectionCount", iscsiSessionConnectionCount, 48},
		{"ISCSI_SESSION_INFOW.Connections", iscsiSessionConnections, 56},
		{"ISCSI_CONNECTION_INFOW", sizeofISCSIConnection, 40},
		{"ISCSI_CONNECTION_INFOW.TargetAddress", iscsiConnectionTargetAddress, 24},
		{"ISCSI_CONNECTION_INFOW.TargetSocket", iscsiConnectionTargetSocket, 34},
		{"PERSISTENT_ISCSI_LOGIN_INFOW", sizeofISCSILogin, 2080},
		{"PERSISTENT_ISCSI_LOGIN_INFOW.InitiatorInstance", iscsiLoginInitiator, 450},
		{"PERSISTENT_ISCSI_LOGIN_INFOW.InitiatorPortNumber", iscsiLoginInitiatorPort, 964},
		{"PERSISTENT_ISCSI_LOGIN_INFOW.TargetPortal.Address", iscsiLoginAddress, 968 + 512},
		{"PERSISTENT_ISCSI_LOGIN_INFOW.TargetPortal.Socket", iscsiLoginSocket, 968 + 1024},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, want %d", c.name, c.got, c.want)
		}
	}
}

// wideBytes returns s as NUL-terminated UTF-16.
func wideBytes(s string) []byte {
	var b []byte
	for _, u := range win32.UTF16(s) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return append(b, 0, 0)
}

// sessionBuffer returns a session list in Windows' layout: first the structures,
// then the data that they point to.
func sessionBuffer(base uint64) []byte {
	b := make([]byte, sizeofISCSISession+2*sizeofISCSIConnection)
	put := binary.LittleEndian.PutUint64
	put(b[0:], 0xAA)
	put(b[8:], 0xBB)
	point := func(at int, s string) {
		put(b[at:], base+uint64(len(b)))
		b = append(b, wideBytes(s)...)
	}
	point(iscsiSessionTargetName, "iqn.2025-01.com.example:data")
	binary.LittleEndian.PutUint32(b[iscsiSessionConnectionCount:], 2)
	put(b[iscsiSessionConnections:], base+sizeofISCSISession)
	for i, address := range []string{"10.0.0.1", "fd00::1"} {
		at := sizeofISCSISession + i*sizeofISCSIConnection
		point(at+iscsiConnectionTargetAddress, address)
		binary.LittleEndian.PutUint16(b[at+iscsiConnectionTargetSocket:], uint16(3260+i))
	}
	return b
}

func TestISCSISessions(t *testing.T) {
	const base = 0x7FF812345678
	got := output{sessionBuffer(base), base}.sessions(1)
	want := []win32.ISCSISession{{
		ID: win32.ISCSISessionID{AdapterUnique: 0xAA, AdapterSpecific: 0xBB}, TargetName: "iqn.2025-01.com.example:data",
		Connections: []win32.ISCSIConnection{{TargetAddress: "10.0.0.1", TargetSocket: 3260}, {TargetAddress: "fd00::1", TargetSocket: 3261}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sessions = %+v, want %+v", got, want)
	}
	// A buffer that was moved, or that has a wrong count.
	if got := (output{sessionBuffer(base), base + 1<<30}).sessions(1); len(got) != 1 || got[0].TargetName != "" || got[0].Connections != nil {
		t.Errorf("with pointers to elsewhere: %+v", got)
	}
	if got := (output{sessionBuffer(base)[:10], base}).sessions(1); got != nil {
		t.Errorf("of 10 bytes: %+v", got)
	}
}

func TestISCSIPersistentLogins(t *testing.T) {
	b := make([]byte, 2*sizeofISCSILogin)
	copy(b[sizeofISCSILogin:], wideBytes("iqn.x"))
	copy(b[sizeofISCSILogin+iscsiLoginInitiator:], wideBytes(`Root\ISCSIPRT\0000_0`))
	binary.LittleEndian.PutUint32(b[sizeofISCSILogin+iscsiLoginInitiatorPort:], 7)
	copy(b[sizeofISCSILogin+iscsiLoginAddress:], wideBytes("10.0.0.1"))
	binary.LittleEndian.PutUint16(b[sizeofISCSILogin+iscsiLoginSocket:], 3260)
	got := output{b: b}.logins(99)
	want := win32.ISCSIPersistentLogin{TargetName: "iqn.x", Initiator: `Root\ISCSIPRT\0000_0`, InitiatorPort: 7, Portal: win32.ISCSIPortal{Address: "10.0.0.1", Socket: 3260}}
	if len(got) != 2 || got[1] != want {
		t.Errorf("logins = %+v, want the second to be %+v", got, want)
	}
}

func TestISCSILoginOptions(t *testing.T) {
	user, secret := "user", win32.NewSecret("secret-of-16-by")
	for _, c := range []struct {
		login     win32.ISCSILogin
		specified uint32
		user, pw  uint32
	}{
		{win32.ISCSILogin{}, 0x80, 0, 0},
		{win32.ISCSILogin{AuthType: win32.ISCSI_CHAP_AUTH_TYPE, Password: &secret}, 0xC0, 0, 15},
		{win32.ISCSILogin{AuthType: win32.ISCSI_MUTUAL_CHAP_AUTH_TYPE, User: &user, Password: &secret}, 0xE0, 4, 15},
	} {
		o, err := encodeISCSILogin(c.login)
		if err != nil || o.specified != c.specified || o.usernameLength != c.user || o.passwordLength != c.pw || o.authType != c.login.AuthType ||
			(o.username == nil) != (c.user == 0) || (o.password == nil) != (c.pw == 0) {
			t.Errorf("login %+v: %+v, %v", c.login, o, err)
		}
	}
}

func TestISCSIPortalTooLong(t *testing.T) {
	for _, address := range []string{string(make([]byte, 3)), string(make([]rune, 256))} {
		if p, err := encodeISCSIPortal(win32.ISCSIPortal{Address: address}); err == nil {
			t.Errorf("address %q became %v", address, p)
		}
	}
	p, err := encodeISCSIPortal(win32.ISCSIPortal{Address: "fd00::1", Socket: 3261})
	if err != nil || p.decode() != (win32.ISCSIPortal{Address: "fd00::1", Socket: 3261}) {
		t.Errorf("portal = %v, %v", p, err)
	}
}

// For any input: no panic, and no text that is not in the input.
func FuzzISCSISessions(f *testing.F) {
	const base = 1 << 40
	f.Add(sessionBuffer(base), uint32(1))
	f.Add(make([]byte, 200), uint32(1<<31))
	f.Fuzz(func(t *testing.T, b []byte, count uint32) {
		a := output{b, base}
		if list := a.sessions(count); len(list) > len(b)/sizeofISCSISession {
			t.Errorf("%d sessions in %d bytes", len(list), len(b))
		}
		if list := a.logins(count); len(list) > len(b)/sizeofISCSILogin {
			t.Errorf("%d logins in %d bytes", len(list), len(b))
		}
	})
}

func TestISCSIPortalsAndDevices(t *testing.T) {
	info := iscsiTargetPortalInfo{initiatorPort: 7, socket: 3260}
	copy(info.initiator[:], win32.UTF16(`Root\ISCSIPRT\0000_0`))
	copy(info.address[:], win32.UTF16("fd00::1"))
	want := win32.ISCSISendTargetPortal{Initiator: `Root\ISCSIPRT\0000_0`, InitiatorPort: 7, ISCSIPortal: win32.ISCSIPortal{Address: "fd00::1", Socket: 3260}}
	if got := info.decode(); got != want {
		t.Errorf("portal = %+v, want %+v", got, want)
	}
	device := iscsiDevice{interfaceType: win32.GUID_DEVINTERFACE_DISK, scsiLun: 3, deviceType: win32.FILE_DEVICE_DISK, deviceNumber: 5, partitionNumber: 6}
	if got := device.decode(); got.Interface != win32.GUID_DEVINTERFACE_DISK || got.Lun != 3 || got.Number != (win32.DeviceNumber{DeviceType: win32.FILE_DEVICE_DISK, DeviceNumber: 5, PartitionNumber: 6}) {
		t.Errorf("device = %+v", got)
	}
}
