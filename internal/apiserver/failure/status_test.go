package failure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

func infoOf(t *testing.T, s *status.Status) *errdetails.ErrorInfo {
	t.Helper()
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	t.Fatalf("status %v has no ErrorInfo", s)
	return nil
}

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		code   codes.Code
		reason string
	}{
		{"no kind", errors.New("odd"), codes.Unknown, "UNKNOWN"},
		{"deadline", fmt.Errorf("wait: %w", context.DeadlineExceeded), codes.DeadlineExceeded, "DEADLINE_EXCEEDED"},
		{"cancelled", context.Canceled, codes.Canceled, "CANCELED"},
		{"panic of a worker", hosterr.Wrap("format", "v", &node.PanicError{Value: "x"}), codes.Internal, "INTERNAL"},
		{"panic with an error that has a kind", &node.PanicError{Value: hosterr.ErrNotFound}, codes.Internal, "INTERNAL"},
		{"Win32 number", win32.ERROR_SHARING_VIOLATION, codes.Unavailable, "ERROR_SHARING_VIOLATION"},
		{"NTSTATUS", win32.STATUS_ACCESS_DENIED, codes.PermissionDenied, "ERROR_ACCESS_DENIED"},
		{"kind before number", fmt.Errorf("%w: %w", hosterr.ErrFailedPrecondition, win32.ERROR_FILE_NOT_FOUND), codes.FailedPrecondition, "ERROR_FILE_NOT_FOUND"},
		{"kind before context", hosterr.Text(hosterr.ErrUnavailable, "busy: %w", context.DeadlineExceeded), codes.Unavailable, "UNAVAILABLE"},
		{"unsupported by this system", node.ErrNoWindows, codes.Unimplemented, "UNIMPLEMENTED"},
		{"unsupported by Windows", win32.ERROR_NOT_SUPPORTED, codes.Unimplemented, "ERROR_NOT_SUPPORTED"},
		{"unknown number", win32.Errno(4711), codes.Unknown, "ERROR_4711"},
	} {
		s := Status(c.err)
		if s.Code() != c.code || s.Message() != c.err.Error() {
			t.Errorf("%s: Status(%v) = %v %q, want %v and the same text", c.name, c.err, s.Code(), s.Message(), c.code)
		}
		if got := infoOf(t, s).Reason; got != c.reason {
			t.Errorf("%s: reason %q, want %q", c.name, got, c.reason)
		}
	}
}

func TestKindsHaveDistinctCodes(t *testing.T) {
	seen := map[codes.Code]error{}
	for _, kind := range hosterr.Kinds() {
		code := Status(hosterr.Wrap("op", "target", kind)).Code()
		if other, ok := seen[code]; ok || code == codes.Unknown {
			t.Errorf("%v has code %v, which is that of %v", kind, code, other)
		}
		seen[code] = kind
	}
}

// Clients derive the kind from the code, so both must agree for every error.
func TestWin32CodesMatchKinds(t *testing.T) {
	kinds := map[codes.Code]error{}
	for _, kind := range hosterr.Kinds() {
		kinds[Status(kind).Code()] = kind
	}
	for e := range win32.Errno(20_000) {
		if got, want := kinds[Status(e).Code()], hosterr.KindOf(node.Typed(e)); got != want {
			t.Errorf("%s is %v by its code, but %v in process", e.Name(), got, want)
		}
	}
}

// Every error of a failing disk says so, also where no operation gave it a hint.
func TestFailingDisk(t *testing.T) {
	for e := range win32.Errno(20_000) {
		s := Status(hosterr.Wrap("read", "disk 3", e))
		hint, failing := infoOf(t, s).Metadata[MetaHint], slices.Contains(win32.DiskFailures(), e)
		if failing != strings.Contains(hint, "the disk or the way to it fails") || failing && s.Code() != codes.DataLoss && s.Code() != codes.Internal {
			t.Errorf("%s: code %v, hint %q; a failing disk: %t", e.Name(), s.Code(), hint, failing)
		}
	}
	if hint := infoOf(t, Status(hosterr.WithHint("grow", "disk 3", win32.ERROR_SECTOR_NOT_FOUND, "own"))).Metadata[MetaHint]; hint != "own" {
		t.Errorf("the hint of the operation became %q", hint)
	}
}

func TestEveryCodeHasAReason(t *testing.T) {
	for _, e := range []win32.Errno{win32.ERROR_DISK_FULL, win32.ERROR_CRC, win32.ERROR_IO_DEVICE, win32.ERROR_INVALID_PARAMETER} {
		if code := codeOfWin32(e); reasons[code] == "" {
			t.Errorf("%v becomes %v, which has no reason", e, code)
		}
	}
}

func TestStatusOfStatusIsUnchanged(t *testing.T) {
	if s := Status(status.Error(codes.ResourceExhausted, "full")); s.Code() != codes.ResourceExhausted || s.Message() != "full" {
		t.Errorf("Status = %v", s)
	}
}

func TestStatusMetadata(t *testing.T) {
	err := hosterr.WithHint("grow", "disk 3", win32.ERROR_WRITE_PROTECT, "clear the read-only flag")
	info := infoOf(t, Status(err))
	want := map[string]string{"op": "grow", "target": "disk 3", "win32": "19", "hint": "clear the read-only flag"}
	for k, v := range want {
		if info.Metadata[k] != v {
			t.Errorf("metadata[%q] = %q, want %q", k, info.Metadata[k], v)
		}
	}
	if info = infoOf(t, Status(errors.New("x"))); len(info.Metadata) != 0 {
		t.Errorf("metadata = %v, want none", info.Metadata)
	}
}

func TestStatusReplacesInvalidUTF8(t *testing.T) {
	s := Status(errors.New("path \xff\xfe" + strings.Repeat("€", 1<<20)))
	if len(s.Message()) > 20<<10 || !strings.HasPrefix(s.Message(), "path \uFFFD€") || infoOf(t, s).Reason != "UNKNOWN" {
		t.Errorf("message is %d bytes and starts with %q", len(s.Message()), s.Message()[:16])
	}
}

// gRPC's C core, which drivers in other languages use, accepts 8 KiB of headers, and
// gRPC sends errors in headers.
func TestLongErrorFitsIntoHeaders(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	s := Status(hosterr.WithHint("do", long, errors.New(long), "hint"))
	b, err := proto.Marshal(s.Proto())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Message()) + base64.RawStdEncoding.EncodedLen(len(b)); n > 8<<10 {
		t.Errorf("an error of 1 MiB takes %d bytes of headers, want at most 8192", n)
	}
	if len(s.Message()) < 1000 {
		t.Errorf("only %d bytes of the message are left", len(s.Message()))
	}
}
