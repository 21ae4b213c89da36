package native

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// The functions are called in the form that they need: they return a result or an
// error, on a Windows with global mappings and on one without (Wine).
func TestNetUse(t *testing.T) {
	api := netUse{}
	uses, err := api.UseEnum()
	if err != nil && !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("UseEnum = %v, %v", uses, err)
	}
	t.Logf("UseEnum = %+v, %v", uses, err)
	const nowhere = `\\csi-proxy-test.invalid\share`
	u := win32.NewUse{Remote: nowhere, User: "ann", Domain: "CORP", Password: win32.NewSecret("for-tests"), Flags: win32.REQUIRE_CONNECTION_PRIVACY}
	if err := api.UseAdd(u); err == nil {
		t.Errorf("UseAdd(%+v) = nil for a server that does not exist", u)
	} else {
		t.Logf("UseAdd(%+v) = %v", u, err)
	}
	if err := api.UseDel(nowhere); err == nil {
		t.Logf("UseDel of a share that is not mapped = nil, which Windows does not return")
	}
	for _, bad := range []win32.NewUse{{Remote: "\x00"}, {Remote: nowhere, User: "a\x00"}, {Remote: nowhere, User: "a", Password: win32.NewSecret("\x00")}} {
		if err := api.UseAdd(bad); !win32.IsCode(err, win32.ERROR_INVALID_NAME, win32.ERROR_INVALID_PARAMETER) {
			t.Errorf("UseAdd(%+v) = %v, want an error before any call", bad, err)
		}
	}
	if err := api.UseDel("a\x00"); !win32.IsCode(err, win32.ERROR_INVALID_NAME) {
		t.Errorf("UseDel of a name with a NUL = %v", err)
	}
}
