package driver

import (
	"testing"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Windows (Wine) converts each status to its number. A number without a status
// passes through unchanged.
func TestStatusNumbers(t *testing.T) {
	for _, e := range represented() {
		if got := win32.Errno(windows.NTStatus(statuses[e]).Errno()); got != e {
			t.Errorf("%#x becomes %s, want %s", uint32(statuses[e]), got.Name(), e.Name())
		}
	}
	for _, e := range []win32.Errno{win32.ERROR_NO_SUCH_DEVICE, win32.ERROR_DIR_NOT_ROOT} {
		if got := win32.Errno(windows.NTStatus(statusOf(e)).Errno()); got != e {
			t.Errorf("%#x becomes %s, want %s", uint32(statusOf(e)), got.Name(), e.Name())
		}
	}
}
