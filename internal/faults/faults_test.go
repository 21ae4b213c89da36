package faults

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// calls is an API whose Reenumerate, DeleteMountPoint and DeviceIoControl succeed.
type calls struct{ win32.API }

func (calls) DeleteMountPoint(string) error                                     { return nil }
func (calls) Reenumerate() error                                                { return nil }
func (calls) DeviceIoControl(win32.Handle, uint32, []byte, []byte) (int, error) { return 0, nil }

func TestFaultMatchesCallCodeAndTimes(t *testing.T) {
	var fs Set
	api := win32.Observe(calls{}, fs.Hook)
	if _, err := fs.Add(nodespec.Fault{Call: "DeviceIoControl", Code: 7, Error: "ERROR_CRC", Times: 2}); err != nil {
		t.Fatal(err)
	}
	control := func(code uint32) error {
		_, err := api.DeviceIoControl(4, code, nil, nil)
		return err
	}
	for i, c := range []struct {
		code uint32
		want error
	}{{8, nil}, {7, win32.ERROR_CRC}, {7, win32.ERROR_CRC}, {7, nil}} {
		if err := control(c.code); err != c.want {
			t.Errorf("call %d, code %d = %v, want %v", i, c.code, err, c.want)
		}
	}
	if err := api.Reenumerate(); err != nil {
		t.Errorf("another call = %v, want nil", err)
	}
	if got := fs.All(); len(got) != 1 || got[0].Hits != 2 {
		t.Errorf("faults = %+v, want one with two hits", got)
	}
}

func TestFaultDelaysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fs Set
		api := win32.Observe(calls{}, fs.Hook)
		if _, err := fs.Add(nodespec.Fault{Call: "Reenumerate", Delay: time.Minute}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := api.Reenumerate(); err != nil || time.Since(start) != time.Minute {
			t.Errorf("Reenumerate = %v after %v, want nil after a minute", err, time.Since(start))
		}
		go func() { time.Sleep(time.Second); fs.Clear() }()
		start = time.Now()
		if err := api.Reenumerate(); err != nil || time.Since(start) != time.Second {
			t.Errorf("Reenumerate = %v after %v, want nil when the fault is cleared", err, time.Since(start))
		}
	})
}

func TestInvalidFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		f    nodespec.Fault
		want string
	}{
		{"unknown call", nodespec.Fault{Call: "DeviceIOControl", Error: "5"}, `"DeviceIOControl": unknown Win32 call; did you mean "DeviceIoControl"?`},
		{"call that resembles none", nodespec.Fault{Call: "WNetAddConnection", Error: "5"}, `"WNetAddConnection": unknown Win32 call: `},
		{"unknown error", nodespec.Fault{Call: "Format", Error: "ERROR_ACCES_DENIED"}, `error "ERROR_ACCES_DENIED": unknown; did you mean "ERROR_ACCESS_DENIED"`},
		{"unknown status", nodespec.Fault{Call: "Format", Error: "status_access_denied"}, `did you mean "STATUS_ACCESS_DENIED"`},
		{"error that resembles none", nodespec.Fault{Call: "Format", Error: "broken"}, `error "broken": want a name such as`},
		{"unknown code", nodespec.Fault{Call: "DeviceIoControl", CodeName: "IOCTL_GROW_PARTITION", Error: "5"}, `did you mean "IOCTL_DISK_GROW_PARTITION"`},
		{"code that resembles none", nodespec.Fault{Call: "DeviceIoControl", CodeName: "grow", Error: "5"}, `code "grow": want a number, or a name such as`},
		{"two codes", nodespec.Fault{Call: "DeviceIoControl", Code: 7, CodeName: "FSCTL_LOCK_VOLUME", Error: "5"}, "give one of both"},
		{"no error and no delay", nodespec.Fault{Call: "Format"}, "neither"},
		{"negative delay", nodespec.Fault{Call: "Format", Delay: -1}, "negative"},
		{"error number zero, which is success", nodespec.Fault{Call: "Format", Error: "0"}, `error "0"`},
	} {
		var fs Set
		_, err := fs.Add(c.f)
		if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an invalid argument with %q", c.name, err, c.want)
		}
	}
}

func TestCodeAndItsName(t *testing.T) {
	for _, c := range []struct{ given, want nodespec.Fault }{
		{nodespec.Fault{Call: "DeviceIoControl", CodeName: "FSCTL_LOCK_VOLUME"}, nodespec.Fault{Code: 0x90018, CodeName: "FSCTL_LOCK_VOLUME"}},
		{nodespec.Fault{Call: "DeviceIoControl", CodeName: "0x90018"}, nodespec.Fault{Code: 0x90018, CodeName: "FSCTL_LOCK_VOLUME"}},
		{nodespec.Fault{Call: "SetInformation", Code: 4}, nodespec.Fault{Code: 4, CodeName: "FileBasicInformation"}},
		{nodespec.Fault{Call: "ControlService", Code: 1}, nodespec.Fault{Code: 1, CodeName: "0x1"}},
		{nodespec.Fault{Call: "Format"}, nodespec.Fault{}},
	} {
		var fs Set
		c.given.Error = "5"
		if _, err := fs.Add(c.given); err != nil {
			t.Fatal(err)
		}
		if got := fs.All()[0]; got.Code != c.want.Code || got.CodeName != c.want.CodeName {
			t.Errorf("the fault %+v has code %#x, %q; want %#x, %q", c.given, got.Code, got.CodeName, c.want.Code, c.want.CodeName)
		}
	}
}

func TestParseError(t *testing.T) {
	for text, want := range map[string]error{
		"5": win32.ERROR_ACCESS_DENIED, "0x5": win32.ERROR_ACCESS_DENIED, "ERROR_ACCESS_DENIED": win32.ERROR_ACCESS_DENIED,
		"ERROR_REPARSE_POINT_ENCOUNTERED": win32.ERROR_REPARSE_POINT_ENCOUNTERED,
		"STATUS_SHARING_VIOLATION":        win32.STATUS_SHARING_VIOLATION, "STATUS_NO_MORE_FILES": win32.STATUS_NO_MORE_FILES,
		"RPC_S_UNKNOWN_IF": win32.RPC_S_UNKNOWN_IF, "ISDSC_SESSION_BUSY": win32.ISDSC_SESSION_BUSY,
	} {
		if got, err := parseError(text); err != nil || got != want {
			t.Errorf("parseError(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

// A disk has a path with its number, and a device interface path.
func TestFaultMatchesAlias(t *testing.T) {
	fs := Set{Alias: func(path string) string {
		if path == `\\?\scsi#disk` {
			return `\\.\PhysicalDrive1`
		}
		return ""
	}}
	if _, err := fs.Add(nodespec.Fault{Call: "*", Path: "physicaldrive1", Error: "ERROR_CRC"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{`\\?\scsi#disk`: win32.ERROR_CRC, `\\.\PhysicalDrive1`: win32.ERROR_CRC, `\\?\scsi#other`: nil, "": nil} {
		if err := win32.Observe(calls{}, fs.Hook).DeleteMountPoint(path); err != want {
			t.Errorf("a call about %q = %v, want %v", path, err, want)
		}
	}
}

func TestHas(t *testing.T) {
	for _, c := range []struct {
		path, part string
		want       bool
	}{
		{`\\.\PHYSICALDRIVE1`, "PHYSICALDRIVE1", true},
		{`\\.\PHYSICALDRIVE10`, "PHYSICALDRIVE1", false},
		{`\\?\HARDDISK1PARTITION2`, "HARDDISK1", true},
		{`C:\10\1`, "1", true},
		{`C:\POD\MOUNT`, "POD", true},
		{`C:\PODS`, "PODX", false},
	} {
		if got := has(c.path, c.part); got != c.want {
			t.Errorf("has(%q, %q) = %t, want %t", c.path, c.part, got, c.want)
		}
	}
}
