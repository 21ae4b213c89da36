package apiserver

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// Listen creates the named pipe with this name.
func Listen(name string) (net.Listener, error) { return ListenAt(pipe.Path(name)) }

// ListenAt creates the named pipe at a path, with the default access rights of
// Windows and without access from other machines. It fails if the pipe exists: if
// two servers had the same pipe, Windows would distribute clients over both.
func ListenAt(path string) (net.Listener, error) {
	name, err := pipe.Name(path)
	if err != nil {
		return nil, err
	}
	l, err := winio.ListenPipe(`\\.\pipe\`+name, nil)
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
	pid, image, err := serverOf(e.path)
	switch {
	case err != nil:
		return fmt.Sprintf("another process serves the pipe, or has it open: stop it first, perhaps another CSI Proxy; its process cannot be determined: %v", err)
	case pid == windows.GetCurrentProcessId():
		return "this process serves the pipe already"
	}
	return fmt.Sprintf("the pipe is served by process %d (%s): stop it first", pid, image)
}

// serverOf returns the process that serves a pipe, and the path of its program if that
// can be read. It connects to the pipe as a client that the server cannot impersonate.
func serverOf(path string) (pid uint32, image string, err error) {
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
	return pid, imageOf(pid), nil
}

// imageOf returns the path of the program that a process runs.
func imageOf(pid uint32) string {
	const unknown = "its program cannot be determined"
	p, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return unknown
	}
	defer windows.CloseHandle(p)
	path := make([]uint16, windows.MAX_LONG_PATH)
	size := uint32(len(path))
	if err := windows.QueryFullProcessImageName(p, 0, &path[0], &size); err != nil {
		return unknown
	}
	return windows.UTF16ToString(path)
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
