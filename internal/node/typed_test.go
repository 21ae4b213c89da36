package node

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

func TestTypedWindowsErrors(t *testing.T) {
	typed := hosterr.Text(hosterr.ErrInvalid, "the caller's mistake: %w", win32.ERROR_FILE_NOT_FOUND)
	ended := fmt.Errorf("%w while waiting: %w", context.Canceled, win32.ERROR_ACCESS_DENIED)
	for _, c := range []struct{ err, kind error }{
		{win32.ERROR_FILE_NOT_FOUND, hosterr.ErrNotFound},
		{hosterr.Wrap("write", "disk 1", win32.ERROR_WRITE_PROTECT), hosterr.ErrFailedPrecondition},
		{win32.STATUS_ACCESS_DENIED, hosterr.ErrPermissionDenied},
		// Win32 maps both to ERROR_ACCESS_DENIED, although neither is about access.
		{hosterr.Wrap("open", "it", win32.STATUS_DELETE_PENDING), hosterr.ErrUnavailable},
		{win32.STATUS_FILE_DELETED, hosterr.ErrNotFound},
		{win32.ERROR_DEVICE_NOT_CONNECTED, hosterr.ErrNotFound},
		{win32.ERROR_ALREADY_EXISTS, hosterr.ErrAlreadyExists},
		{win32.ERROR_INVALID_NAME, hosterr.ErrInvalid},
		{win32.ERROR_NOT_READY, hosterr.ErrUnavailable},
		{win32.ERROR_NOT_SUPPORTED, hosterr.ErrUnimplemented},
		{win32.ERROR_INVALID_FUNCTION, nil}, // from one device; another way may work
		{fmt.Errorf("here: %w", errors.ErrUnsupported), hosterr.ErrUnimplemented},
		{ErrNoWindows, hosterr.ErrUnimplemented},
		{win32.ERROR_INVALID_PARAMETER, nil}, // chosen by us
		{typed, hosterr.ErrInvalid},          // has a kind already
		{ended, nil},
		{errors.New("no number"), nil},
		{nil, nil},
	} {
		got := Typed(c.err)
		if hosterr.KindOf(got) != c.kind || !errors.Is(got, c.err) || c.err != nil && got.Error() != c.err.Error() {
			t.Errorf("Typed(%v) = %v of kind %v, want the same of kind %v", c.err, got, hosterr.KindOf(got), c.kind)
		}
	}
}

func TestAwaitTypesErrors(t *testing.T) {
	_, err := Await(t.Context(), func() (int, error) { return 0, win32.ERROR_ACCESS_DENIED })
	if !errors.Is(err, hosterr.ErrPermissionDenied) || !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
		t.Errorf("Await = %v, want permission denied", err)
	}
}
