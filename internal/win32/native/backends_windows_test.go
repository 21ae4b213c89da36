package native

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/fmifs"
)

// TestMain makes this test's binary the real format helper.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fmifs.Command {
		os.Exit(fmifs.Main(os.Args[2:], os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

const noVolume = `\\?\Volume{00000000-1111-2222-3333-444444444444}\`

// On a Windows with neither WMI's class nor fmifs.dll, Format tries both, the
// second one through the helper, and logs once that the first is missing.
func TestFormatBackends(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		first  backend.Name
		helper string
		says   []string
	}{
		{"", exe, []string{"by wmi: ", "MSFT_Volume", "by native: ", "fmifs.dll"}},
		{backend.Native, exe, []string{"by native: ", "fmifs.dll", "by wmi: ", "MSFT_Volume"}},
		{"", "", []string{"by wmi: ", "MSFT_Volume", "by native: ", "format helper"}},
	} {
		var log bytes.Buffer
		api := New(Options{Format: c.first, FormatHelper: c.helper, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 2 {
			err = api.Format(noVolume, win32.FormatOptions{})
		}
		if !errors.Is(err, backend.ErrUnavailable) {
			t.Skipf("needs a Windows without MSFT_Volume and fmifs.dll, such as Wine; here Format of a volume that does not exist returns %v", err)
		}
		at := 0
		for _, says := range c.says {
			i := strings.Index(err.Error()[at:], says)
			if i < 0 {
				t.Errorf("first %q: %v\nlacks %q after %q", c.first, err, says, err.Error()[:at])
				break
			}
			at += i
		}
		if got := strings.Count(log.String(), "\n"); got != 1 || !strings.Contains(log.String(), "operation=formatting") {
			t.Errorf("first %q: want one log line about formatting:\n%s", c.first, &log)
		}
	}
}

// Both backends make their calls in the form that the functions need: they return
// a result or an error, on a Windows with global mappings and on one without.
func TestUseBackends(t *testing.T) {
	const nowhere = `\\csi-proxy-test.invalid\share`
	u := win32.NewUse{Remote: nowhere, User: "ann", Domain: "CORP", Password: win32.NewSecret("for-tests"), Flags: win32.REQUIRE_CONNECTION_PRIVACY}
	for _, first := range []backend.Name{backend.WMI, backend.Native} {
		var log bytes.Buffer
		api := New(Options{SMB: first, Log: slog.New(slog.NewTextHandler(&log, nil))})
		uses, err := api.UseEnum()
		missing := errors.Is(err, backend.ErrUnavailable)
		if err != nil && !missing {
			t.Errorf("%s: UseEnum = %v, %v", first, uses, err)
		}
		add, del := api.UseAdd(u), api.UseDel(nowhere)
		if add == nil || del == nil {
			t.Errorf("%s: for a share that does not exist, UseAdd = %v and UseDel = %v", first, add, del)
		}
		if strings.Contains(log.String()+add.Error(), "for-tests") {
			t.Errorf("%s: the password is in\n%v\n%s", first, add, &log)
		}
		if missing && (!errors.Is(add, backend.ErrUnavailable) || !errors.Is(del, backend.ErrUnavailable) || strings.Count(log.String(), "\n") != 1) {
			t.Errorf("%s: UseEnum fails, but UseAdd = %v, UseDel = %v; the log:\n%s", first, add, del, &log)
		}
		t.Logf("%s: UseEnum = %v, %v; UseAdd = %v; UseDel = %v", first, uses, err, add, del)
	}
}
