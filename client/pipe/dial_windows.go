package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"github.com/Microsoft/go-winio"
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
	owner, err := ownerOf(syscall.Handle(p.Fd()))
	if err != nil {
		return fmt.Errorf("find the owner of %q: %w", path, err)
	}
	own, err := ownSIDs()
	if err != nil {
		return fmt.Errorf("find the account of this process: %w", err)
	}
	if trusted(owner, own...) {
		return nil
	}
	return &OwnerError{Path: path, Owner: owner}
}

// ownerOf returns the SID of the owner of an open pipe.
func ownerOf(h syscall.Handle) (string, error) {
	const kernelObject, ownerInformation = 6, 1 // SE_KERNEL_OBJECT, OWNER_SECURITY_INFORMATION
	var owner *syscall.SID
	var descriptor syscall.Handle
	getSecurityInfo := syscall.NewLazyDLL("advapi32.dll").NewProc("GetSecurityInfo") // one of the DLLs that Windows always loads from its own directory
	if err := getSecurityInfo.Find(); err != nil {
		return "", err // a call would panic
	}
	code, _, _ := getSecurityInfo.Call(uintptr(h), kernelObject, ownerInformation,
		uintptr(unsafe.Pointer(&owner)), 0, 0, 0, uintptr(unsafe.Pointer(&descriptor)))
	if code != 0 {
		return "", syscall.Errno(code)
	}
	defer syscall.LocalFree(descriptor)
	if owner == nil {
		return "", errors.New("it has none")
	}
	return owner.String()
}

// ownSIDs returns the account of this process, and the owner of what it makes: the same
// or, under Wine, its group.
func ownSIDs() ([]string, error) {
	token, err := syscall.OpenCurrentProcessToken()
	if err != nil {
		return nil, err
	}
	defer token.Close()
	user, err := token.GetTokenUser()
	if err != nil {
		return nil, err
	}
	account, err := user.User.Sid.String()
	if err != nil {
		return nil, err
	}
	var usual struct {
		owner *syscall.SID
		sid   [68]byte // SECURITY_MAX_SID_SIZE
	}
	size := uint32(unsafe.Sizeof(usual))
	if err := syscall.GetTokenInformation(token, syscall.TokenOwner, (*byte)(unsafe.Pointer(&usual)), size, &size); err != nil {
		return nil, err
	}
	owner, err := usual.owner.String()
	return []string{account, owner}, err
}

// trusted reports whether a pipe of this owner is used by a process with these SIDs.
func trusted(owner string, own ...string) bool {
	const localSystem, administrators = "S-1-5-18", "S-1-5-32-544"
	return owner == localSystem || owner == administrators || slices.Contains(own, owner)
}
