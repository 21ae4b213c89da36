package native

import "github.com/kubernetes-csi/csi-proxy/v2/internal/win32"

// guid lets prototypes name the type. It has GUID's memory layout.
type guid = win32.GUID

// interfaceData is SP_DEVICE_INTERFACE_DATA of 64-bit Windows.
type interfaceData struct {
	size     uint32
	class    guid
	flags    uint32
	reserved uintptr
}

// SP_DEVICE_INTERFACE_DETAIL_DATA_W is a size followed by a string of any length.
// The size field is always the size with a string of one unit and its padding,
// for a buffer of any length.
const (
	interfaceDetailSize = 8
	interfaceDetailPath = 4 // offset of DevicePath
)

// useInfo2 is USE_INFO_2 of 64-bit Windows (lmuse.h).
type useInfo2 struct {
	local    *uint16
	remote   *uint16
	password *uint16
	status   uint32
	asgType  uint32
	refCount uint32
	useCount uint32
	user     *uint16
	domain   *uint16
}

// useInfo3 is USE_INFO_3, which adds flags.
type useInfo3 struct {
	useInfo2
	flags uint32
}

// Values of LogonUserW (winbase.h) and USE_INFO_2 (lmuse.h).
const (
	logonNewCredentials  = 9 // LOGON32_LOGON_NEW_CREDENTIALS
	logonProviderWinNT50 = 3 // LOGON32_PROVIDER_WINNT50, which that type needs
	useIPC               = 3 // USE_IPC
)
