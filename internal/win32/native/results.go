package native

import (
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// terminated returns the string before the first NUL of u, or all of u.
func terminated(u []uint16) string {
	if i := slices.Index(u, 0); i >= 0 {
		u = u[:i]
	}
	return win32.FromUTF16(u)
}

// multiString splits a list of NUL-terminated strings that ends with an empty
// string.
func multiString(u []uint16) []string {
	var list []string
	for {
		s := terminated(u)
		if s == "" {
			return list
		}
		list = append(list, s)
		i := slices.Index(u, 0)
		if i < 0 {
			return list
		}
		u = u[i+1:]
	}
}

// configError returns the error of a CONFIGRET, which CM_ functions return
// instead of a Win32 error number (cfgmgr32.h). CM_MapCrToWin32Err would convert
// more of them, but Wine lacks it, and then x/sys panics.
func configError(function string, cr uint32) error {
	const (
		crSuccess            = 0x00
		crOutOfMemory        = 0x02
		crNoSuchDevnode      = 0x0D
		crAccessDenied       = 0x33
		crCallNotImplemented = 0x34
	)
	code := win32.ERROR_GEN_FAILURE
	switch cr {
	case crSuccess:
		return nil
	case crOutOfMemory:
		code = win32.ERROR_NO_SYSTEM_RESOURCES
	case crNoSuchDevnode:
		code = win32.ERROR_NOT_FOUND
	case crAccessDenied:
		code = win32.ERROR_ACCESS_DENIED
	case crCallNotImplemented:
		code = win32.ERROR_NOT_SUPPORTED
	}
	return fmt.Errorf("%s returned CONFIGRET %#x: %w", function, cr, code)
}
