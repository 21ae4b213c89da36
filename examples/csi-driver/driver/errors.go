package driver

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// statusOf turns an error into a gRPC status. In process and through pipes the host's
// errors have the same kinds.
func statusOf(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codeOf(err), err.Error())
}

// codeOf returns the code of an error. The callers of the host translate
// hosterr.ErrNotFound where a missing path or disk means a missing volume. Elsewhere it
// is a failure of the node: NotFound would say that the volume does not exist.
func codeOf(err error) codes.Code {
	switch {
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, errNoVolume):
		return codes.NotFound
	case errors.Is(err, hosterr.ErrInvalid):
		return codes.InvalidArgument
	case errors.Is(err, hosterr.ErrAlreadyExists):
		return codes.AlreadyExists
	case errors.Is(err, hosterr.ErrPermissionDenied):
		return codes.PermissionDenied
	case errors.Is(err, hosterr.ErrFailedPrecondition):
		return codes.FailedPrecondition
	case errors.Is(err, hosterr.ErrOutOfRange):
		return codes.OutOfRange
	case errors.Is(err, hosterr.ErrUnavailable):
		return codes.Unavailable
	case errors.Is(err, hosterr.ErrUnimplemented):
		// The proxy on the node is too old. Unimplemented would say that this driver
		// does not have the call.
		return codes.FailedPrecondition
	}
	return codes.Internal
}
