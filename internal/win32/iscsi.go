package win32

import (
	"cmp"
	"fmt"
)

// ISCSI is the set of calls of Windows' iSCSI initiator, iscsidsc.dll. Each is a
// remote procedure call to the service MSiSCSI. It may block as long as the
// network does, and returns [ISCSIStatus] or [Errno] errors. A target's name is
// its iSCSI qualified name (IQN).
type ISCSI interface {
	// AddIScsiSendTargetPortal registers a portal and queries it for its targets.
	AddIScsiSendTargetPortal(p ISCSIPortal) error
	// ReportIScsiSendTargetPortals lists the registered portals.
	ReportIScsiSendTargetPortals() ([]ISCSISendTargetPortal, error)
	// RefreshIScsiSendTargetPortal queries a registered portal again for its
	// targets.
	RefreshIScsiSendTargetPortal(p ISCSISendTargetPortal) error
	// RemoveIScsiSendTargetPortal removes a registered portal.
	RemoveIScsiSendTargetPortal(p ISCSISendTargetPortal) error
	// ReportIScsiTargets lists the targets that the initiator knows. With force
	// it queries all registered portals first.
	ReportIScsiTargets(force bool) ([]string, error)
	// IScsiTargetDiscovery lists the mechanisms by which the initiator discovered
	// a target (GetIScsiTargetInformationW, DiscoveryMechanisms): texts such as
	// `SendTargets:*10.61.169.28 0003260 Root\ISCSIPRT\0000_0`.
	IScsiTargetDiscovery(target string) ([]string, error)
	// ReportIScsiTargetPortals lists the portals that a target advertises.
	ReportIScsiTargetPortals(target string) ([]ISCSIPortal, error)
	// LoginIScsiTarget logs in to a target through a portal, for this boot only.
	LoginIScsiTarget(target string, p ISCSIPortal, login ISCSILogin) (session ISCSISessionID, err error)
	// LogoutIScsiTarget ends a session. It returns ISDSC_DEVICE_BUSY_ON_SESSION
	// if a device of the session is in use.
	LogoutIScsiTarget(session ISCSISessionID) error
	// GetIScsiSessionList lists the sessions with their connections.
	GetIScsiSessionList() ([]ISCSISession, error)
	// GetDevicesForIScsiSession lists the devices of a session.
	GetDevicesForIScsiSession(session ISCSISessionID) ([]ISCSIDevice, error)
	// ReportIScsiPersistentLogins lists the logins that Windows repeats at every
	// boot.
	ReportIScsiPersistentLogins() ([]ISCSIPersistentLogin, error)
	// RemoveIScsiPersistentTarget removes such a login. It ends no session.
	RemoveIScsiPersistentTarget(l ISCSIPersistentLogin) error
	// SetIScsiInitiatorCHAPSharedSecret sets the secret with which targets
	// authenticate to this node.
	SetIScsiInitiatorCHAPSharedSecret(secret Secret) error
}

// ISCSIPortal is ISCSI_TARGET_PORTALW without its symbolic name.
type ISCSIPortal struct {
	Address string // IP address or host name, as given
	Socket  uint16
}

// ISCSISendTargetPortal has the fields of ISCSI_TARGET_PORTAL_INFO_EXW that this
// project uses. Initiator and InitiatorPort name the adapter for which it was
// registered.
type ISCSISendTargetPortal struct {
	Initiator     string
	InitiatorPort uint32
	ISCSIPortal
}

// ISCSILogin has the options of a login (ISCSI_LOGIN_OPTIONS). User and Password
// are used if they are not nil.
type ISCSILogin struct {
	AuthType uint32 // ISCSI_NO_AUTH_TYPE, ISCSI_CHAP_AUTH_TYPE, ISCSI_MUTUAL_CHAP_AUTH_TYPE
	User     *string
	Password *Secret
}

// ISCSISessionID is ISCSI_UNIQUE_SESSION_ID.
type ISCSISessionID struct {
	AdapterUnique, AdapterSpecific uint64
}

// String returns the text by which WMI identifies a session.
func (id ISCSISessionID) String() string {
	return fmt.Sprintf("%x-%x", id.AdapterUnique, id.AdapterSpecific)
}

// ISCSISession is ISCSI_SESSION_INFOW.
type ISCSISession struct {
	ID          ISCSISessionID
	TargetName  string
	Connections []ISCSIConnection
}

// ISCSIConnection has the target's end of ISCSI_CONNECTION_INFOW.
type ISCSIConnection struct {
	TargetAddress string
	TargetSocket  uint16
}

// ISCSIDevice has the fields of ISCSI_DEVICE_ON_SESSIONW that this project uses.
type ISCSIDevice struct {
	Interface GUID // GUID_DEVINTERFACE_DISK for a disk
	Number    DeviceNumber
	Lun       uint8
}

// ISCSIPersistentLogin is PERSISTENT_ISCSI_LOGIN_INFOW without its credentials.
type ISCSIPersistentLogin struct {
	TargetName    string
	Initiator     string
	InitiatorPort uint32
	Portal        ISCSIPortal
}

// ISCSI_AUTH_TYPES (iscsidsc.h).
const (
	ISCSI_NO_AUTH_TYPE          = 0
	ISCSI_CHAP_AUTH_TYPE        = 1
	ISCSI_MUTUAL_CHAP_AUTH_TYPE = 2
)

// ISCSIStatus is a status of iscsidsc.dll that is not a Win32 error number
// (iscsierr.h).
type ISCSIStatus uint32

// The ISCSIStatus values that this project handles.
const (
	ISDSC_NON_SPECIFIC_ERROR           ISCSIStatus = 0xEFFF0001
	ISDSC_LOGIN_FAILED                 ISCSIStatus = 0xEFFF0002
	ISDSC_CONNECTION_FAILED            ISCSIStatus = 0xEFFF0003
	ISDSC_AUTHENTICATION_FAILURE       ISCSIStatus = 0xEFFF0009
	ISDSC_AUTHORIZATION_FAILURE        ISCSIStatus = 0xEFFF000A
	ISDSC_NOT_FOUND                    ISCSIStatus = 0xEFFF000B
	ISDSC_TARGET_REMOVED               ISCSIStatus = 0xEFFF000C
	ISDSC_TARGET_ERROR                 ISCSIStatus = 0xEFFF0012
	ISDSC_SERVICE_UNAVAILABLE          ISCSIStatus = 0xEFFF0013
	ISDSC_OUT_OF_RESOURCES             ISCSIStatus = 0xEFFF0014
	ISDSC_INVALID_SESSION_ID           ISCSIStatus = 0xEFFF001C
	ISDSC_SESSION_BUSY                 ISCSIStatus = 0xEFFF001F
	ISDSC_TRANSPORT_ERROR              ISCSIStatus = 0xEFFF0024
	ISDSC_TARGET_NOT_FOUND             ISCSIStatus = 0xEFFF0029
	ISDSC_LOGIN_USER_INFO_BAD          ISCSIStatus = 0xEFFF002A
	ISDSC_OPERATION_NOT_ALL_SUCCESS    ISCSIStatus = 0xAFFF002E
	ISDSC_TARGET_PORTAL_ALREADY_EXISTS ISCSIStatus = 0xEFFF0032
	ISDSC_SERVICE_DID_NOT_RESPOND      ISCSIStatus = 0xEFFF0039
	ISDSC_SERVICE_NOT_RUNNING          ISCSIStatus = 0xEFFF003E
	ISDSC_TARGET_ALREADY_LOGGED_IN     ISCSIStatus = 0xEFFF003F
	ISDSC_DEVICE_BUSY_ON_SESSION       ISCSIStatus = 0xEFFF0040
	ISDSC_PORTAL_NOT_FOUND             ISCSIStatus = 0xEFFF0043
	ISDSC_BUFFER_TOO_SMALL             ISCSIStatus = 0xEFFF0054
)

// iscsiStatuses has the name of each status, its text, and the closest Errno, 0 if there is
// none. The texts are ours, as those of Windows are localized.
var iscsiStatuses = []struct {
	number     ISCSIStatus
	name, text string
	errno      Errno
}{
	{ISDSC_NON_SPECIFIC_ERROR, "ISDSC_NON_SPECIFIC_ERROR", "The iSCSI initiator reported a non-specific error.", ERROR_GEN_FAILURE},
	{ISDSC_LOGIN_FAILED, "ISDSC_LOGIN_FAILED", "The iSCSI login failed.", 0},
	{ISDSC_CONNECTION_FAILED, "ISDSC_CONNECTION_FAILED", "The iSCSI initiator could not connect to the target portal.", ERROR_NOT_READY},
	{ISDSC_AUTHENTICATION_FAILURE, "ISDSC_AUTHENTICATION_FAILURE", "The iSCSI login failed: authentication failure.", ERROR_ACCESS_DENIED},
	{ISDSC_AUTHORIZATION_FAILURE, "ISDSC_AUTHORIZATION_FAILURE", "The iSCSI login failed: the target does not allow this initiator.", ERROR_ACCESS_DENIED},
	{ISDSC_NOT_FOUND, "ISDSC_NOT_FOUND", "The iSCSI target does not exist at that portal.", ERROR_NOT_FOUND},
	{ISDSC_TARGET_REMOVED, "ISDSC_TARGET_REMOVED", "The iSCSI target has been removed.", ERROR_NOT_FOUND},
	{ISDSC_TARGET_ERROR, "ISDSC_TARGET_ERROR", "The iSCSI target reported an error.", ERROR_GEN_FAILURE},
	{ISDSC_SERVICE_UNAVAILABLE, "ISDSC_SERVICE_UNAVAILABLE", "The iSCSI service is unavailable.", ERROR_NOT_READY},
	{ISDSC_OUT_OF_RESOURCES, "ISDSC_OUT_OF_RESOURCES", "The iSCSI target does not have enough resources.", ERROR_NO_SYSTEM_RESOURCES},
	{ISDSC_INVALID_SESSION_ID, "ISDSC_INVALID_SESSION_ID", "The iSCSI session does not exist.", ERROR_NOT_FOUND},
	{ISDSC_SESSION_BUSY, "ISDSC_SESSION_BUSY", "The iSCSI session is busy with another request.", ERROR_BUSY},
	{ISDSC_TRANSPORT_ERROR, "ISDSC_TRANSPORT_ERROR", "The iSCSI transport failed.", ERROR_NOT_READY},
	{ISDSC_TARGET_NOT_FOUND, "ISDSC_TARGET_NOT_FOUND", "The iSCSI initiator does not know the target.", ERROR_NOT_FOUND},
	{ISDSC_LOGIN_USER_INFO_BAD, "ISDSC_LOGIN_USER_INFO_BAD", "The CHAP user name or secret cannot be used.", 0},
	{ISDSC_OPERATION_NOT_ALL_SUCCESS, "ISDSC_OPERATION_NOT_ALL_SUCCESS", "The iSCSI operation succeeded in part: not for all initiators of the node.", 0},
	{ISDSC_TARGET_PORTAL_ALREADY_EXISTS, "ISDSC_TARGET_PORTAL_ALREADY_EXISTS", "The iSCSI target portal is already registered.", ERROR_ALREADY_EXISTS},
	{ISDSC_SERVICE_DID_NOT_RESPOND, "ISDSC_SERVICE_DID_NOT_RESPOND", "The iSCSI initiator service did not respond.", ERROR_NOT_READY},
	{ISDSC_SERVICE_NOT_RUNNING, "ISDSC_SERVICE_NOT_RUNNING", "The iSCSI initiator service is not running.", ERROR_SERVICE_NOT_ACTIVE},
	{ISDSC_TARGET_ALREADY_LOGGED_IN, "ISDSC_TARGET_ALREADY_LOGGED_IN", "The iSCSI target is already logged in to.", ERROR_ALREADY_EXISTS},
	{ISDSC_DEVICE_BUSY_ON_SESSION, "ISDSC_DEVICE_BUSY_ON_SESSION", "A device of the iSCSI session is in use.", ERROR_BUSY},
	{ISDSC_PORTAL_NOT_FOUND, "ISDSC_PORTAL_NOT_FOUND", "The iSCSI target portal is not registered.", ERROR_NOT_FOUND},
	{ISDSC_BUFFER_TOO_SMALL, "ISDSC_BUFFER_TOO_SMALL", "The buffer is too small for the answer of the iSCSI initiator.", ERROR_INSUFFICIENT_BUFFER},
}

// iscsiStatusInfo returns the name of s, its text, and the closest Errno, 0 if there is none.
func iscsiStatusInfo(s ISCSIStatus) (name, text string, e Errno) {
	for _, row := range iscsiStatuses {
		if row.number == s {
			return row.name, row.text, row.errno
		}
	}
	return fmt.Sprintf("ISDSC_0x%08X", uint32(s)), fmt.Sprintf("iSCSI initiator status 0x%08X.", uint32(s)), 0
}

// Name returns the constant's name in iscsierr.h, "ISDSC_LOGIN_FAILED".
func (s ISCSIStatus) Name() string { name, _, _ := iscsiStatusInfo(s); return name }

// Error returns the meaning of s in English.
func (s ISCSIStatus) Error() string { _, text, _ := iscsiStatusInfo(s); return text }

// Errno returns the closest Win32 error, or ERROR_GEN_FAILURE if there is none.
func (s ISCSIStatus) Errno() Errno {
	_, _, e := iscsiStatusInfo(s)
	return cmp.Or(e, ERROR_GEN_FAILURE)
}

// Is also matches what s.Errno matches, if s has an Errno.
func (s ISCSIStatus) Is(target error) bool {
	_, _, have := iscsiStatusInfo(s)
	if e, ok := target.(Errno); ok {
		return have != 0 && have == e
	}
	return have != 0 && have.Is(target)
}

// ISCSIError converts the result of a function of iscsidsc.dll to an error. Such
// functions return both Win32 error numbers, also as an HRESULT, and ISCSIStatus values.
// For 0 it returns nil. The number of a buffer that is too small counts in every facility,
// as os-win, a program with years on Windows, takes it.
func ISCSIError(status uint32) error {
	switch code := Errno(status & 0xFFFF); {
	case status == 0:
		return nil
	case status>>16 == 0, status>>16 == 0x8007, code == ERROR_INSUFFICIENT_BUFFER:
		return code
	}
	return ISCSIStatus(status)
}

func (o *observed) AddIScsiSendTargetPortal(p ISCSIPortal) error {
	return o.call(Call{Name: "AddIScsiSendTargetPortal", Path: p.Address}, func(*Call) error { return o.api.AddIScsiSendTargetPortal(p) })
}

func (o *observed) ReportIScsiSendTargetPortals() ([]ISCSISendTargetPortal, error) {
	return answer(o, Call{Name: "ReportIScsiSendTargetPortals"}, func() ([]ISCSISendTargetPortal, error) { return o.api.ReportIScsiSendTargetPortals() })
}

func (o *observed) RefreshIScsiSendTargetPortal(p ISCSISendTargetPortal) error {
	return o.call(Call{Name: "RefreshIScsiSendTargetPortal", Path: p.Address}, func(*Call) error {
		return o.api.RefreshIScsiSendTargetPortal(p)
	})
}

func (o *observed) RemoveIScsiSendTargetPortal(p ISCSISendTargetPortal) error {
	return o.call(Call{Name: "RemoveIScsiSendTargetPortal", Path: p.Address}, func(*Call) error {
		return o.api.RemoveIScsiSendTargetPortal(p)
	})
}

func (o *observed) ReportIScsiTargets(force bool) ([]string, error) {
	return answer(o, Call{Name: "ReportIScsiTargets"}, func() ([]string, error) { return o.api.ReportIScsiTargets(force) })
}

func (o *observed) IScsiTargetDiscovery(target string) ([]string, error) {
	return answer(o, Call{Name: "IScsiTargetDiscovery", Path: target}, func() ([]string, error) { return o.api.IScsiTargetDiscovery(target) })
}

func (o *observed) ReportIScsiTargetPortals(target string) ([]ISCSIPortal, error) {
	return answer(o, Call{Name: "ReportIScsiTargetPortals", Path: target}, func() ([]ISCSIPortal, error) { return o.api.ReportIScsiTargetPortals(target) })
}

func (o *observed) LoginIScsiTarget(target string, p ISCSIPortal, login ISCSILogin) (ISCSISessionID, error) {
	return answer(o, Call{Name: "LoginIScsiTarget", Path: target}, func() (ISCSISessionID, error) { return o.api.LoginIScsiTarget(target, p, login) })
}

func (o *observed) LogoutIScsiTarget(session ISCSISessionID) error {
	return o.call(Call{Name: "LogoutIScsiTarget", Path: session.String()}, func(*Call) error { return o.api.LogoutIScsiTarget(session) })
}

func (o *observed) GetIScsiSessionList() ([]ISCSISession, error) {
	return answer(o, Call{Name: "GetIScsiSessionList"}, func() ([]ISCSISession, error) { return o.api.GetIScsiSessionList() })
}

func (o *observed) GetDevicesForIScsiSession(session ISCSISessionID) ([]ISCSIDevice, error) {
	return answer(o, Call{Name: "GetDevicesForIScsiSession", Path: session.String()}, func() ([]ISCSIDevice, error) { return o.api.GetDevicesForIScsiSession(session) })
}

func (o *observed) ReportIScsiPersistentLogins() ([]ISCSIPersistentLogin, error) {
	return answer(o, Call{Name: "ReportIScsiPersistentLogins"}, func() ([]ISCSIPersistentLogin, error) { return o.api.ReportIScsiPersistentLogins() })
}

func (o *observed) RemoveIScsiPersistentTarget(l ISCSIPersistentLogin) error {
	return o.call(Call{Name: "RemoveIScsiPersistentTarget", Path: l.TargetName}, func(*Call) error {
		return o.api.RemoveIScsiPersistentTarget(l)
	})
}

func (o *observed) SetIScsiInitiatorCHAPSharedSecret(secret Secret) error {
	return o.call(Call{Name: "SetIScsiInitiatorCHAPSharedSecret"}, func(*Call) error {
		return o.api.SetIScsiInitiatorCHAPSharedSecret(secret)
	})
}
