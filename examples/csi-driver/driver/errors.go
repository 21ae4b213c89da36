package driver

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
)

// statusOf turns an error into a gRPC status. In process and through pipes the host's
// errors have the same kinds.
func statusOf(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codeOf(err), err.Error())
}

// codeOf returns the code of an error. Another hosterr.ErrNotFound is a failure of the node:
// NotFound would say that the volume does not exist.
func codeOf(err error) codes.Code {
	for _, c := range []struct {
		is   error
		code codes.Code
	}{
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{errNoVolume, codes.NotFound},
		{mounter.ErrNotMounted, codes.NotFound},
		{hosterr.ErrInvalid, codes.InvalidArgument},
		{hosterr.ErrAlreadyExists, codes.AlreadyExists},
		{hosterr.ErrPermissionDenied, codes.PermissionDenied},
		{hosterr.ErrFailedPrecondition, codes.FailedPrecondition},
		{hosterr.ErrOutOfRange, codes.OutOfRange},
		{hosterr.ErrUnavailable, codes.Unavailable},
		// The proxy on the node is too old. Unimplemented would say that this driver does
		// not have the call.
		{hosterr.ErrUnimplemented, codes.FailedPrecondition},
	} {
		if errors.Is(err, c.is) {
			return c.code
		}
	}
	return codes.Internal
}
