package native

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-addiscsisendtargetportalw
//sys	addIScsiSendTargetPortal(instance *uint16, port uint32, options *iscsiLoginOptions, security uint64, portal *iscsiTargetPortal) (status uint32) = iscsidsc.AddIScsiSendTargetPortalW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-reportiscsisendtargetportalsw
//sys	reportIScsiSendTargetPortals(count *uint32, portals *iscsiTargetPortalInfo) (status uint32) = iscsidsc.ReportIScsiSendTargetPortalsW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-refreshiscsisendtargetportalw
//sys	refreshIScsiSendTargetPortal(instance *uint16, port uint32, portal *iscsiTargetPortal) (status uint32) = iscsidsc.RefreshIScsiSendTargetPortalW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-removeiscsisendtargetportalw
//sys	removeIScsiSendTargetPortal(instance *uint16, port uint32, portal *iscsiTargetPortal) (status uint32) = iscsidsc.RemoveIScsiSendTargetPortalW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-reportiscsitargetsw
//sys	reportIScsiTargets(force bool, units *uint32, targets *uint16) (status uint32) = iscsidsc.ReportIScsiTargetsW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-getiscsitargetinformationw
//sys	getIScsiTargetInformation(target *uint16, mechanism *uint16, class uint32, size *uint32, info *uint16) (status uint32) = iscsidsc.GetIScsiTargetInformationW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-reportiscsitargetportalsw
//sys	reportIScsiTargetPortals(instance *uint16, target *uint16, tag *uint16, count *uint32, portals *iscsiTargetPortal) (status uint32) = iscsidsc.ReportIScsiTargetPortalsW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-loginiscsitargetw
//sys	loginIScsiTarget(target *uint16, informational bool, instance *uint16, port uint32, portal *iscsiTargetPortal, security uint64, mappings uintptr, options *iscsiLoginOptions, keySize uint32, key *byte, persistent bool, session *iscsiSessionID, connection *iscsiSessionID) (status uint32) = iscsidsc.LoginIScsiTargetW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-logoutiscsitarget
//sys	logoutIScsiTarget(session *iscsiSessionID) (status uint32) = iscsidsc.LogoutIScsiTarget

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-getiscsisessionlistw
//sys	getIScsiSessionList(size *uint32, count *uint32, sessions *byte) (status uint32) = iscsidsc.GetIScsiSessionListW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-getdevicesforiscsisessionw
//sys	getDevicesForIScsiSession(session *iscsiSessionID, count *uint32, devices *iscsiDevice) (status uint32) = iscsidsc.GetDevicesForIScsiSessionW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-reportiscsipersistentloginsw
//sys	reportIScsiPersistentLogins(count *uint32, logins *byte, size *uint32) (status uint32) = iscsidsc.ReportIScsiPersistentLoginsW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-removeiscsipersistenttargetw
//sys	removeIScsiPersistentTarget(instance *uint16, port uint32, target *uint16, portal *iscsiTargetPortal) (status uint32) = iscsidsc.RemoveIScsiPersistentTargetW

// https://learn.microsoft.com/windows/win32/api/iscsidsc/nf-iscsidsc-setiscsiinitiatorchapsharedsecret
//sys	setIScsiInitiatorCHAPSharedSecret(length uint32, secret *byte) (status uint32) = iscsidsc.SetIScsiInitiatorCHAPSharedSecret

const (
	// iscsiAnyPort means any port of any initiator (ISCSI_ANY_INITIATOR_PORT).
	iscsiAnyPort = 0xFFFFFFFF
	// iscsiDiscoveryMechanisms is the TARGET_INFORMATION_CLASS of
	// IScsiTargetDiscovery.
	iscsiDiscoveryMechanisms = 2
)

// dsc calls a function of iscsidsc.dll. It returns ERROR_NOT_SUPPORTED if the DLL
// or the function is missing.
func dsc(proc *windows.LazyProc, call func() uint32) error {
	if err := found(proc); err != nil {
		return err
	}
	return win32.ISCSIError(call())
}

// found returns ERROR_NOT_SUPPORTED for a function that this Windows does not have. Nano Server lacks
// some DLLs, and to call the function would panic.
func found(proc *windows.LazyProc) error {
	if err := proc.Find(); err != nil {
		return fmt.Errorf("this Windows has no %s (%v): %w", proc.Name, err, win32.ERROR_NOT_SUPPORTED)
	}
	return nil
}

// dscGrow is dsc for a function that reports how much space it needs. get is
// called with space for n, and returns how much is needed or used. The list may
// grow between two calls, so there is slack, and there are five attempts.
func dscGrow(proc *windows.LazyProc, n, slack uint32, get func(n *uint32) uint32) (uint32, error) {
	for attempt := 0; ; attempt++ {
		room := n
		err := dsc(proc, func() uint32 { return get(&n) })
		if !win32.IsCode(err, win32.ERROR_INSUFFICIENT_BUFFER) || attempt == 5 {
			return min(n, room), err
		}
		const most = 16 << 20
		n = min(max(n, room)+slack, most)
	}
}

// dscList is dscGrow for a function that fills a list of room structures.
func dscList[S, V any](proc *windows.LazyProc, room uint32, decode func(*S) V, get func(n *uint32, first *S) uint32) (list []V, err error) {
	var found []S
	n, err := dscGrow(proc, room, room, func(n *uint32) uint32 {
		found = make([]S, *n)
		return get(n, unsafe.SliceData(found))
	})
	if err != nil {
		return nil, err
	}
	for i := range found[:n] {
		list = append(list, decode(&found[i]))
	}
	return list, nil
}

// dscTexts is dscGrow for a function that fills a buffer of UTF-16 units with texts.
func dscTexts(proc *windows.LazyProc, get func(n *uint32, first *uint16) uint32) ([]string, error) {
	var u []uint16
	_, err := dscGrow(proc, 8<<10, 8<<10, func(n *uint32) uint32 {
		u = make([]uint16, *n)
		return get(n, unsafe.SliceData(u))
	})
	if err != nil {
		return nil, err
	}
	return multiString(u), nil
}

// instance returns the name of an initiator, or nil for any.
func instance(name string) (*uint16, error) {
	if name == "" {
		return nil, nil
	}
	return wide(name)
}

// AddIScsiSendTargetPortal is AddIScsiSendTargetPortalW for any initiator.
func (a *API) AddIScsiSendTargetPortal(p win32.ISCSIPortal) error {
	portal, err := encodeISCSIPortal(p)
	if err != nil {
		return err
	}
	return dsc(procAddIScsiSendTargetPortalW, func() uint32 { return addIScsiSendTargetPortal(nil, iscsiAnyPort, nil, 0, portal) })
}

// ReportIScsiSendTargetPortals is ReportIScsiSendTargetPortalsW.
func (a *API) ReportIScsiSendTargetPortals() ([]win32.ISCSISendTargetPortal, error) {
	return dscList(procReportIScsiSendTargetPortalsW, 16, (*iscsiTargetPortalInfo).decode, func(n *uint32, first *iscsiTargetPortalInfo) uint32 {
		return reportIScsiSendTargetPortals(n, first)
	})
}

// registeredPortal returns the arguments that describe a registered portal.
func registeredPortal(p win32.ISCSISendTargetPortal) (initiator *uint16, portal *iscsiTargetPortal, err error) {
	if portal, err = encodeISCSIPortal(p.ISCSIPortal); err == nil {
		initiator, err = instance(p.Initiator)
	}
	return initiator, portal, err
}

// RefreshIScsiSendTargetPortal is RefreshIScsiSendTargetPortalW.
func (a *API) RefreshIScsiSendTargetPortal(p win32.ISCSISendTargetPortal) error {
	initiator, portal, err := registeredPortal(p)
	if err != nil {
		return err
	}
	return dsc(procRefreshIScsiSendTargetPortalW, func() uint32 { return refreshIScsiSendTargetPortal(initiator, p.InitiatorPort, portal) })
}

// RemoveIScsiSendTargetPortal is RemoveIScsiSendTargetPortalW.
func (a *API) RemoveIScsiSendTargetPortal(p win32.ISCSISendTargetPortal) error {
	initiator, portal, err := registeredPortal(p)
	if err != nil {
		return err
	}
	return dsc(procRemoveIScsiSendTargetPortalW, func() uint32 { return removeIScsiSendTargetPortal(initiator, p.InitiatorPort, portal) })
}

// ReportIScsiTargets is ReportIScsiTargetsW, whose size is in characters.
func (a *API) ReportIScsiTargets(force bool) ([]string, error) {
	return dscTexts(procReportIScsiTargetsW, func(n *uint32, first *uint16) uint32 { return reportIScsiTargets(force, n, first) })
}

// IScsiTargetDiscovery is GetIScsiTargetInformationW. The buffer is twice the
// size that is passed, so it is large enough whether the function counts bytes or
// characters.
func (a *API) IScsiTargetDiscovery(target string) ([]string, error) {
	name, err := wide(target)
	if err != nil {
		return nil, err
	}
	return dscTexts(procGetIScsiTargetInformationW, func(n *uint32, first *uint16) uint32 {
		return getIScsiTargetInformation(name, nil, iscsiDiscoveryMechanisms, n, first)
	})
}

// ReportIScsiTargetPortals is ReportIScsiTargetPortalsW.
func (a *API) ReportIScsiTargetPortals(target string) ([]win32.ISCSIPortal, error) {
	name, err := wide(target)
	if err != nil {
		return nil, err
	}
	return dscList(procReportIScsiTargetPortalsW, 16, (*iscsiTargetPortal).decode, func(n *uint32, first *iscsiTargetPortal) uint32 {
		return reportIScsiTargetPortals(nil, name, nil, n, first)
	})
}

// LoginIScsiTarget is LoginIScsiTargetW, not informational and not persistent,
// for any initiator.
func (a *API) LoginIScsiTarget(target string, p win32.ISCSIPortal, login win32.ISCSILogin) (win32.ISCSISessionID, error) {
	name, err := wide(target)
	if err != nil {
		return win32.ISCSISessionID{}, err
	}
	portal, err := encodeISCSIPortal(p)
	if err != nil {
		return win32.ISCSISessionID{}, err
	}
	options, err := encodeISCSILogin(login)
	if err != nil {
		return win32.ISCSISessionID{}, err
	}
	var session, connection iscsiSessionID
	err = dsc(procLoginIScsiTargetW, func() uint32 {
		return loginIScsiTarget(name, false, nil, iscsiAnyPort, portal, 0, 0, options, 0, nil, false, &session, &connection)
	})
	runtime.KeepAlive(options)
	return win32.ISCSISessionID{AdapterUnique: session.adapterUnique, AdapterSpecific: session.adapterSpecific}, err
}

// LogoutIScsiTarget is LogoutIScsiTarget.
func (a *API) LogoutIScsiTarget(session win32.ISCSISessionID) error {
	id := &iscsiSessionID{session.AdapterUnique, session.AdapterSpecific}
	return dsc(procLogoutIScsiTarget, func() uint32 { return logoutIScsiTarget(id) })
}

// aligned returns a buffer of at least size bytes, aligned for structures with
// pointers.
func aligned(size uint32) []byte {
	words := make([]uint64, (size+7)/8+1)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
}

// inBuffer returns b with its current address.
func inBuffer(b []byte) output {
	return output{b: b, base: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))}
}

// GetIScsiSessionList is GetIScsiSessionListW.
func (a *API) GetIScsiSessionList() ([]win32.ISCSISession, error) {
	var b []byte
	var count uint32
	_, err := dscGrow(procGetIScsiSessionListW, 16<<10, 16<<10, func(n *uint32) uint32 {
		b = aligned(*n)
		return getIScsiSessionList(n, &count, unsafe.SliceData(b))
	})
	if err != nil {
		return nil, err
	}
	list := inBuffer(b).sessions(count)
	runtime.KeepAlive(b)
	return list, nil
}

// GetDevicesForIScsiSession is GetDevicesForIScsiSessionW.
func (a *API) GetDevicesForIScsiSession(session win32.ISCSISessionID) ([]win32.ISCSIDevice, error) {
	id := &iscsiSessionID{session.AdapterUnique, session.AdapterSpecific}
	return dscList(procGetDevicesForIScsiSessionW, 20, (*iscsiDevice).decode, func(n *uint32, first *iscsiDevice) uint32 {
		return getDevicesForIScsiSession(id, n, first)
	})
}

// ReportIScsiPersistentLogins is ReportIScsiPersistentLoginsW.
func (a *API) ReportIScsiPersistentLogins() ([]win32.ISCSIPersistentLogin, error) {
	var b []byte
	var count uint32
	_, err := dscGrow(procReportIScsiPersistentLoginsW, 16<<10, 16<<10, func(n *uint32) uint32 {
		b = aligned(*n)
		return reportIScsiPersistentLogins(&count, unsafe.SliceData(b), n)
	})
	if err != nil {
		return nil, err
	}
	list := inBuffer(b).logins(count)
	clear(b) // it holds credentials
	return list, nil
}

// RemoveIScsiPersistentTarget is RemoveIScsiPersistentTargetW.
func (a *API) RemoveIScsiPersistentTarget(l win32.ISCSIPersistentLogin) error {
	name, err := wide(l.TargetName)
	if err != nil {
		return err
	}
	initiator, err := wide(l.Initiator) // required, so an empty name is passed as one
	if err != nil {
		return err
	}
	portal, err := encodeISCSIPortal(l.Portal)
	if err != nil {
		return err
	}
	return dsc(procRemoveIScsiPersistentTargetW, func() uint32 {
		return removeIScsiPersistentTarget(initiator, l.InitiatorPort, name, portal)
	})
}

// SetIScsiInitiatorCHAPSharedSecret is SetIScsiInitiatorCHAPSharedSecret.
func (a *API) SetIScsiInitiatorCHAPSharedSecret(secret win32.Secret) error {
	b := []byte(secret.Reveal())
	defer clear(b)
	return dsc(procSetIScsiInitiatorCHAPSharedSecret, func() uint32 {
		return setIScsiInitiatorCHAPSharedSecret(uint32(len(b)), unsafe.SliceData(b))
	})
}
