package driver

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// If package win32 has a status too, it converts it back to the same number.
func TestStatusesInvertible(t *testing.T) {
	known := 0
	for _, e := range represented() {
		s := statuses[e]
		if s.Name()[:9] == "STATUS_0x" {
			continue
		}
		known++
		if s.Errno() != e {
			t.Errorf("%s is for %s, but package win32 converts it to %s", s.Name(), e.Name(), s.Errno().Name())
		}
	}
	if known < 15 {
		t.Errorf("package win32 has only %d of the statuses", known)
	}
}

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want win32.NTStatus
	}{
		{nil, 0},
		{win32.ERROR_WRITE_PROTECT, win32.STATUS_MEDIA_WRITE_PROTECTED},
		{win32.STATUS_BUFFER_TOO_SMALL, win32.STATUS_BUFFER_TOO_SMALL},
		{win32.ERROR_NO_SUCH_DEVICE, noStatus | 433},
		{errors.New("something"), 0xC0000001},
	} {
		if got := statusOf(c.err); got != c.want {
			t.Errorf("statusOf(%v) = %#x, want %#x", c.err, uint32(got), uint32(c.want))
		}
	}
}
