package pipes

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unsafe"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Listen creates the named pipe with this name, with the rights of [ListenAt].
func Listen(name string) (net.Listener, error) { return ListenAt(pipe.Path(name)) }

// clientRights are FILE_GENERIC_READ and FILE_GENERIC_WRITE without
// FILE_CREATE_PIPE_INSTANCE. It is enough for a client that opens the pipe with
// GENERIC_READ and GENERIC_WRITE; see docs/develop/contract/pipes.md#rights.
const clientRights = (windows.FILE_GENERIC_READ | windows.FILE_GENERIC_WRITE) &^ createPipeInstance

// ListenAt creates the named pipe at a path, without access from other machines.
// LocalSystem and the account of this process have all rights, and administrators may
// connect, but not add an instance to the pipe, nor, as its owners, change these rights. ListenAt fails if the pipe exists: if two
// servers had the same pipe, Windows would distribute clients over both.
func ListenAt(path string) (net.Listener, error) {
	sddl, err := defaultSDDL()
	if err != nil {
		return nil, err
	}
	return listenAt(path, sddl)
}

// defaultSDDL returns the security descriptor that [ListenAt] describes.
func defaultSDDL() (string, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", fmt.Errorf("find the account of this process: %w", err)
	}
	own := fmt.Sprintf("(A;;GA;;;%s)", user.User.Sid)
	if user.User.Sid.IsWellKnown(windows.WinLocalSystemSid) {
		own = ""
	}
	return withOwnerRights(fmt.Sprintf("D:P(A;;GA;;;SY)%s(A;;%#x;;;BA)", own, clientRights)), nil
}

// ListenWith is [Listen] for pipes with another security descriptor, to which it adds
// [OwnerRights] unless it [HasOwnerRights]. It fails with
// hosterr.ErrInvalid if Windows does not accept sddl, if sddl has no access control list,
// if this process could not add instances to such a pipe, or if a group such as Everyone
// could. [OpenTo] says which of these groups may connect.
func ListenWith(sddl string) (func(name string) (net.Listener, error), error) {
	complete, err := checkSDDL(sddl)
	if err != nil {
		return nil, hosterr.TextWithHint(hosterr.ErrInvalid, sddlHint, "security descriptor %q: %w; %s", sddl, err, sddlHint)
	}
	return func(name string) (net.Listener, error) { return listenAt(pipe.Path(name), complete) }, nil
}

// sddlHint has the rights that administrators had in published versions.
const sddlHint = "give one in which the account of csi-proxy has all rights (GA), such as D:P(A;;GA;;;SY)(A;;GA;;;BA)"

// checkSDDL makes a pipe with the descriptor and adds an instance to it. It returns the descriptor
// with an entry for the owner.
func checkSDDL(sddl string) (complete string, err error) {
	sd, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return "", err
	}
	if acl, _, err := sd.DACL(); err != nil || acl == nil {
		return "", errors.New("it has no access control list, which would let everyone serve the pipe")
	}
	if groups, _ := openTo(sd.String()); groups != nil {
		return "", fmt.Errorf("with it, %s may serve the pipe in place of csi-proxy; the rights %#x let a group connect, and no more", strings.Join(groups, ", "), clientRights)
	}
	complete = sddl
	if !HasOwnerRights(sd.String()) {
		complete = withOwnerRights(sd.String())
		if sd, err = windows.SecurityDescriptorFromString(complete); err != nil {
			return "", err
		}
	}
	name, err := windows.UTF16PtrFromString(`\\.\pipe\csi-proxy-check-` + rand.Text())
	if err != nil {
		return "", err
	}
	attributes := &windows.SecurityAttributes{SecurityDescriptor: sd}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	for _, flags := range []uint32{windows.FILE_FLAG_FIRST_PIPE_INSTANCE, 0} {
		h, err := windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX|flags, windows.PIPE_REJECT_REMOTE_CLIENTS,
			windows.PIPE_UNLIMITED_INSTANCES, 0, 0, 0, attributes)
		if err != nil {
			return "", fmt.Errorf("make a pipe with it and add an instance: %w", err)
		}
		defer windows.CloseHandle(h)
	}
	return complete, nil
}

func listenAt(path, sddl string) (net.Listener, error) {
	name, err := pipe.Name(path)
	if err != nil {
		return nil, err
	}
	l, err := winio.ListenPipe(`\\.\pipe\`+name, &winio.PipeConfig{SecurityDescriptor: sddl})
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return nil, &inUseError{path, err}
	}
	if err != nil {
		return nil, err
	}
	return listener{l}, nil
}

// remedy says which process serves the pipe, and what to do.
func (e *inUseError) remedy() string {
	pid, image, err := ServerOf(e.path)
	switch {
	case err != nil:
		return fmt.Sprintf("another process serves the pipe, or has it open: stop it first, perhaps another CSI Proxy; its process cannot be determined: %v", err)
	case pid == windows.GetCurrentProcessId():
		return "this process serves the pipe already"
	}
	return fmt.Sprintf("the pipe is served by process %d (%s): stop it first", pid, image)
}

// ServerOf returns the process that serves the pipe at a path, and its program if that
// can be read. It connects to the pipe as a client that the server cannot impersonate.
func ServerOf(path string) (pid uint32, image string, err error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, "", err
	}
	h, err := windows.CreateFile(name, windows.FILE_READ_ATTRIBUTES, 0, nil, windows.OPEN_EXISTING, windows.SECURITY_SQOS_PRESENT|windows.SECURITY_ANONYMOUS, 0)
	if err != nil {
		return 0, "", err
	}
	defer windows.CloseHandle(h)
	if err := windows.GetNamedPipeServerProcessId(h, &pid); err != nil {
		return 0, "", err
	}
	return pid, ProgramOf(pid), nil
}

// ClientOf returns the process that connected to a named pipe.
func ClientOf(c net.Conn) (pid uint32, ok bool) {
	p, ok := c.(interface{ Fd() uintptr })
	if !ok {
		return 0, false
	}
	err := windows.GetNamedPipeClientProcessId(windows.Handle(p.Fd()), &pid)
	return pid, err == nil
}

// ProgramOf returns the path of the program that a process runs. In a container that may be on a
// volume without a drive letter: then it is the name in the namespace of NT.
func ProgramOf(pid uint32) string {
	p, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return UnknownProgram
	}
	defer windows.CloseHandle(p)
	path := make([]uint16, windows.MAX_LONG_PATH)
	const native = 1 // PROCESS_NAME_NATIVE
	for _, format := range []uint32{0, native} {
		size := uint32(len(path))
		if windows.QueryFullProcessImageName(p, format, &path[0], &size) == nil {
			return windows.UTF16ToString(path[:size])
		}
	}
	return UnknownProgram
}

// listener is a pipe with a reliable Close.
type listener struct{ net.Listener }

// Close closes the pipe. In go-winio v0.6.2, a client that connects and disconnects
// during Close makes Close wait forever: listenerRoutine gets ERROR_NO_DATA, loses
// the request to close and connects the instance again. Published clients connect
// and disconnect to see whether a server exists. So Close repeats the request until
// it succeeds. Observed under Wine.
//
// go-winio v0.6.4 fixes this, and our programs link it. It needs Go 1.26, which this
// module may not require, so a driver that links this package can still have v0.6.2.
func (l listener) Close() error {
	closed := make(chan error, 1)
	for {
		go func() {
			err := l.Listener.Close()
			select {
			case closed <- err:
			default:
			}
		}()
		select {
		case err := <-closed:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
