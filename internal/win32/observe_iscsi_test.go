package win32

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func (a *recorder) AddIScsiSendTargetPortal(p ISCSIPortal) error {
	a.record("AddIScsiSendTargetPortal", p)
	return a.err
}

func (a *recorder) ReportIScsiSendTargetPortals() ([]ISCSISendTargetPortal, error) {
	a.record("ReportIScsiSendTargetPortals")
	return []ISCSISendTargetPortal{{Initiator: "initiator"}}, a.err
}

func (a *recorder) RefreshIScsiSendTargetPortal(p ISCSISendTargetPortal) error {
	a.record("RefreshIScsiSendTargetPortal", p)
	return a.err
}

func (a *recorder) RemoveIScsiSendTargetPortal(p ISCSISendTargetPortal) error {
	a.record("RemoveIScsiSendTargetPortal", p)
	return a.err
}

func (a *recorder) ReportIScsiTargets(force bool) ([]string, error) {
	a.record("ReportIScsiTargets", force)
	return []string{"target"}, a.err
}

func (a *recorder) IScsiTargetDiscovery(target string) ([]string, error) {
	a.record("IScsiTargetDiscovery", target)
	return []string{"mechanism"}, a.err
}

func (a *recorder) ReportIScsiTargetPortals(target string) ([]ISCSIPortal, error) {
	a.record("ReportIScsiTargetPortals", target)
	return []ISCSIPortal{{Address: "address"}}, a.err
}

func (a *recorder) LoginIScsiTarget(target string, p ISCSIPortal, login ISCSILogin) (ISCSISessionID, error) {
	a.record("LoginIScsiTarget", target, p, login)
	return ISCSISessionID{1, 2}, a.err
}

func (a *recorder) LogoutIScsiTarget(session ISCSISessionID) error {
	a.record("LogoutIScsiTarget", session)
	return a.err
}

func (a *recorder) GetIScsiSessionList() ([]ISCSISession, error) {
	a.record("GetIScsiSessionList")
	return []ISCSISession{{TargetName: "target"}}, a.err
}

func (a *recorder) GetDevicesForIScsiSession(session ISCSISessionID) ([]ISCSIDevice, error) {
	a.record("GetDevicesForIScsiSession", session)
	return []ISCSIDevice{{Lun: 1}}, a.err
}

func (a *recorder) ReportIScsiPersistentLogins() ([]ISCSIPersistentLogin, error) {
	a.record("ReportIScsiPersistentLogins")
	return []ISCSIPersistentLogin{{TargetName: "target"}}, a.err
}

func (a *recorder) RemoveIScsiPersistentTarget(l ISCSIPersistentLogin) error {
	a.record("RemoveIScsiPersistentTarget", l)
	return a.err
}

func (a *recorder) SetIScsiInitiatorCHAPSharedSecret(secret Secret) error {
	a.record("SetIScsiInitiatorCHAPSharedSecret", secret)
	return a.err
}

// iscsiArgument returns a value for an argument type that only iSCSI calls have.
func iscsiArgument(typ string) any {
	switch typ {
	case "win32.ISCSIPortal":
		return ISCSIPortal{"address", 3260}
	case "win32.ISCSISendTargetPortal":
		return ISCSISendTargetPortal{"initiator", 1, ISCSIPortal{"address", 3260}}
	case "win32.ISCSILogin":
		user, secret := "user", NewSecret("secret")
		return ISCSILogin{ISCSI_CHAP_AUTH_TYPE, &user, &secret}
	case "win32.ISCSISessionID":
		return ISCSISessionID{10, 11}
	case "win32.ISCSIPersistentLogin":
		return ISCSIPersistentLogin{TargetName: "target", Portal: ISCSIPortal{"address", 3260}}
	case "win32.Secret":
		return NewSecret("mutual")
	}
	return nil
}

func TestISCSIStatusNames(t *testing.T) {
	found := 0
	for _, c := range constants(t) {
		if c.kind != "ISCSIStatus" {
			continue
		}
		found++
		s := ISCSIStatus(c.value)
		if s.Name() != c.name || !strings.HasSuffix(s.Error(), ".") || strings.Contains(s.Error(), "0x") {
			t.Errorf("%s has the name %q and the text %q", c.name, s.Name(), s.Error())
		}
		if s>>16 != 0xEFFF && s != ISDSC_OPERATION_NOT_ALL_SUCCESS { // a warning
			t.Errorf("%s = %#x", c.name, uint32(s))
		}
		if _, _, e := iscsiStatusInfo(s); e != 0 && (!errors.Is(s, e) || !IsCode(fmt.Errorf("login: %w", s), e)) {
			t.Errorf("%s does not match %s", c.name, e.Name())
		}
	}
	if found < 15 {
		t.Errorf("found only %d statuses", found)
	}
	unknown := ISCSIStatus(0xEFFF7777)
	if unknown.Name() != "ISDSC_0xEFFF7777" || !strings.Contains(unknown.Error(), "0xEFFF7777") || unknown.Errno() != ERROR_GEN_FAILURE || errors.Is(unknown, ERROR_GEN_FAILURE) {
		t.Errorf("an unknown status: %s, %v", unknown.Name(), unknown)
	}
}

func TestISCSIErrorWin32Numbers(t *testing.T) {
	for status, want := range map[uint32]error{0: nil, 122: ERROR_INSUFFICIENT_BUFFER, 0x8007007A: ERROR_INSUFFICIENT_BUFFER, 0xEFFF007A: ERROR_INSUFFICIENT_BUFFER, 0x80070005: ERROR_ACCESS_DENIED, 0xEFFF003E: ISDSC_SERVICE_NOT_RUNNING, 1722: RPC_S_SERVER_UNAVAILABLE} {
		if got := ISCSIError(status); got != want {
			t.Errorf("ISCSIError(%#x) = %v, want %v", status, got, want)
		}
	}
	if err := ISCSIError(0xEFFF0054); err != ISDSC_BUFFER_TOO_SMALL || !IsCode(err, ERROR_INSUFFICIENT_BUFFER) {
		t.Errorf("ISCSIError of a short buffer = %v", err)
	}
}
