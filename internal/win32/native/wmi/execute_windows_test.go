package wmi

import (
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/go-ole/go-ole"
	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// comObject is a COM object of this test with every interface. Wine's WMI has neither
// IWbemCallResult nor error objects, nor the classes of disks and shares, so without one, nothing
// here would call them.
type comObject struct {
	vtable *[26]uintptr
	table  [26]uintptr
}

// comMethod implements a method. It gets the arguments after the object.
type comMethod func(args [7]uintptr) (hr uintptr)

// The methods that an object has anyway: of these, Go has a limited number.
var (
	succeeds = sync.OnceValue(func() uintptr {
		return syscall.NewCallback(func(this, a, b, c, d, e, f, g uintptr) uintptr { return 0 })
	})
	isEverything = sync.OnceValue(func() uintptr {
		return syscall.NewCallback(func(this, iid, to uintptr) uintptr { *(*uintptr)(pointer(to)) = this; return 0 })
	})
)

func newObject(methods map[method]comMethod) *object {
	o := &comObject{}
	o.vtable = &o.table
	for i := range o.table {
		o.table[i] = succeeds()
	}
	o.table[queryInterface] = isEverything()
	for i, implementation := range methods {
		o.table[i] = syscall.NewCallback(func(this, a, b, c, d, e, f, g uintptr) uintptr {
			return implementation([7]uintptr{a, b, c, d, e, f, g})
		})
	}
	return (*object)(unsafe.Pointer(o))
}

// pointer returns an address that a method got.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// properties is IWbemClassObject.Get of an object with some properties: strings, and
// numbers. It lacks all others.
func properties(values map[string]any) comMethod {
	return func(args [7]uintptr) uintptr {
		v := (*ole.VARIANT)(pointer(args[2]))
		switch value := values[windows.UTF16PtrToString((*uint16)(pointer(args[0])))].(type) {
		case string:
			*v = ole.NewVariant(ole.VT_BSTR, int64(uintptr(unsafe.Pointer(ole.SysAllocStringLen(value)))))
		case int:
			*v = ole.NewVariant(ole.VT_I4, int64(value))
		default:
			return 0x80041002 // WBEM_E_NOT_FOUND
		}
		return 0
	}
}

// A method is called semisynchronously, and the reason of its failure is what Windows' error
// object says.
func TestExecute(t *testing.T) {
	const failed = 0x80041001 // WBEM_E_FAILED
	result := newObject(map[method]comMethod{objectGet: properties(map[string]any{"ReturnValue": 7})})
	var reason, stale *object
	var all []*object // COM does not keep Go's objects
	defer func() { runtime.KeepAlive(all) }()
	fail := func() uintptr {
		oleAut("SetErrorInfo").Call(0, uintptr(unsafe.Pointer(reason)))
		return failed
	}
	withResult := func(get comMethod) *object { return newObject(map[method]comMethod{resultObject: get}) }
	var waited time.Duration
	succeed := withResult(func(args [7]uintptr) uintptr {
		waited = time.Duration(args[0]) * time.Millisecond
		*(**object)(pointer(args[1])) = result
		return 0
	})
	// A call of ExecMethod gets flags, and returns a result directly, or one that is pending.
	exec := func(pending *object) comMethod {
		return func(args [7]uintptr) uintptr {
			if args[2] != returnImmediately || args[6] == 0 {
				t.Errorf("ExecMethod has flags %#x and a pointer for its pending result %#x", args[2], args[6])
				return failed
			}
			*(**object)(pointer(args[6])) = pending
			return 0
		}
	}
	noError := newObject(map[method]comMethod{objectGet: properties(nil)})
	for _, c := range []struct {
		name   string
		exec   comMethod
		reason map[string]any // of the error object
		want   win32.Errno
		says   string
	}{
		{"a result", exec(succeed), nil, 0, ""},
		{"a direct result", func(args [7]uintptr) uintptr { *(**object)(pointer(args[5])) = result; return 0 }, nil, 0, ""},
		{"a Windows that takes one of both", func(args [7]uintptr) uintptr {
			if args[5] != 0 {
				return 0x80041008 // WBEM_E_INVALID_PARAMETER
			}
			return exec(succeed)(args)
		}, nil, 0, ""},
		{"no result", exec(nil), nil, win32.ERROR_GEN_FAILURE, "no object"},
		{"not done", exec(withResult(func([7]uintptr) uintptr { return sTimedOut })), nil, win32.ERROR_TIMEOUT, "not done after 1m30s"},
		{"a reason", exec(withResult(func([7]uintptr) uintptr { return fail() })), map[string]any{"__CLASS": "MSFT_WmiError", "error_Type": "WIN32", "error_Code": 53, "error_WindowsErrorMessage": "Der Netzwerkpfad wurde nicht gefunden."}, win32.ERROR_BAD_NETPATH, "WBEM_E_FAILED (0x80041001): Der Netzwerkpfad wurde nicht gefunden (error 53)"},
		{"a reason at once", func([7]uintptr) uintptr { return fail() }, map[string]any{"MessageID": "Windows System Error 1219"}, win32.ERROR_SESSION_CREDENTIAL_CONFLICT, "(error 1219)"},
		{"no reason", exec(withResult(func([7]uintptr) uintptr { return failed })), nil, win32.ERROR_GEN_FAILURE, "WBEM_E_FAILED (0x80041001)"},
	} {
		waited = 0
		reason = newObject(map[method]comMethod{objectGet: properties(c.reason), errorDescription: func([7]uintptr) uintptr { return failed }})
		stale = newObject(map[method]comMethod{objectGet: properties(map[string]any{"error_Type": "WIN32", "error_Code": 86})})
		all = append(all, reason, stale)
		var got row
		err := cimv2(t).change("a test", callLimit, func(s *session) error {
			oleAut("SetErrorInfo").Call(0, uintptr(unsafe.Pointer(stale))) // of an earlier call
			defer forgetReason()
			s.services = newObject(map[method]comMethod{servicesExecMethod: c.exec})
			o, err := s.execute("X.Y", "X", "Y", noError)
			if err != nil {
				return err
			}
			got, err = s.read("X.Y", o, "ReturnValue")
			return err
		})
		code, _ := win32.Code(err)
		if code != c.want || (err == nil) != (c.want == 0) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%v), want %v that says %q", c.name, err, code, c.want, c.says)
		}
		if n, failed := got.uint32("ReturnValue"); err == nil && (failed != nil || n != 7) {
			t.Errorf("%s: ReturnValue %d, %v, want 7", c.name, n, failed)
		}
		if waited != 0 && waited != callLimit {
			t.Errorf("%s: WMI was given %s, want %s", c.name, waited, callLimit)
		}
		t.Logf("%s: %v", c.name, err)
	}
}

// Under Wine, a failed method has no error object, and its error is the HRESULT's.
func TestFailedMethodWithoutReason(t *testing.T) {
	err := cimv2(t).change("a test", callLimit, func(s *session) error {
		_, err := s.execute("StdRegProv.NoSuchMethod", "StdRegProv", "NoSuchMethod", nil)
		return err
	})
	if _, ok := win32.Code(err); !ok || !strings.Contains(err.Error(), "StdRegProv.NoSuchMethod: WBEM_E_") {
		t.Errorf("%v, want an error of WMI", err)
	}
	t.Log(err)
}
