package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"unsafe"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

// Dial connects to a named pipe. While all instances of the pipe are busy it
// waits until ctx is done. If the pipe does not exist, the error is an
// [fs.ErrNotExist] that names the path. If no instance became free in time, it is
// [winio.ErrTimeout], which winio.DialPipe also returns.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	conn, err := winio.DialPipeContext(ctx, path)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, winio.ErrTimeout
	}
	return conn, err
}

// DialTrusted is [Dial] for a pipe that only LocalSystem, administrators or this account
// may own: the server of any other pipe could be a program that has taken the name. It fails
// with an [OwnerError] for another owner. If the environment variable CSI_PROXY_PIPE_OWNER
// is "any", it is [Dial].
func DialTrusted(ctx context.Context, path string) (net.Conn, error) {
	conn, err := Dial(ctx, path)
	if err != nil || os.Getenv(OwnerVariable) == "any" {
		return conn, err
	}
	if err := checkOwner(conn, path); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// checkOwner reads the owner from the open pipe, so that it is that of the server which
// gets the calls.
func checkOwner(conn net.Conn, path string) error {
	p, ok := conn.(interface{ Fd() uintptr })
	if !ok {
		return fmt.Errorf("find the owner of %q: %T has no handle", path, conn)
	}
	sd, err := windows.GetSecurityInfo(windows.Handle(p.Fd()), windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("find the owner of %q: %w", path, err)
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return fmt.Errorf("find the owner of %q: %w", path, err)
	}
	token := windows.GetCurrentProcessToken()
	user, err := token.GetTokenUser()
	if err != nil {
		return fmt.Errorf("find the account of this process: %w", err)
	}
	// The owner of what this process makes: its account or, under Wine, its group.
	var usual struct {
		owner *windows.SID
		sid   [68]byte // SECURITY_MAX_SID_SIZE
	}
	size := uint32(unsafe.Sizeof(usual))
	if err := windows.GetTokenInformation(token, windows.TokenOwner, (*byte)(unsafe.Pointer(&usual)), size, &size); err != nil {
		return fmt.Errorf("find the default owner of this process: %w", err)
	}
	if trusted(owner, user.User.Sid, usual.owner) {
		return nil
	}
	return &OwnerError{Path: path, Owner: owner.String()}
}

// trusted reports whether a pipe of this owner is used by a process with these SIDs.
func trusted(owner *windows.SID, own ...*windows.SID) bool {
	return owner != nil && (owner.IsWellKnown(windows.WinLocalSystemSid) || owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) || slices.ContainsFunc(own, owner.Equals))
}
