package win32

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func (a *answers) AddIScsiSendTargetPortal(p ISCSIPortal) error {
	a.note("AddIScsiSendTargetPortal", p)
	return a.err
}

func (a *answers) ReportIScsiSendTargetPortals() ([]ISCSISendTargetPortal, error) {
	a.note("ReportIScsiSendTargetPortals")
	return []ISCSISendTargetPortal{{Initiator: "initiator"}}, a.err
}

func (a *answers) RefreshIScsiSendTargetPortal(p ISCSISendTargetPortal) error {
	a.note("RefreshIScsiSendTargetPortal", p)
	return a.err
}

func (a *answers) RemoveIScsiSendTargetPortal(p ISCSISendTargetPortal) error {
	a.note("RemoveIScsiSendTargetPortal", p)
	return a.err
}

func (a *answers) ReportIScsiTargets(force bool) ([]string, error) {
	a.note("ReportIScsiTargets", force)
	return []string{"target"}, a.err
}

func (a *answers) IScsiTargetDiscovery(target string) ([]string, error) {
	a.note("IScsiTargetDiscovery", target)
	return []string{"mechanism"}, a.err
}

func (a *answers) ReportIScsiTargetPortals(target string) ([]ISCSIPortal, error) {
	a.note("ReportIScsiTargetPortals", target)
	return []ISCSIPortal{{Address: "address"}}, a.err
}

func (a *answers) LoginIScsiTarget(target string, p ISCSIPortal, login ISCSILogin) (ISCSISessionID, error) {
	a.note("LoginIScsiTarget", target, p, login)
	return ISCSISessionID{1, 2}, a.err
}

func (a *answers) LogoutIScsiTarget(session ISCSISessionID) error {
	a.note("LogoutIScsiTarget", session)
	return a.err
}

func (a *answers) GetIScsiSessionList() ([]ISCSISession, error) {
	a.note("GetIScsiSessionList")
	return []ISCSISession{{TargetName: "target"}}, a.err
}

func (a *answers) GetDevicesForIScsiSession(session ISCSISessionID) ([]ISCSIDevice, error) {
	a.note("GetDevicesForIScsiSession", session)
	return []ISCSIDevice{{Lun: 1}}, a.err
}

func (a *answers) ReportIScsiPersistentLogins() ([]ISCSIPersistentLogin, error) {
	a.note("ReportIScsiPersistentLogins")
	return []ISCSIPersistentLogin{{TargetName: "target"}}, a.err
}

func (a *answers) RemoveIScsiPersistentTarget(l ISCSIPersistentLogin) error {
	a.note("RemoveIScsiPersistentTarget", l)
	return a.err
}

func (a *answers) SetIScsiInitiatorCHAPSharedSecret(secret Secret) error {
	a.note("SetIScsiInitiatorCHAPSharedSecret", secret)
	return a.err
}

// iscsiArgument is an argument of a type that only the iSCSI calls take.
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

func TestISCSIStatusesAreNamed(t *testing.T) {
	found := 0
	for _, c := range constants(t) {
		if c.kind != "ISCSIStatus" {
			continue
		}
		found++
		s := ISCSIStatus(c.value)
		if s.Name() != c.name || !strings.HasSuffix(s.Error(), ".") || strings.Contains(s.Error(), "0x") {
			t.Errorf("%s is named %q and says %q", c.name, s.Name(), s.Error())
		}
		if s>>16 != 0xEFFF {
			t.Errorf("%s = %#x", c.name, uint32(s))
		}
		if _, _, e := iscsiStatusInfo(s); e != 0 && (!errors.Is(s, e) || !IsCode(fmt.Errorf("login: %w", s), e)) {
			t.Errorf("%s is not found as %s", c.name, e.Name())
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

func TestISCSIErrorTellsWin32NumbersApart(t *testing.T) {
	for status, want := range map[uint32]error{0: nil, 122: ERROR_INSUFFICIENT_BUFFER, 0xEFFF003E: ISDSC_SERVICE_NOT_RUNNING, 1722: RPC_S_SERVER_UNAVAILABLE} {
		if got := ISCSIError(status); got != want {
			t.Errorf("ISCSIError(%#x) = %v, want %v", status, got, want)
		}
	}
}
