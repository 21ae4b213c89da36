package remote

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"google.golang.org/grpc"

	"github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta2"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// TestNotConnected covers errors that a test cannot make the system return.
func TestNotConnected(t *testing.T) {
	search := func(reason error, causes ...error) error {
		v := []apiversion.Version{apiversion.NewVersionOrPanic("v1")}
		return &negotiate.Error{Group: "disk", Wanted: v, Serves: v, Reason: reason, Causes: causes}
	}
	for _, tt := range []struct {
		about string
		err   error
		kind  error
	}{
		{"absent", search(negotiate.ErrNotRunning, fs.ErrNotExist), hosterr.ErrUnavailable},
		{"refused", search(negotiate.ErrAccessDenied, fs.ErrPermission), hosterr.ErrPermissionDenied},
		{"busy", search(negotiate.ErrBusy, context.DeadlineExceeded), hosterr.ErrUnavailable},
		{"too old", search(negotiate.ErrTooOld), hosterr.ErrUnimplemented},
		{"not served", search(negotiate.ErrNotServed), hosterr.ErrUnimplemented},
		{"context", context.Canceled, nil},
		{"anything else", errors.New("no directory for the sockets"), nil},
	} {
		err := notConnected(tt.err)
		if hosterr.KindOf(err) != tt.kind || !errors.Is(err, tt.err) || err.Error() != tt.err.Error() {
			t.Errorf("%s: error %q is of kind %v, want %v and %v", tt.about, err, hosterr.KindOf(err), tt.kind, tt.err)
		}
		var e *Error
		if errors.As(err, &e); e.Hint != hosterr.HintOf(err) {
			t.Errorf("%s: hints %q and %q, want the same", tt.about, e.Hint, hosterr.HintOf(err))
		}
		if got, want := errors.Is(err, errors.ErrUnsupported), tt.kind == hosterr.ErrUnimplemented; got != want {
			t.Errorf("%s: %q is ErrUnsupported: %t, want %t", tt.about, err, got, want)
		}
		if errors.Is(err, hosterr.ErrUnavailable) && errors.Is(err, context.DeadlineExceeded) != errors.Is(tt.err, context.DeadlineExceeded) {
			t.Errorf("%s: %q hides the deadline", tt.about, err)
		}
	}
}

// TestMalformedResponses are of a proxy that does not keep to the old API.
func TestMalformedResponses(t *testing.T) {
	c := &connection{group: "disk", version: "v1beta2"}
	for _, id := range []string{"", "one", "-1", "4294967296"} {
		_, err := byNumber(c, "ListDiskIDs", map[string]int{id: 1}, func(n int) int { return n })
		var e *Error
		if !errors.As(err, &e) || hosterr.KindOf(err) != nil {
			t.Errorf("disk %q: error %v, want an Error of no kind", id, err)
		}
	}
	for _, number := range []int64{-1, 1 << 32} {
		c := &connection{ClientConnInterface: diskOf(number), group: "volume", version: "v1beta2", desc: &v1beta2.Volume_ServiceDesc}
		out, err := v1beta2_GetDiskNumberFromVolumeID(t.Context(), c, &volume.GetDiskNumberFromVolumeIDRequest{})
		var e *Error
		if !errors.As(err, &e) || hosterr.KindOf(err) != nil {
			t.Errorf("disk %d: %v, error %v, want an Error of no kind", number, out, err)
		}
	}
	if got, err := byNumber(c, "ListDiskIDs", map[string]int{"4294967295": 1}, func(n int) int { return n }); err != nil || got[1<<32-1] != 1 {
		t.Errorf("the largest disk number: %v, %v", got, err)
	}
}

// diskOf is a connection to a proxy on which each volume is on this disk.
type diskOf int64

func (d diskOf) Invoke(_ context.Context, _ string, _, out any, _ ...grpc.CallOption) error {
	out.(*v1beta2.VolumeDiskNumberResponse).DiskNumber = int64(d)
	return nil
}

func (diskOf) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}
