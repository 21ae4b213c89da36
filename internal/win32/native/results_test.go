package native

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/mingwtest"
)

func TestMultiString(t *testing.T) {
	for _, c := range []struct {
		units string
		want  []string
	}{
		{"", nil},
		{"\x00", nil},
		{"\x00\x00", nil},
		{"C:\\\x00\x00", []string{`C:\`}},
		{"C:\\\x00D:\\mnt\\\x00\x00", []string{`C:\`, `D:\mnt\`}},
		{"C:\\\x00\x00left over\x00", []string{`C:\`}},
		{"without an end", []string{"without an end"}},
		{"one\x00two", []string{"one", "two"}},
	} {
		if got := multiString(win32.UTF16(c.units)); !slices.Equal(got, c.want) {
			t.Errorf("multiString(%q) = %q, want %q", c.units, got, c.want)
		}
	}
}

func TestTerminated(t *testing.T) {
	for units, want := range map[string]string{"": "", "\x00": "", "ab\x00c": "ab", "ab": "ab"} {
		if got := terminated(win32.UTF16(units)); got != want {
			t.Errorf("terminated(%q) = %q, want %q", units, got, want)
		}
	}
}

func TestConfigError(t *testing.T) {
	var asserts []mingwtest.Assert
	for _, c := range []struct {
		name string
		cr   uint32
		want win32.Errno
	}{
		{"CR_OUT_OF_MEMORY", 0x02, win32.ERROR_NO_SYSTEM_RESOURCES},
		{"CR_NO_SUCH_DEVNODE", 0x0D, win32.ERROR_NOT_FOUND},
		{"CR_ACCESS_DENIED", 0x33, win32.ERROR_ACCESS_DENIED},
		{"CR_CALL_NOT_IMPLEMENTED", 0x34, win32.ERROR_NOT_SUPPORTED},
		{"CR_FAILURE", 0x13, win32.ERROR_GEN_FAILURE},
	} {
		err := configError("CM_X", c.cr)
		if !errors.Is(err, c.want) || !strings.HasPrefix(fmt.Sprint(err), "CM_X returned") {
			t.Errorf("configError of %s: %v, want %v", c.name, err, c.want)
		}
		asserts = append(asserts, mingwtest.Assert{Name: c.name, Expr: fmt.Sprintf("%s == %d", c.name, c.cr)})
	}
	if err := configError("CM_X", 0); err != nil {
		t.Errorf("configError of CR_SUCCESS: %v", err)
	}
	asserts = append(asserts, mingwtest.Assert{Name: "CM_REENUMERATE_SYNCHRONOUS", Expr: "CM_REENUMERATE_SYNCHRONOUS == 1"})
	for _, wrong := range mingwtest.Check(t, "#include <windows.h>\n#include <cfgmgr32.h>\n", asserts) {
		t.Errorf("%s has another value in mingw-w64's headers", wrong)
	}
}

func TestStructures(t *testing.T) {
	var d interfaceData
	var u useInfo3
	asserts := slices.Concat(
		[]mingwtest.Assert{
			mingwtest.Size("USE_INFO_2", int(unsafe.Sizeof(u.useInfo2))),
			mingwtest.Size("USE_INFO_3", int(unsafe.Sizeof(u))),
		},
		mingwtest.Offset("USE_INFO_2", "ui2_local", int(unsafe.Offsetof(u.local)), 8),
		mingwtest.Offset("USE_INFO_2", "ui2_refcount", int(unsafe.Offsetof(u.refCount)), 4),
		mingwtest.Offset("USE_INFO_2", "ui2_usecount", int(unsafe.Offsetof(u.useCount)), 4),
		mingwtest.Offset("USE_INFO_2", "ui2_remote", int(unsafe.Offsetof(u.remote)), 8),
		mingwtest.Offset("USE_INFO_2", "ui2_password", int(unsafe.Offsetof(u.password)), 8),
		mingwtest.Offset("USE_INFO_2", "ui2_status", int(unsafe.Offsetof(u.status)), 4),
		mingwtest.Offset("USE_INFO_2", "ui2_asg_type", int(unsafe.Offsetof(u.asgType)), 4),
		mingwtest.Offset("USE_INFO_2", "ui2_username", int(unsafe.Offsetof(u.user)), 8),
		mingwtest.Offset("USE_INFO_2", "ui2_domainname", int(unsafe.Offsetof(u.domain)), 8),
		mingwtest.Offset("USE_INFO_3", "ui3_flags", int(unsafe.Offsetof(u.flags)), 4),
		[]mingwtest.Assert{
			mingwtest.Size("SP_DEVICE_INTERFACE_DATA", int(unsafe.Sizeof(d))),
			mingwtest.Size("SP_DEVICE_INTERFACE_DETAIL_DATA_W", interfaceDetailSize),
			{Name: "LOGON32_LOGON_NEW_CREDENTIALS", Expr: fmt.Sprint("LOGON32_LOGON_NEW_CREDENTIALS == ", logonNewCredentials)},
			{Name: "LOGON32_PROVIDER_WINNT50", Expr: fmt.Sprint("LOGON32_PROVIDER_WINNT50 == ", logonProviderWinNT50)},
			{Name: "USE_IPC", Expr: fmt.Sprint("USE_IPC == ", useIPC)},
		},
		mingwtest.Offset("SP_DEVICE_INTERFACE_DATA", "cbSize", int(unsafe.Offsetof(d.size)), 4),
		mingwtest.Offset("SP_DEVICE_INTERFACE_DATA", "InterfaceClassGuid", int(unsafe.Offsetof(d.class)), 16),
		mingwtest.Offset("SP_DEVICE_INTERFACE_DATA", "Flags", int(unsafe.Offsetof(d.flags)), 4),
		mingwtest.Offset("SP_DEVICE_INTERFACE_DATA", "Reserved", int(unsafe.Offsetof(d.reserved)), 8),
		mingwtest.Offset("SP_DEVICE_INTERFACE_DETAIL_DATA_W", "DevicePath", interfaceDetailPath, 0),
	)
	for _, wrong := range mingwtest.Check(t, "#include <windows.h>\n#include <setupapi.h>\n#include <lm.h>\n", asserts) {
		t.Errorf("false in mingw-w64's headers: %s", wrong)
	}
}
