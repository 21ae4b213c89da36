package wmi

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// reason is what the error object of a failed call says. Providers that are written for
// Windows' management infrastructure (MI), such as that of SMB, post a MSFT_WmiError with
// the number of the failure; the HRESULT of the call is then only WBEM_E_FAILED. WMI's own
// errors come in an __ExtendedStatus.
// https://learn.microsoft.com/windows/win32/wmisdk/retrieving-an-error-code
type reason struct {
	errno win32.Errno // 0 if the object has none
	text  string      // Windows' text, in Windows' language
}

// reasonOf returns what an error object says. Properties that it lacks are null in r.
func reasonOf(r row) reason {
	text := func(property string) string {
		s, err := r.text(property)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(s)
	}
	var why reason
	for _, property := range []string{"error_WindowsErrorMessage", "Message", "Description"} {
		if why.text == "" {
			why.text = text(property)
		}
	}
	if text("__CLASS") != "__ExtendedStatus" {
		if code, err := r.uint32("error_Code"); err == nil {
			switch strings.ToUpper(text("error_Type")) {
			case "WIN32":
				why.errno = win32.Errno(code)
			case "HRESULT":
				why.errno = errnoOf(code)
			}
		}
		if why.errno == 0 {
			why.errno = errnoOfMessage(text("MessageID"))
		}
	}
	if code, err := r.uint32("StatusCode"); err == nil && why.errno == 0 {
		why.errno = errnoOf(code)
	}
	return why
}

// errnoOf returns the Windows error of a failed HRESULT, or 0 if it has none of its own.
func errnoOf(hr uint32) win32.Errno {
	if _, errno, _ := meaning(hr); hr>>31 != 0 && errno != win32.ERROR_GEN_FAILURE {
		return errno
	}
	return 0
}

var (
	messageWin32   = regexp.MustCompile(`(?i)^(?:windows system error|win32) +(\d+)$`)
	messageHRESULT = regexp.MustCompile(`(?i)^hresult +(0x[0-9a-f]{8})$`)
)

// errnoOfMessage returns the Windows error in a MessageID, such as "Windows System Error
// 53" or "HRESULT 0x80070035", or 0.
func errnoOfMessage(id string) win32.Errno {
	if m := messageWin32.FindStringSubmatch(id); m != nil {
		if n, err := strconv.ParseUint(m[1], 10, 32); err == nil {
			return win32.Errno(n)
		}
	}
	if m := messageHRESULT.FindStringSubmatch(id); m != nil {
		if n, err := strconv.ParseUint(m[1], 0, 32); err == nil {
			return errnoOf(uint32(n))
		}
	}
	return 0
}

// String returns the text and the number of the reason, as the end of an error, or "".
func (r reason) String() string {
	text := strings.TrimRight(r.text, ".")
	switch {
	case r.errno == 0 && text == "":
		return ""
	case r.errno == 0:
		return ": " + text
	case text == "":
		text = strings.TrimRight(r.errno.Error(), ".")
	}
	return fmt.Sprintf(": %s (error %d)", text, uint32(r.errno))
}
