package remote

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// timeout is what a pipe answers whose instances are all busy.
type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// TestNotConnected has the errors that a test cannot have the system make.
func TestNotConnected(t *testing.T) {
	c := &connection{api: "disk/v1", at: `\\.\pipe\csi-proxy-disk-v1`}
	for _, tt := range []struct {
		about string
		err   error
		text  string
		kind  error
	}{
		{"absent", &fs.PathError{Op: "open", Path: "p", Err: fs.ErrNotExist}, "no CSI Proxy serves", hosterr.ErrUnavailable},
		{"left behind", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, "no CSI Proxy serves", hosterr.ErrUnavailable},
		{"refused by name", &fs.PathError{Op: "open", Path: "p", Err: fs.ErrPermission}, "this account may not open", hosterr.ErrPermissionDenied},
		{"refused by socket", &net.OpError{Op: "dial", Err: os.ErrPermission}, "this account may not open", hosterr.ErrPermissionDenied},
		{"busy", timeout{}, "is busy", hosterr.ErrUnavailable},
		{"deadline", context.DeadlineExceeded, "not connected to", nil},
		{"anything else", errors.New("no directory for the sockets"), "cannot connect to", nil},
	} {
		err := c.notConnected(tt.err)
		if hosterr.KindOf(err) != tt.kind || !errors.Is(err, tt.err) {
			t.Errorf("%s: error %q is of kind %v, want %v and %v", tt.about, err, hosterr.KindOf(err), tt.kind, tt.err)
		}
		for _, part := range []string{c.api, c.at, tt.text, tt.err.Error()} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %q does not say %q", tt.about, err, part)
			}
		}
	}
}
