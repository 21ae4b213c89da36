package node

import (
	"context"
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Typed gives err the kind that its Windows error number or errors.ErrUnsupported
// stands for. It leaves the text of err alone, and does not change an error that
// has a kind already or is the end of a context. Only this function judges those
// numbers, so an error has the same kind in process and through a pipe.
func Typed(err error) error {
	if err == nil || hosterr.KindOf(err) != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var kind error
	switch code, ok := win32.Code(err); {
	case errors.Is(err, win32.STATUS_FILE_DELETED): // Win32 has only ERROR_ACCESS_DENIED for this and the next
		kind = hosterr.ErrNotFound
	case errors.Is(err, win32.STATUS_DELETE_PENDING):
		kind = hosterr.ErrUnavailable
	case ok:
		kind = kindOf(code)
	case errors.Is(err, errors.ErrUnsupported):
		kind = hosterr.ErrUnimplemented
	}
	if kind == nil {
		return err
	}
	return hosterr.Text(kind, "%w", err)
}

// kindOf returns the kind of a Windows error that no host has given one, or nil if
// the number alone does not determine it. ERROR_INVALID_PARAMETER and the like are
// not the caller's invalid argument: this proxy chose the parameters.
func kindOf(code win32.Errno) error {
	switch code {
	case win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_INVALID_DRIVE, win32.ERROR_NO_SUCH_DEVICE,
		win32.ERROR_DEVICE_NOT_CONNECTED, win32.ERROR_NOT_FOUND, win32.ERROR_BAD_NET_NAME, win32.ERROR_NOT_CONNECTED:
		return hosterr.ErrNotFound
	case win32.ERROR_FILE_EXISTS, win32.ERROR_ALREADY_EXISTS, win32.ERROR_ALREADY_ASSIGNED:
		return hosterr.ErrAlreadyExists
	case win32.ERROR_ACCESS_DENIED, win32.ERROR_PRIVILEGE_NOT_HELD, win32.ERROR_LOGON_FAILURE, win32.ERROR_INVALID_PASSWORD, win32.ERROR_NO_SUCH_LOGON_SESSION,
		win32.ERROR_ACCOUNT_RESTRICTION, win32.ERROR_PASSWORD_EXPIRED, win32.ERROR_ACCOUNT_DISABLED, win32.ERROR_PASSWORD_MUST_CHANGE, win32.ERROR_ACCOUNT_LOCKED_OUT:
		return hosterr.ErrPermissionDenied
	case win32.ERROR_INVALID_NAME, win32.ERROR_BAD_PATHNAME, win32.ERROR_FILENAME_EXCED_RANGE:
		return hosterr.ErrInvalid
	case win32.ERROR_WRITE_PROTECT, win32.ERROR_DIR_NOT_EMPTY, win32.ERROR_DIRECTORY, win32.ERROR_UNRECOGNIZED_VOLUME,
		win32.ERROR_NOT_A_REPARSE_POINT, win32.ERROR_REPARSE_POINT_ENCOUNTERED, win32.ERROR_SYMLINK_CLASS_DISABLED,
		win32.ERROR_CANT_RESOLVE_FILENAME, win32.ERROR_INVALID_REPARSE_DATA, win32.ERROR_SESSION_CREDENTIAL_CONFLICT,
		win32.ERROR_NETWORK_ACCESS_DENIED, win32.NERR_WkstaNotStarted:
		return hosterr.ErrFailedPrecondition
	case win32.ERROR_SHARING_VIOLATION, win32.ERROR_BUSY, win32.ERROR_NOT_READY, win32.ERROR_DELETE_PENDING,
		win32.ERROR_BAD_NETPATH, win32.ERROR_NETWORK_UNREACHABLE, win32.ERROR_NETNAME_DELETED,
		win32.ERROR_UNEXP_NET_ERR, win32.ERROR_TIMEOUT, win32.ERROR_REM_NOT_LIST, win32.ERROR_SEM_TIMEOUT,
		win32.ERROR_CONNECTION_REFUSED, win32.ERROR_HOST_UNREACHABLE, win32.ERROR_NO_LOGON_SERVERS, win32.ERROR_NOT_ENOUGH_SERVER_MEMORY: // the server may respond later
		return hosterr.ErrUnavailable
	case win32.ERROR_NOT_SUPPORTED: // this Windows lacks the function
		return hosterr.ErrUnimplemented
	}
	return nil
}
