package wmi

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// What error objects say, in the forms in which Windows was seen to print them.
func TestReason(t *testing.T) {
	type values = map[string]any
	for _, c := range []struct {
		name   string
		object values
		want   win32.Errno // 0: the object has no number
		says   string
	}{
		{"a number", values{"__CLASS": "MSFT_WmiError", "error_Type": "WIN32", "error_Code": int64(53), "error_WindowsErrorMessage": "The network path was not found.\r\n"}, win32.ERROR_BAD_NETPATH, ": The network path was not found (error 53)"},
		{"of a class that has another name", values{"__CLASS": "CIM_Error", "error_Type": "Win32", "error_Code": int64(1219)}, win32.ERROR_SESSION_CREDENTIAL_CONFLICT, "(error 1219)"},
		{"an HRESULT of a number", values{"error_Type": "HRESULT", "error_Code": int64(-2147023570)}, win32.ERROR_LOGON_FAILURE, "1326"},
		{"an HRESULT of WMI", values{"error_Type": "HRESULT", "error_Code": int64(-2147217405)}, win32.ERROR_ACCESS_DENIED, ""},
		{"an HRESULT without a number", values{"error_Type": "HRESULT", "error_Code": int64(-2147217407), "Message": "Generic failure"}, 0, ": Generic failure"},
		{"a number of another kind", values{"error_Type": "MI", "error_Code": int64(4), "Message": "Invalid parameter"}, 0, ": Invalid parameter"},
		{"a kind without a number", values{"error_Type": "WIN32"}, 0, ""},
		{"a message's identifier", values{"MessageID": "Windows System Error 86"}, win32.ERROR_INVALID_PASSWORD, ""},
		{"another spelling", values{"MessageID": "WIN32 2138", "error_Type": "MI", "error_Code": int64(1)}, win32.NERR_WkstaNotStarted, ""},
		{"an identifier with an HRESULT", values{"MessageID": "HRESULT 0x80070041"}, win32.ERROR_NETWORK_ACCESS_DENIED, ""},
		{"an identifier with an HRESULT of no number", values{"MessageID": "HRESULT 0x80041001"}, 0, ""},
		{"an identifier of another kind", values{"MessageID": "StorageWMI 5"}, 0, ""},
		{"too long an identifier", values{"MessageID": "WIN32 99999999999"}, 0, ""},
		{"WMI's own object", values{"__CLASS": "__ExtendedStatus", "StatusCode": int64(-2147024809), "Description": "d"}, win32.ERROR_INVALID_PARAMETER, ": d (error 87)"},
		{"WMI's own object with properties of no meaning", values{"__CLASS": "__ExtendedStatus", "error_Type": "WIN32", "error_Code": int64(53)}, 0, ""},
		{"a status of success", values{"StatusCode": int64(0)}, 0, ""},
		{"success", values{"error_Type": "HRESULT", "error_Code": int64(0)}, 0, ""},
		{"nothing", nil, 0, ""},
	} {
		r := reasonOf(row{of: "an error object", values: c.object})
		if r.errno != c.want || c.says != "" && !strings.Contains(r.String(), c.says) || c.object == nil && r.String() != "" {
			t.Errorf("%s: %v %q, want %v %q", c.name, r.errno, r, c.want, c.says)
		}
		err := error(&Error{Op: "MSFT_SmbGlobalMapping.Create", HRESULT: 0x80041001, reason: r})
		want := c.want
		if want == 0 {
			want = win32.ERROR_GEN_FAILURE
		}
		if !win32.IsCode(err, want) || errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s: %v, want %v", c.name, err, want)
		}
		if begun := begunError(err); begun.Error() != err.Error() || !win32.IsCode(begun, want) {
			t.Errorf("%s: of an object's method: %v", c.name, begun)
		}
	}
}

// The WMI service is asked again on a new connection if it has reached a quota, but not
// after a method may have done something.
func TestQuota(t *testing.T) {
	for hr, want := range map[uint32]bool{0x8004106C: true, 0x80041033: true, 0x80041001: false, 0x80041045: false} {
		err := error(&Error{Op: "query X", HRESULT: hr})
		if got := quota(err); got != want || !win32.IsCode(err, win32.ERROR_BUSY) && want {
			t.Errorf("%v: %t, want %t", err, got, want)
		}
		if quota(begunError(err)) {
			t.Errorf("%v of a method that has begun would be repeated", err)
		}
	}
	if quota(win32.ERROR_BUSY) || quota(nil) {
		t.Error("an error of something else counts as a quota")
	}
}
