package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Error is every error of this package. Its text is the proxy's own if the
// proxy answered, and names the pipe if not. What it is, errors.Is tells; the
// fields are for logs and people. They are empty if the proxy did not answer,
// or is one that adds no details to its texts.
type Error struct {
	Op     string // what the proxy was doing, "format volume"
	Target string // to what, "disk 3"
	Hint   string // what to do about it

	// Reason is the name of the Win32 error, "ERROR_ACCESS_DENIED", or else of
	// the gRPC code, "NOT_FOUND".
	Reason string

	text   string
	causes []error
}

// Error is the text.
func (e *Error) Error() string { return e.text }

// Unwrap lists what the error is besides an Error.
func (e *Error) Unwrap() []error { return e.causes }

// What the daemon puts into the ErrorInfo of a failure.
const (
	errorDomain = "csi-proxy"

	metaOp     = "op"
	metaTarget = "target"
	metaWin32  = "win32" // decimal
	metaHint   = "hint"
)

// causesOf is what errors of a code are, beside their Win32 number. Codes that
// are not here stand for no kind.
func causesOf(code codes.Code) []error {
	switch code {
	case codes.InvalidArgument:
		return []error{hosterr.ErrInvalid}
	case codes.NotFound:
		return []error{hosterr.ErrNotFound}
	case codes.AlreadyExists:
		return []error{hosterr.ErrAlreadyExists}
	case codes.PermissionDenied:
		return []error{hosterr.ErrPermissionDenied}
	case codes.FailedPrecondition:
		return []error{hosterr.ErrFailedPrecondition}
	case codes.OutOfRange:
		return []error{hosterr.ErrOutOfRange}
	case codes.Unavailable:
		return []error{hosterr.ErrUnavailable}
	case codes.Unimplemented:
		return []error{hosterr.ErrUnimplemented, errors.ErrUnsupported}
	case codes.Canceled:
		return []error{context.Canceled}
	case codes.DeadlineExceeded:
		return []error{context.DeadlineExceeded}
	}
	return nil
}

// failed is the error of a call for which gRPC returned err.
func (c *connection) failed(ctx context.Context, method string, in proto.Message, err error) error {
	s := status.Convert(err)
	e := &Error{text: s.Message(), causes: causesOf(s.Code())}
	if info := infoOf(s); info != nil {
		e.tell(info)
		return e
	}
	// Either gRPC itself failed, here or there, or a proxy answered that adds no
	// details. Such a one answers Unknown, or what its policy says; the codes
	// below are gRPC's.
	about := c.api() + " " + method + ": "
	switch s.Code() {
	case codes.Unavailable:
		e.text = about + "no answer from " + c.at + ": " + s.Message()
	case codes.Unimplemented:
		e.text = about + "the CSI Proxy at " + c.at + " does not have this method: " + s.Message()
	case codes.DeadlineExceeded:
		e.text = about + s.Message()
	case codes.Canceled:
		if ctx.Err() == nil {
			// This is what gRPC answers once a connection is closed on this side.
			e.text = about + "the connection to " + c.at + " was closed: " + s.Message()
			e.causes = []error{net.ErrClosed}
			break
		}
		e.text = about + s.Message()
	case codes.Internal, codes.ResourceExhausted:
		if field := badText(in.ProtoReflect()); field != "" {
			e.text = about + "field " + field + " of the request is not valid UTF-8, as every text of the API must be"
			e.causes = []error{hosterr.ErrInvalid}
			break
		}
		if n := proto.Size(in); s.Code() == codes.ResourceExhausted && n > largeRequest {
			e.text = fmt.Sprintf("%sthe request has %d bytes, more than the CSI Proxy at %s takes: %s", about, n, c.at, s.Message())
			e.causes = []error{hosterr.ErrInvalid}
			break
		}
		e.text = about + "the call through " + c.at + " failed: " + s.Message()
	}
	return e
}

// largeRequest is more than any request has whose texts Windows could use, in
// bytes. gRPC says of one that is too large for the server what it says of an
// answer that is too large for the client.
const largeRequest = 32 << 10

// infoOf is what the proxy says of a failure for programs, or nil.
func infoOf(s *status.Status) *errdetails.ErrorInfo {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.Domain == errorDomain {
			return info
		}
	}
	return nil
}

// tell adds what the proxy says of the failure.
func (e *Error) tell(info *errdetails.ErrorInfo) {
	e.Op, e.Target, e.Hint = info.Metadata[metaOp], info.Metadata[metaTarget], info.Metadata[metaHint]
	e.Reason = info.Reason
	if n, err := strconv.ParseUint(info.Metadata[metaWin32], 10, 32); err == nil {
		e.causes = append(e.causes, win32.Errno(n))
	}
	if e.Op != "" {
		// For those that ask for what was being done as they do in process.
		said := hosterr.Error{Op: e.Op, Target: e.Target, Err: errors.New("")}
		reason := errors.New(strings.TrimPrefix(e.text, said.Error()))
		e.causes = append(e.causes, hosterr.WithHint(e.Op, e.Target, reason, e.Hint))
	}
}

// advise adds a hint, for those too that ask for it as they do in process.
func (e *Error) advise(op, target, hint string) {
	if hint != "" {
		e.Hint = hint
		e.causes = append(e.causes, hosterr.WithHint(op, target, errors.New(e.text), hint))
	}
}

// lacks is the error for what the version that is spoken cannot say. Nothing is
// asked of the proxy.
func (c *connection) lacks(what string) error {
	e := &Error{
		text:   fmt.Sprintf("%s %s: version %s of the %s API, the newest at hand, does not have it", c.api(), what, c.version, c.group),
		causes: []error{hosterr.ErrUnimplemented, errors.ErrUnsupported},
	}
	e.advise("call", c.api()+" "+what, "upgrade the CSI Proxy of this node, or mount the pipes of newer versions")
	return e
}

// unpublished is the error for a method that no published version of a group's
// API has.
func unpublished(group, method, hint string) error {
	e := &Error{
		text:   fmt.Sprintf("%s cannot be called through a pipe: no published version of the %s API has this method", method, group),
		causes: []error{hosterr.ErrUnimplemented, errors.ErrUnsupported},
	}
	e.advise("call", method, hint)
	return e
}

// wrongVersion is the error of an option that cannot be followed.
func wrongVersion(format string, args ...any) error {
	return &Error{text: fmt.Sprintf(format, args...), causes: []error{hosterr.ErrInvalid}}
}

// nonsense is the error for an answer that cannot be what it should be.
func (c *connection) nonsense(method, what string, err error) error {
	return &Error{text: fmt.Sprintf("%s %s: the answer has something else than %s: %v", c.api(), method, what, err), causes: []error{err}}
}

// notConnected is the error of a constructor.
func notConnected(err error) error {
	e := &Error{text: err.Error(), causes: []error{err}}
	for _, k := range []struct {
		reason error
		kinds  []error
		hint   string
	}{
		{negotiate.ErrNotRunning, []error{hosterr.ErrUnavailable}, "install and start CSI Proxy on this node, and mount its pipes into the container"},
		{negotiate.ErrBusy, []error{hosterr.ErrUnavailable}, ""},
		{negotiate.ErrTooOld, []error{hosterr.ErrUnimplemented, errors.ErrUnsupported}, "upgrade the CSI Proxy of this node"},
		{negotiate.ErrNotServed, []error{hosterr.ErrUnimplemented, errors.ErrUnsupported}, "enable the group, and mount its pipes into the container"},
		{negotiate.ErrAccessDenied, []error{hosterr.ErrPermissionDenied}, "run the driver as an account that may open the pipes"},
	} {
		if errors.Is(err, k.reason) {
			e.causes = append(e.causes, k.kinds...)
			e.advise("connect to", "the CSI Proxy", k.hint)
		}
	}
	return e
}

// noRequest is the error for a nil request, the same as in process.
func noRequest(method string) error {
	return &Error{text: method + ": the request is nil", causes: []error{hosterr.ErrInvalid}}
}

// badText names the first text of m that is not UTF-8, or is "". The text is
// not told: it may be a secret.
func badText(m protoreflect.Message) (name string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList() || f.IsMap():
			// No request has any.
		case f.Kind() == protoreflect.StringKind && !utf8.ValidString(v.String()):
			name = string(f.Name())
		case f.Message() != nil:
			name = badText(v.Message())
		}
		return name == ""
	})
	return name
}
