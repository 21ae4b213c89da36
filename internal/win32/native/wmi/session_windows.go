package wmi

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-ole/go-ole"
	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// reasonProperties are the properties of error objects that are read. An object has some of
// them. ParameterInfo of an __ExtendedStatus is none of them, because it can contain the
// arguments of the call, and so a password.
var reasonProperties = []string{"__CLASS", "error_Type", "error_Code", "error_WindowsErrorMessage", "MessageID", "Message", "StatusCode", "Description"}

// object is a COM object of any interface.
type object = ole.IUnknown

// session is a connection, for one job. At its end it releases all that it got
// from COM, in reverse order.
type session struct {
	held     *atomic.Int64
	releases []func()
	services *object       // IWbemServices
	limit    time.Duration // of a call of a method
}

func (s *session) release() {
	for i := len(s.releases) - 1; i >= 0; i-- {
		s.releases[i]()
		s.held.Add(-1)
	}
	s.releases = nil
}

// keep registers release to be called at the end.
func (s *session) keep(release func()) {
	s.held.Add(1)
	s.releases = append(s.releases, release)
}

// call calls method number m of o's interface. op is for the error, which every
// HRESULT with its first bit set is.
//
//go:uintptrescapes
func call(op string, o *object, m method, args ...uintptr) (hr uint32, err error) {
	code := *(*uintptr)(unsafe.Add(unsafe.Pointer(o.RawVTable), uintptr(m)*unsafe.Sizeof(uintptr(0))))
	r, _, _ := syscall.SyscallN(code, append([]uintptr{uintptr(unsafe.Pointer(o))}, args...)...)
	if hr = uint32(r); hr>>31 != 0 {
		return hr, &Error{Op: op, HRESULT: hr}
	}
	return hr, nil
}

// own registers a returned object for release. A method that succeeded without
// returning an object is an error.
func (s *session) own(op string, o *object) (*object, error) {
	if o == nil {
		return nil, fmt.Errorf("WMI: %s: it succeeded but returned no object: %w", op, win32.ERROR_GEN_FAILURE)
	}
	s.keep(func() { o.Release() })
	return o, nil
}

// forgetReason removes the error object that an earlier call left on the thread.
// https://learn.microsoft.com/windows/win32/api/oleauto/nf-oleauto-seterrorinfo
func forgetReason() {
	if set := oleAut("SetErrorInfo"); set.Find() == nil {
		set.Call(0, 0)
	}
}

func oleAut(function string) *windows.LazyProc {
	return windows.NewLazySystemDLL("oleaut32.dll").NewProc(function)
}

// explain adds what the error object of the call says to err. It must be called right after
// the call, on its thread.
// https://learn.microsoft.com/windows/win32/api/oleauto/nf-oleauto-geterrorinfo
func (s *session) explain(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	var info *object // IErrorInfo
	get := oleAut("GetErrorInfo")
	if get.Find() != nil {
		return err
	}
	if r, _, _ := get.Call(0, uintptr(unsafe.Pointer(&info))); r != 0 || info == nil {
		return err
	}
	s.keep(func() { info.Release() })
	why := reason{}
	var o *object
	if _, none := call("error object", info, queryInterface, uintptr(unsafe.Pointer(ole.NewGUID(interfaceWbemClassObject))), uintptr(unsafe.Pointer(&o))); none == nil && o != nil {
		s.keep(func() { o.Release() })
		r := row{of: "the error object", values: map[string]any{}}
		for _, property := range reasonProperties {
			// An object lacks some of them.
			if one, err := s.read(r.of, o, property); err == nil {
				r.values[property] = one.values[property]
			}
		}
		why = reasonOf(r)
	}
	if why == (reason{}) {
		why.text = s.description(info)
	}
	return &Error{Op: e.Op, HRESULT: e.HRESULT, reason: why}
}

// description returns the text of an IErrorInfo, or "".
func (s *session) description(info *object) string {
	var text *uint16
	if _, err := call("error object", info, errorDescription, uintptr(unsafe.Pointer(&text))); err != nil || text == nil {
		return ""
	}
	defer ole.SysFreeString((*int16)(unsafe.Pointer(text)))
	return strings.TrimSpace(windows.UTF16PtrToString(text))
}

// bstr returns text as a COM string. Its memory is wiped when it is released.
func (s *session) bstr(text string) uintptr {
	p := ole.SysAllocStringLen(text)
	if p == nil {
		return 0
	}
	units := unsafe.Slice(p, len(win32.UTF16(text)))
	s.keep(func() {
		clear(units)
		ole.SysFreeString(p)
	})
	return uintptr(unsafe.Pointer(p))
}

// wide returns s as a string that a method only reads.
func wide(s string) *uint16 { return unsafe.SliceData(append(win32.UTF16(s), 0)) }

// A class and interfaces of COM (wbemcli.h).
const (
	classWbemLocator     = "{4590F811-1D3A-11D0-891F-00AA004B2E24}"
	interfaceWbemLocator = "{DC12A687-737F-11CF-884D-00AA004B2E24}"

	interfaceWbemClassObject = "{DC12A681-737F-11CF-884D-00AA004B2E24}"
)

func (s *session) connect(namespace string) error {
	op := "connect to " + namespace
	locator, err := ole.CreateInstance(ole.NewGUID(classWbemLocator), ole.NewGUID(interfaceWbemLocator))
	if err != nil {
		return &Error{Op: op, HRESULT: hresult(err)}
	}
	if locator, err = s.own(op, locator); err != nil {
		return err
	}
	const maxWait = 0x80 // WBEM_FLAG_CONNECT_USE_MAX_WAIT: not longer than two minutes
	var services *object
	_, err = call(op, locator, locatorConnectServer, s.bstr(namespace), 0, 0, 0, maxWait, 0, 0, uintptr(unsafe.Pointer(&services)))
	if err != nil {
		return err
	}
	if s.services, err = s.own(op, services); err != nil {
		return err
	}
	return protect(op, s.services)
}

// protect makes calls through a proxy encrypted and run with this process's rights.
// https://learn.microsoft.com/windows/win32/wmisdk/setting-client-application-process-security
func protect(op string, proxy *object) error {
	const (
		byDefault   = 0xFFFFFFFF // RPC_C_AUTHN_DEFAULT, RPC_C_AUTHZ_DEFAULT
		privacy     = 6          // RPC_C_AUTHN_LEVEL_PKT_PRIVACY
		impersonate = 3          // RPC_C_IMP_LEVEL_IMPERSONATE
	)
	blanket := windows.NewLazySystemDLL("ole32.dll").NewProc("CoSetProxyBlanket")
	if err := blanket.Find(); err != nil {
		return fmt.Errorf("%s: this Windows has no %s (%v): %w", op, blanket.Name, err, win32.ERROR_NOT_SUPPORTED)
	}
	r, _, _ := blanket.Call(uintptr(unsafe.Pointer(proxy)), byDefault, byDefault, 0, privacy, impersonate, 0, 0)
	if hr := uint32(r); hr>>31 != 0 {
		return &Error{Op: op + " (CoSetProxyBlanket)", HRESULT: hr}
	}
	return nil
}

// class returns the definition of a class.
func (s *session) class(name string) (*object, error) {
	if !identifier.MatchString(name) {
		return nil, fmt.Errorf("%q is not a WMI class name: %w", name, win32.ERROR_INVALID_NAME)
	}
	op := "get " + name
	var class *object
	_, err := call(op, s.services, servicesGetObject, s.bstr(name), 0, 0, uintptr(unsafe.Pointer(&class)), 0)
	if e := (*Error)(nil); errors.As(err, &e) {
		return nil, missingClass(e)
	}
	return s.own(op, class)
}

// instances runs a query.
func (s *session) instances(q query) ([]*object, error) { return s.atMost(0, q) }

// atMost runs a query and returns some of its instances: at most limit and 100, or all if limit is 0.
func (s *session) atMost(limit uint32, q query) ([]*object, error) {
	// On Windows, a query of a missing class fails when its results are read. Under
	// Wine it has no instances.
	if _, err := s.class(q.class); err != nil {
		return nil, err
	}
	text, err := q.wql()
	if err != nil {
		return nil, err
	}
	op := "query " + q.class
	const forwardAtOnce = 0x20 | returnImmediately // WBEM_FLAG_FORWARD_ONLY
	var enum *object
	if _, err := call(op, s.services, servicesExecQuery, s.bstr("WQL"), s.bstr(text), forwardAtOnce, 0, uintptr(unsafe.Pointer(&enum))); err != nil {
		return nil, err
	}
	if enum, err = s.own(op, enum); err != nil {
		return nil, err
	}
	if err := protect(op, enum); err != nil {
		return nil, err
	}
	const most = 100 // instances that one call returns
	batch := uint32(most)
	if limit != 0 {
		batch = min(limit, most)
	}
	var list []*object
	for {
		var objects [most]*object
		var n uint32
		hr, err := call(op, enum, enumNext, milliseconds(callLimit), uintptr(batch), uintptr(unsafe.Pointer(&objects[0])), uintptr(unsafe.Pointer(&n)))
		if err != nil {
			return nil, err
		}
		for _, o := range objects[:min(n, batch)] {
			_, failed := s.own(op, o)
			err = cmp.Or(err, failed)
			list = append(list, o)
		}
		if err != nil {
			return nil, err
		}
		// Wine says that it timed out when it returns fewer instances than it was asked for.
		switch {
		case n == 0 && hr == sTimedOut:
			return nil, slow(op, callLimit)
		case n == 0 || limit != 0:
			return list, nil
		}
	}
}

// read reads properties of an object.
func (s *session) read(of string, o *object, names ...string) (row, error) {
	r := row{of: of, values: map[string]any{}}
	for _, name := range names {
		v := &ole.VARIANT{}
		if _, err := call("read "+of+"."+name, o, objectGet, uintptr(unsafe.Pointer(wide(name))), 0, uintptr(unsafe.Pointer(v)), 0, 0); err != nil {
			return r, err
		}
		s.keep(func() { ole.VariantClear(v) })
		value, null := v.Value(), v.VT == ole.VT_EMPTY || v.VT == ole.VT_NULL || v.VT == ole.VT_BSTR && v.Val == 0
		if null {
			value = nil
		} else if value == nil {
			return r, fmt.Errorf("read %s.%s: a value of VARIANT type %d, which is not known", of, name, v.VT)
		}
		r.values[name] = value
	}
	return r, nil
}

// invoke calls a method of class on one of its objects, or, if on is nil, on the
// class itself, and reads the properties out of the result.
func (s *session) invoke(class string, on *object, name string, in []parameter, out ...string) (row, error) {
	op := class + "." + name
	definition, err := s.class(class)
	if err != nil {
		return row{}, err
	}
	path := class
	if on != nil {
		r, err := s.read(class, on, "__RELPATH")
		if err != nil {
			return row{}, err
		}
		if path, err = r.text("__RELPATH"); err != nil {
			return row{}, err
		}
	}
	var kind *object
	if _, err := call(op, definition, objectGetMethod, uintptr(unsafe.Pointer(wide(name))), 0, uintptr(unsafe.Pointer(&kind)), 0); err != nil {
		return row{}, err
	}
	args, err := s.arguments(op, kind, in)
	if err != nil {
		return row{}, err
	}
	result, err := s.execute(op, path, name, args)
	if err != nil {
		if on != nil {
			err = begunError(err)
		}
		return row{}, err
	}
	return s.read(op, result, out...)
}

const (
	returnImmediately = 0x10       // WBEM_FLAG_RETURN_IMMEDIATELY
	sTimedOut         = 0x00040004 // WBEM_S_TIMEDOUT
)

// milliseconds returns a limit as WMI's functions take it.
func milliseconds(limit time.Duration) uintptr { return uintptr(limit / time.Millisecond) }

// slow is the error of a call that WMI did not finish.
func slow(op string, limit time.Duration) error {
	return fmt.Errorf("WMI: %s: not done after %s: %w", op, limit, win32.ERROR_TIMEOUT)
}

// execute calls a method semisynchronously, and returns its result. The error has what
// Windows' error object says.
// https://learn.microsoft.com/windows/win32/wmisdk/making-a-semisynchronous-call-with-c--
func (s *session) execute(op, path, name string, args *object) (*object, error) {
	forgetReason()
	begin := func(direct **object) (pending *object, err error) {
		_, err = call(op, s.services, servicesExecMethod, s.bstr(path), s.bstr(name), returnImmediately, 0, uintptr(unsafe.Pointer(args)), uintptr(unsafe.Pointer(direct)), uintptr(unsafe.Pointer(&pending)))
		return pending, s.explain(err)
	}
	// Wine does not know the flag, and returns the result directly.
	var direct *object
	pending, err := begin(&direct)
	if e := (*Error)(nil); errors.As(err, &e) && e.HRESULT == 0x80041008 { // WBEM_E_INVALID_PARAMETER
		pending, err = begin(nil) // the direct result is not needed
	}
	if err != nil {
		return nil, err
	}
	if pending == nil {
		return s.own(op, direct)
	}
	if direct != nil {
		s.keep(func() { direct.Release() })
	}
	s.keep(func() { pending.Release() })
	if err := protect(op, pending); err != nil {
		return nil, err
	}
	var result *object
	hr, err := call(op, pending, resultObject, milliseconds(s.limit), uintptr(unsafe.Pointer(&result)))
	switch {
	case err != nil:
		return nil, s.explain(err)
	case hr == sTimedOut:
		return nil, slow(op, s.limit)
	}
	return s.own(op, result)
}

// arguments returns an instance of a method's parameter class, kind, with values.
// A method without parameters has no kind, and the result is nil.
func (s *session) arguments(op string, kind *object, in []parameter) (*object, error) {
	if kind == nil && len(in) == 0 {
		return nil, nil
	}
	kind, err := s.own(op, kind)
	if err != nil {
		return nil, err
	}
	var args *object
	if _, err := call(op, kind, objectSpawnInstance, 0, uintptr(unsafe.Pointer(&args))); err != nil {
		return nil, err
	}
	if args, err = s.own(op, args); err != nil {
		return nil, err
	}
	for _, p := range in {
		v, err := s.variant(p.value)
		if err != nil {
			return nil, fmt.Errorf("WMI: %s: parameter %s: %w", op, p.name, err)
		}
		if _, err := call(op+": "+p.name, args, objectPut, uintptr(unsafe.Pointer(wide(p.name))), 0, uintptr(unsafe.Pointer(&v)), 0); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// variant returns a value as a VARIANT, which the session owns.
func (s *session) variant(value any) (ole.VARIANT, error) {
	switch v := value.(type) {
	case string:
		return ole.NewVariant(ole.VT_BSTR, int64(s.bstr(v))), nil
	case win32.Secret:
		return ole.NewVariant(ole.VT_BSTR, int64(s.bstr(v.Reveal()))), nil
	case bool:
		bits := map[bool]int64{true: 0xFFFF}[v] // VARIANT_TRUE is -1
		return ole.NewVariant(ole.VT_BOOL, bits), nil
	case uint32:
		return ole.NewVariant(ole.VT_I4, int64(int32(v))), nil // WMI has no VT_UI4
	}
	return ole.VARIANT{}, fmt.Errorf("cannot pass a %T: %w", value, win32.ERROR_INVALID_PARAMETER)
}
