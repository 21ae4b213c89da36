package win32

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

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
