package native

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// The functions are called in the form that they need. There is no server to accept
// anything: what is checked is that nothing succeeds and that no input panics.
func TestLogonToServerWithoutServer(t *testing.T) {
	api := &API{}
	for _, c := range []win32.Credentials{{}, {User: "ann", Password: win32.NewSecret("for-tests")}, {User: "ann", Domain: "CORP", Password: win32.NewSecret("for-tests")}, {User: "ann@corp.example.com", Password: win32.NewSecret("for-tests")}} {
		err := api.LogonToServer("csi-proxy-test.invalid", c)
		if err == nil && c.User == "" {
			t.Log("LogonToServer with the node's own account = nil: Wine's NetUseAdd always succeeds, Windows' does not")
		} else if err == nil {
			t.Errorf("LogonToServer of a server that does not exist, for %+v = nil", c)
		} else {
			t.Logf("LogonToServer for %+v = %v", c, err)
		}
	}
	for _, bad := range []win32.Credentials{{User: "a\x00"}, {User: "a", Domain: "\x00"}, {User: "a", Password: win32.NewSecret("\x00")}} {
		if err := api.LogonToServer("csi-proxy-test.invalid", bad); !win32.IsCode(err, win32.ERROR_INVALID_NAME, win32.ERROR_INVALID_PARAMETER) {
			t.Errorf("LogonToServer with %+v = %v, want an error before any call", bad, err)
		}
	}
	if err := api.LogonToServer("a\x00", win32.Credentials{}); !win32.IsCode(err, win32.ERROR_INVALID_NAME) {
		t.Errorf("LogonToServer of a name with a NUL = %v", err)
	}
}
