package failure

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// ErrorDomain is the domain of the ErrorInfo that every failure carries.
const ErrorDomain = "csi-proxy"

// The keys of ErrorInfo's metadata. A key without a value is omitted.
const (
	MetaOp     = "op"     // the operation, "format volume"
	MetaTarget = "target" // its target, "disk 3"
	MetaWin32  = "win32"  // the Win32 error number, "5"
	MetaHint   = "hint"   // what to do about the error
)

// Status is the only place where an error becomes a gRPC status. The message is
// the unchanged text of the error, because drivers match on some texts. The code
// is that of the error's kind; if it has no kind, that of its Win32 number;
// otherwise Unknown, which published versions return for all errors. ErrorInfo
// has the same information for programs: its reason is the name of the Win32 error
// if there is one, otherwise the name of the code.
func Status(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s
	}
	code := codeOf(err)
	reason := reasons[code]
	meta := map[string]string{}
	put := func(key, value string) {
		if value != "" {
			meta[key] = Limited(value)
		}
	}
	var op *hosterr.Error
	if errors.As(err, &op) {
		put(MetaOp, op.Op)
		put(MetaTarget, op.Target)
	}
	if e, ok := win32.Code(err); ok {
		put(MetaWin32, strconv.FormatUint(uint64(e), 10))
		if name := e.Name(); strings.HasPrefix(name, "ERROR_") {
			reason = name
		}
	}
	if i := win32.ISCSIStatus(0); errors.As(err, &i) && !strings.Contains(i.Name(), "0x") {
		reason = i.Name()
	}
	hint := hosterr.HintOf(err)
	if hint == "" && win32.IsCode(err, win32.DiskFailures()...) {
		hint = "the disk or the way to it fails: look at its health in the storage system and at the System event log of the node"
	}
	put(MetaHint, hint)

	s := status.New(code, Limited(err.Error()))
	detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: ErrorDomain, Metadata: meta})
	if err != nil {
		// This happens only for OK and for text that is not UTF-8; neither is
		// possible here.
		return s
	}
	return detailed
}

// Limited returns s as valid UTF-8, cut to a length that gRPC can send. gRPC sends
// an error twice in its headers, and its C core accepts only 8 KiB of headers. A
// request may contain a path of 64 KiB, and an error may quote it.
func Limited(s string) string {
	const most = 2 << 10
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// codeOf returns the code of an error that is not a gRPC status.
func codeOf(err error) codes.Code {
	if p := (*node.PanicError)(nil); errors.As(err, &p) {
		return codes.Internal
	}
	if b := (*BusyError)(nil); errors.As(err, &b) {
		return codes.ResourceExhausted
	}
	switch hosterr.KindOf(node.Typed(err)) {
	case hosterr.ErrInvalid:
		return codes.InvalidArgument
	case hosterr.ErrNotFound:
		return codes.NotFound
	case hosterr.ErrAlreadyExists:
		return codes.AlreadyExists
	case hosterr.ErrPermissionDenied:
		return codes.PermissionDenied
	case hosterr.ErrFailedPrecondition:
		return codes.FailedPrecondition
	case hosterr.ErrOutOfRange:
		return codes.OutOfRange
	case hosterr.ErrUnavailable:
		return codes.Unavailable
	case hosterr.ErrUnimplemented:
		return codes.Unimplemented
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	if e, ok := win32.Code(err); ok {
		return codeOfWin32(e)
	}
	return codes.Unknown
}

// codeOfWin32 returns the code of a Win32 error that has no kind; node.Typed
// assigns the kinds.
func codeOfWin32(e win32.Errno) codes.Code {
	switch {
	case e == win32.ERROR_DISK_FULL, e == win32.ERROR_NO_SYSTEM_RESOURCES:
		return codes.ResourceExhausted
	case e == win32.ERROR_IO_DEVICE, e == win32.ERROR_GEN_FAILURE: // which may also be of the driver
		return codes.Internal
	case e == win32.ERROR_FILE_CORRUPT, e == win32.ERROR_DISK_CORRUPT, slices.Contains(win32.DiskFailures(), e):
		return codes.DataLoss
	}
	return codes.Unknown
}

// reasons are the names of the codes in the spelling of ErrorInfo.
var reasons = map[codes.Code]string{
	codes.Canceled:           "CANCELED",
	codes.Unknown:            "UNKNOWN",
	codes.InvalidArgument:    "INVALID_ARGUMENT",
	codes.DeadlineExceeded:   "DEADLINE_EXCEEDED",
	codes.NotFound:           "NOT_FOUND",
	codes.AlreadyExists:      "ALREADY_EXISTS",
	codes.PermissionDenied:   "PERMISSION_DENIED",
	codes.ResourceExhausted:  "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION",
	codes.OutOfRange:         "OUT_OF_RANGE",
	codes.Unimplemented:      "UNIMPLEMENTED",
	codes.Internal:           "INTERNAL",
	codes.Unavailable:        "UNAVAILABLE",
	codes.DataLoss:           "DATA_LOSS",
}
