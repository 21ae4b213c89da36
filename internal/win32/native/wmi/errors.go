package wmi

import (
	"errors"
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// Error is an HRESULT from WMI. It wraps an error number of package win32, and
// [backend.ErrUnavailable] if Windows lacks the class or namespace.
type Error struct {
	Op      string // `connect to root\cimv2`, "MSFT_Volume.Format"
	HRESULT uint32

	reason  reason // from the error object of the call
	missing bool   // for an HRESULT that has other meanings too
	begun   bool   // a method of an existing object was called, so nothing is missing
}

// begunError is the error of a method that was called on an object. Whatever the
// HRESULT, it is unknown what the method did, so no other backend may do it
// again.
func begunError(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return &Error{Op: e.Op, HRESULT: e.HRESULT, reason: e.reason, begun: true}
	}
	return err
}

// quota reports whether err says that the WMI service is at the limit of what one of its
// clients may use, or is ending, and that nothing was begun. A new connection may help.
func quota(err error) bool {
	const quotaViolation, shuttingDown = 0x8004106C, 0x80041033
	var e *Error
	return errors.As(err, &e) && !e.begun && (e.HRESULT == quotaViolation || e.HRESULT == shuttingDown)
}

// missingClass is the error of getting a class. A class that does not exist is
// WBEM_E_NOT_FOUND, the HRESULT that is also used for instances.
func missingClass(e *Error) *Error {
	const notFound = 0x80041002
	return &Error{Op: e.Op, HRESULT: e.HRESULT, missing: e.missing || e.HRESULT == notFound}
}

// Error includes the HRESULT's name. Windows' own text for it depends on its
// language.
func (e *Error) Error() string {
	name, _, _ := meaning(e.HRESULT)
	return fmt.Sprintf("WMI: %s: %s (0x%08X)%s", e.Op, name, e.HRESULT, e.reason)
}

// Unwrap implements the interface of package errors.
func (e *Error) Unwrap() []error {
	_, errno, missing := meaning(e.HRESULT)
	if e.reason.errno != 0 {
		return []error{e.reason.errno}
	}
	if (missing || e.missing) && !e.begun {
		return []error{win32.ERROR_NOT_SUPPORTED, backend.ErrUnavailable}
	}
	return []error{errno}
}

// hresults has the name of each HRESULT (wbemcli.h, winerror.h), the corresponding Windows error,
// and whether it means that this Windows lacks the named class or namespace.
var hresults = []struct {
	hr      uint32
	name    string
	errno   win32.Errno
	missing bool
}{
	{0x80041001, "WBEM_E_FAILED", win32.ERROR_GEN_FAILURE, false},
	{0x80041002, "WBEM_E_NOT_FOUND", win32.ERROR_NOT_FOUND, false},
	{0x80041003, "WBEM_E_ACCESS_DENIED", win32.ERROR_ACCESS_DENIED, false},
	{0x80041004, "WBEM_E_PROVIDER_FAILURE", win32.ERROR_GEN_FAILURE, false},
	{0x80041005, "WBEM_E_TYPE_MISMATCH", win32.ERROR_INVALID_PARAMETER, false},
	{0x80041006, "WBEM_E_OUT_OF_MEMORY", win32.ERROR_NO_SYSTEM_RESOURCES, false},
	{0x80041008, "WBEM_E_INVALID_PARAMETER", win32.ERROR_INVALID_PARAMETER, false},
	{0x8004100C, "WBEM_E_NOT_SUPPORTED", win32.ERROR_NOT_SUPPORTED, false},
	{0x8004100E, "WBEM_E_INVALID_NAMESPACE", win32.ERROR_NOT_SUPPORTED, true},
	{0x80041010, "WBEM_E_INVALID_CLASS", win32.ERROR_NOT_SUPPORTED, true},
	{0x80041011, "WBEM_E_PROVIDER_NOT_FOUND", win32.ERROR_NOT_SUPPORTED, true},
	{0x80041013, "WBEM_E_PROVIDER_LOAD_FAILURE", win32.ERROR_GEN_FAILURE, false},
	{0x80041015, "WBEM_E_TRANSPORT_FAILURE", win32.RPC_S_SERVER_UNAVAILABLE, false},
	{0x80041017, "WBEM_E_INVALID_QUERY", win32.ERROR_INVALID_PARAMETER, false},
	{0x8004102E, "WBEM_E_INVALID_METHOD", win32.ERROR_NOT_SUPPORTED, true},
	{0x80041033, "WBEM_E_SHUTTING_DOWN", win32.ERROR_BUSY, false},
	{0x80041045, "WBEM_E_SERVER_TOO_BUSY", win32.ERROR_BUSY, false},
	{0x80041055, "WBEM_E_METHOD_NOT_IMPLEMENTED", win32.ERROR_NOT_SUPPORTED, true},
	{0x80041069, "WBEM_E_TIMED_OUT", win32.ERROR_TIMEOUT, false},
	{0x8004106C, "WBEM_E_QUOTA_VIOLATION", win32.ERROR_BUSY, false},
	{0x80040154, "REGDB_E_CLASSNOTREG", win32.ERROR_NOT_SUPPORTED, true},
	{0x80004005, "E_FAIL", win32.ERROR_GEN_FAILURE, false},
	{0x80010108, "RPC_E_DISCONNECTED", win32.RPC_S_SERVER_UNAVAILABLE, false},
}

// meaning returns the name of an HRESULT, the corresponding Windows error, and whether it means
// that this Windows lacks the named class or namespace.
func meaning(hr uint32) (name string, errno win32.Errno, missing bool) {
	for _, row := range hresults {
		if row.hr == hr {
			return row.name, row.errno, row.missing
		}
	}
	if hr>>16 == 0x8007 { // HRESULT_FROM_WIN32
		errno := win32.Errno(hr & 0xFFFF)
		return errno.Name(), errno, false
	}
	return "unknown error", win32.ERROR_GEN_FAILURE, false
}
