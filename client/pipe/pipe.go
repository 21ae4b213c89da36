// Package pipe defines the paths on which a CSI Proxy listens, and connects to
// them.
//
// On Windows, each group and version of the API has a named pipe. Other systems
// have no named pipes; there, each pipe is replaced by a unix socket with the same
// name:
//
//	\\.\pipe\csi-proxy-disk-v1  →  <directory>/csi-proxy-disk-v1.sock
//
// The environment variable CSI_PROXY_DIR sets the directory. The default is
// /run/csi-proxy for root and $XDG_RUNTIME_DIR/csi-proxy for other users. Server
// and client both call [SocketPath], so they use the same socket if they run as
// the same user or have the same CSI_PROXY_DIR.
//
// Programs use the Windows path of a pipe on every system.
package pipe

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// DirVariable is the environment variable that names the directory of the
// sockets.
const DirVariable = "CSI_PROXY_DIR"

// MaxSocketPath is the maximum length of the path of a unix socket on this system,
// in bytes. It is one less than the size of the path in the address structure (108
// on Linux and Windows), which also holds the NUL at the end.
const MaxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// Path returns the path of the named pipe with a name, such as
// csi-proxy-disk-v1. Its separators are doubled, as in all published versions of
// this module; Windows accepts that.
func Path(name string) string {
	return `\\.\\pipe\\` + name
}

// pipePath matches the path of a named pipe on the local machine, with single or
// doubled separators.
var pipePath = regexp.MustCompile(`^\\\\\.\\{1,2}(?i:pipe)\\{1,2}([^\\/[:cntrl:]]+)$`)

// Name returns the name of the pipe at a path. It accepts paths as returned by
// [Path], and with single separators: \\.\pipe\csi-proxy-disk-v1.
func Name(path string) (string, error) {
	m := pipePath.FindStringSubmatch(path)
	if m == nil {
		return "", fmt.Errorf(`%q is not the path of a named pipe: want \\.\pipe\NAME`, path)
	}
	return m[1], nil
}

// SocketDir returns the directory of the sockets. It need not exist.
func SocketDir() (string, error) {
	if dir := os.Getenv(DirVariable); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("%s is %q: want an absolute path", DirVariable, dir)
		}
		return filepath.Clean(dir), nil
	}
	if os.Geteuid() == 0 {
		return "/run/csi-proxy", nil
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return "", fmt.Errorf("no directory for the sockets: set %s or XDG_RUNTIME_DIR (only root has a default directory)", DirVariable)
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("XDG_RUNTIME_DIR is %q: want an absolute path", dir)
	}
	return filepath.Join(dir, "csi-proxy"), nil
}

// SocketPath returns the path of the unix socket that replaces a named pipe. The
// absolute path of a socket is returned unchanged. A path that is too long for a
// socket is an error.
func SocketPath(path string) (string, error) {
	socket := path
	if !strings.HasPrefix(path, "/") {
		name, err := Name(path)
		if err != nil {
			return "", fmt.Errorf("%w, or the absolute path of a unix socket", err)
		}
		dir, err := SocketDir()
		if err != nil {
			return "", err
		}
		socket = filepath.Join(dir, name+".sock")
	}
	if strings.ContainsRune(socket, 0) {
		return "", fmt.Errorf("path %q contains a NUL", socket)
	}
	if n := len(socket); n > MaxSocketPath {
		return "", fmt.Errorf("path %q has %d bytes, but the path of a unix socket may have at most %d on this system; set %s to a shorter directory",
			socket, n, MaxSocketPath, DirVariable)
	}
	return socket, nil
}
