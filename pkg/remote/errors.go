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

// Error is the type of all errors of this package. Its text is the proxy's if the proxy
// responded, and names the pipe otherwise. Use errors.Is to check what it is. The fields are
// for logs and messages. They are empty if the proxy did not respond or sends no details.
type Error struct {
	Op     string // the operation, such as "format volume"
	Target string // what it was done to, such as "disk 3"
	Hint   string // what the user can do

	// Reason is the name of the Win32 error, such as "ERROR_ACCESS_DENIED", or of the gRPC
	// code, such as "NOT_FOUND".
	Reason string

	text   string
	causes []error
}

// Error returns the text.
func (e *Error) Error() string { return e.text }

// Unwrap returns the errors that this one matches.
func (e *Error) Unwrap() []error { return e.causes }

// The keys and domain of the ErrorInfo that the daemon sends with an error.
const (
	errorDomain = "csi-proxy"

	metaOp     = "op"
	metaTarget = "target"
	metaWin32  = "win32" // decimal
	metaHint   = "hint"
)

// causesOf returns the errors that a code stands for. Other codes have no kind.
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

// failed returns the error of a call that failed with err in gRPC.
func (c *connection) failed(ctx context.Context, method string, in proto.Message, err error) error {
	s := status.Convert(err)
	e := &Error{text: s.Message(), causes: causesOf(s.Code())}
	if info := infoOf(s); info != nil {
		e.addDetails(info)
		return e
	}
	// Either gRPC itself failed, in the client or the server, or the proxy sends no
	// details. Such a proxy returns Unknown, or a code of its policy. The codes below are
	// those of gRPC.
	about := c.api() + " " + method + ": "
	switch s.Code() {
	case codes.Unavailable:
		e.text = about + "no response from " + c.at + ": " + s.Message()
	case codes.Unimplemented:
		e.text = about + "the CSI Proxy at " + c.at + " does not have this method: " + s.Message()
	case codes.DeadlineExceeded:
		e.text = about + s.Message()
	case codes.Canceled:
		if ctx.Err() == nil {
			// gRPC returns this code after the client has closed the connection.
			e.text = about + "the connection to " + c.at + " was closed: " + s.Message()
			e.causes = []error{net.ErrClosed}
			break
		}
		e.text = about + s.Message()
	case codes.Internal, codes.ResourceExhausted:
		if field := badText(in.ProtoReflect()); field != "" {
			e.text = about + "field " + field + " of the request is not valid UTF-8"
			e.causes = []error{hosterr.ErrInvalid}
			break
		}
		if n := proto.Size(in); s.Code() == codes.ResourceExhausted && n > largeRequest {
			e.text = fmt.Sprintf("%sthe request has %d bytes, which is too large for the CSI Proxy at %s: %s", about, n, c.at, s.Message())
			e.causes = []error{hosterr.ErrInvalid}
			break
		}
		e.text = about + "the call through " + c.at + " failed: " + s.Message()
	}
	return e
}

// largeRequest is larger than any request with paths and names that Windows could use, in
// bytes. gRPC returns the same code for a request that is too large for the server and for
// a response that is too large for the client.
const largeRequest = 32 << 10

// infoOf returns the details that the proxy sent with an error, or nil.
func infoOf(s *status.Status) *errdetails.ErrorInfo {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.Domain == errorDomain {
			return info
		}
	}
	return nil
}

// addDetails adds the details that the proxy sent.
func (e *Error) addDetails(info *errdetails.ErrorInfo) {
	e.Op, e.Target, e.Hint = info.Metadata[metaOp], info.Metadata[metaTarget], info.Metadata[metaHint]
	e.Reason = info.Reason
	if n, err := strconv.ParseUint(info.Metadata[metaWin32], 10, 32); err == nil {
		e.causes = append(e.causes, win32.Errno(n))
	}
	if e.Op != "" {
		// For callers that look for a hosterr.Error, as in process.
		prefix := hosterr.Error{Op: e.Op, Target: e.Target, Err: errors.New("")}
		reason := errors.New(strings.TrimPrefix(e.text, prefix.Error()))
		e.causes = append(e.causes, hosterr.WithHint(e.Op, e.Target, reason, e.Hint))
	}
}

// addHint adds a hint, also for callers that use [hosterr.HintOf].
func (e *Error) addHint(op, target, hint string) {
	if hint != "" {
		e.Hint = hint
		e.causes = append(e.causes, hosterr.WithHint(op, target, errors.New(e.text), hint))
	}
}

// lacks returns the error for a method that the version does not have. The proxy is not called.
func (c *connection) lacks(what string) error {
	e := &Error{
		text:   fmt.Sprintf("%s %s: version %s of the %s API, the newest that is served, does not have this method", c.api(), what, c.version, c.group),
		causes: []error{hosterr.ErrUnimplemented, errors.ErrUnsupported},
	}
	e.addHint("call", c.api()+" "+what, "upgrade the CSI Proxy of this node, or mount the pipes of newer versions")
	return e
}

// lacksField returns the error for a request with a field that the version does not have. The
// proxy is not called, because without the field the request would mean something else.
func (c *connection) lacksField(method, field string) error {
	e := &Error{
		text:   fmt.Sprintf("%s %s: version %s of the %s API, the newest that is served, does not have the field %s of the request", c.api(), method, c.version, c.group, field),
		causes: []error{hosterr.ErrUnimplemented, errors.ErrUnsupported},
	}
	e.addHint("call", c.api()+" "+method, "upgrade the CSI Proxy of this node, or mount the pipes of newer versions; or do without the field")
	return e
}

// unpublished returns the error for a method that no published version of a group's API has.
func unpublished(group, method, hint string) error {
	e := &Error{
		text:   fmt.Sprintf("%s cannot be called through a pipe: no published version of the %s API has this method", method, group),
		causes: []error{hosterr.ErrUnimplemented, errors.ErrUnsupported},
	}
	e.addHint("call", method, hint)
	return e
}

// badResponse returns the error for a malformed response.
func (c *connection) badResponse(method, what string, err error) error {
	return &Error{text: fmt.Sprintf("%s %s: the response does not contain %s: %v", c.api(), method, what, err), causes: []error{err}}
}

// notConnected returns the error of a constructor.
func notConnected(err error) error {
	e := &Error{text: err.Error(), causes: []error{err}}
	for _, k := range []struct {
		reason error
		kinds  []error
		hint   string
	}{
		{negotiate.ErrNotRunning, []error{hosterr.ErrUnavailable}, "install and start CSI Proxy on this node, and mount its pipes into the container"},
		{negotiate.ErrBusy, []error{hosterr.ErrUnavailable}, ""},
		{negotiate.ErrStopping, []error{hosterr.ErrUnavailable}, ""},
		{negotiate.ErrTooOld, []error{hosterr.ErrUnimplemented, errors.ErrUnsupported}, "upgrade the CSI Proxy of this node"},
		{negotiate.ErrNotServed, []error{hosterr.ErrUnimplemented, errors.ErrUnsupported}, "enable the group, and mount its pipes into the container"},
		{negotiate.ErrAccessDenied, []error{hosterr.ErrPermissionDenied}, "run the driver as an account that may open the pipes"},
	} {
		if errors.Is(err, k.reason) {
			e.causes = append(e.causes, k.kinds...)
			e.addHint("connect to", "the CSI Proxy", k.hint)
		}
	}
	return e
}

// noRequest returns the error for a nil request, with the same text as in process.
func noRequest(method string) error {
	return &Error{text: method + ": the request is nil", causes: []error{hosterr.ErrInvalid}}
}

// badText returns the name of the first field of m that is not valid UTF-8, or "". It does not
// return the text, which may be a secret.
func badText(m protoreflect.Message) (name string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList(): // no request has a list of messages
			for i := range v.List().Len() {
				if !utf8.ValidString(v.List().Get(i).String()) {
					name = string(f.Name())
				}
			}
		case f.Kind() == protoreflect.StringKind && !utf8.ValidString(v.String()):
			name = string(f.Name())
		case f.Message() != nil:
			name = badText(v.Message())
		}
		return name == ""
	})
	return name
}
