package native

import (
	"encoding/binary"
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
		if !errors.Is(err, c.want) || !strings.HasPrefix(fmt.Sprint(err), "CM_X answered") {
			t.Errorf("configError of %s: %v, want %v", c.name, err, c.want)
		}
		asserts = append(asserts, mingwtest.Assert{Name: c.name, Expr: fmt.Sprintf("%s == %d", c.name, c.cr)})
	}
	if err := configError("CM_X", 0); err != nil {
		t.Errorf("configError of CR_SUCCESS: %v", err)
	}
	asserts = append(asserts, mingwtest.Assert{Name: "CM_REENUMERATE_SYNCHRONOUS", Expr: "CM_REENUMERATE_SYNCHRONOUS == 1"})
	for _, wrong := range mingwtest.Check(t, "#include <windows.h>\n#include <cfgmgr32.h>\n", asserts) {
		t.Errorf("%s is another number in mingw-w64's headers", wrong)
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
		},
		mingwtest.Offset("SP_DEVICE_INTERFACE_DATA", "cbSize", int(unsafe.Offsetof(d.size)), 4),
		mingwtest.Offset("SP_DEVICE_INTERFACE_DATA", "InterfaceClassGuid", int(unsafe.Offsetof(d.class)), 16),
		mingwtest.Offset("SP_DEVICE_INTERFACE_DATA", "Flags", int(unsafe.Offsetof(d.flags)), 4),
		mingwtest.Offset("SP_DEVICE_INTERFACE_DATA", "Reserved", int(unsafe.Offsetof(d.reserved)), 8),
		mingwtest.Offset("SP_DEVICE_INTERFACE_DETAIL_DATA_W", "DevicePath", interfaceDetailPath, 0),
	)
	for _, wrong := range mingwtest.Check(t, "#include <windows.h>\n#include <setupapi.h>\n#include <lm.h>\n", asserts) {
		t.Errorf("not so in mingw-w64's headers: %s", wrong)
	}
}

// formatParam is in nobody's headers; these are the numbers that open tools
// which call FormatEx2 agree on.
func TestFormatParam(t *testing.T) {
	var p formatParam
	for _, c := range []struct {
		name      string
		got, want uintptr
	}{
		{"size", unsafe.Sizeof(p), 40},
		{"major", unsafe.Offsetof(p.major), 0},
		{"minor", unsafe.Offsetof(p.minor), 1},
		{"flags", unsafe.Offsetof(p.flags), 4},
		{"label", unsafe.Offsetof(p.label), 8},
		{"clusterSize", unsafe.Offsetof(p.clusterSize), 16},
		{"udfVersion", unsafe.Offsetof(p.udfVersion), 20},
		{"context", unsafe.Offsetof(p.context), 24},
		{"passes", unsafe.Offsetof(p.passes), 32},
		{"logFileSize", unsafe.Offsetof(p.logFileSize), 36},
	} {
		if c.got != c.want {
			t.Errorf("formatParam %s is %d, want %d", c.name, c.got, c.want)
		}
	}
}

func finished(success byte, result uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{success, 0, 0, 0}, result)
}

func TestFormatEvents(t *testing.T) {
	type event struct {
		number uint32
		data   []byte
	}
	percent := event{0, []byte{50, 0, 0, 0}}
	for _, c := range []struct {
		name   string
		events []event
		want   error // nil: the format succeeded
	}{
		{"finished well", []event{percent, {11, finished(1, 0)}}, nil},
		{"finished well, in the packet of FormatEx", []event{{11, []byte{1}}}, nil},
		{"finished well after a complaint", []event{{9, nil}, {11, finished(1, 0)}}, nil},
		{"events that nobody knows", []event{{99, nil}, {14, []byte("text")}, {11, finished(1, 0)}}, nil},
		{"nothing heard", nil, win32.ERROR_GEN_FAILURE},
		{"never finished", []event{percent}, win32.ERROR_GEN_FAILURE},
		{"never finished, but complained", []event{percent, {6, nil}}, win32.ERROR_ACCESS_DENIED},
		{"failed without a number", []event{{11, finished(0, 0)}}, win32.ERROR_GEN_FAILURE},
		{"failed with an empty packet", []event{{11, nil}}, win32.ERROR_GEN_FAILURE},
		{"failed with a short packet", []event{{11, []byte{0, 0, 0, 0, 5}}}, win32.ERROR_GEN_FAILURE},
		{"failed with a Win32 number", []event{{11, finished(0, 112)}}, win32.ERROR_DISK_FULL},
		{"failed with an HRESULT", []event{{11, finished(0, 0x80070005)}}, win32.ERROR_ACCESS_DENIED},
		{"failed with an NTSTATUS", []event{{11, finished(0, 0xC00000A2)}}, win32.ERROR_WRITE_PROTECT},
		{"the first complaint counts", []event{{8, nil}, {10, nil}, {11, finished(0, 5)}}, win32.ERROR_SHARING_VIOLATION},
		{"not this file system", []event{{3, nil}, {11, finished(0, 0)}}, win32.ERROR_NOT_SUPPORTED},
		{"write protected", []event{{7, nil}}, win32.ERROR_WRITE_PROTECT},
		{"I/O error", []event{{10, nil}}, win32.ERROR_IO_DEVICE},
		{"bad label", []event{{12, nil}}, win32.ERROR_INVALID_NAME},
		{"cluster size", []event{{16, nil}}, win32.ERROR_INVALID_PARAMETER},
		{"volume too small", []event{{18, nil}}, win32.ERROR_INVALID_PARAMETER},
		{"volume offline", []event{{24, nil}}, win32.ERROR_NOT_READY},
	} {
		var f formatEvents
		for _, e := range c.events {
			f.add(e.number, e.data)
		}
		err := f.result()
		code, _ := win32.Code(err)
		if (err == nil) != (c.want == nil) || err != nil && code != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// Whatever fmifs tells, only a finished packet that says so is success, and an
// error has a Win32 number.
func FuzzFormatEvents(f *testing.F) {
	f.Add(uint32(11), finished(1, 0), uint32(0), []byte{})
	f.Add(uint32(6), []byte{}, uint32(11), finished(0, 0xC0000001))
	f.Fuzz(func(t *testing.T, e1 uint32, d1 []byte, e2 uint32, d2 []byte) {
		var events formatEvents
		events.add(e1, d1)
		events.add(e2, d2)
		well := func(e uint32, d []byte) bool { return e == 11 && len(d) > 0 && d[0] != 0 }
		err := events.result()
		if err == nil && !well(e1, d1) && !well(e2, d2) {
			t.Errorf("events %d % x and %d % x are taken for success", e1, d1, e2, d2)
		}
		if _, ok := win32.Code(err); err != nil && !ok {
			t.Errorf("events %d % x and %d % x: %v has no Win32 number", e1, d1, e2, d2, err)
		}
	})
}
