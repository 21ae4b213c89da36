// Package pipe knows where a CSI Proxy listens, and connects to it.
//
// On Windows that is a named pipe for each group and version of the API. On
// other systems there are no such pipes, and a unix socket of the same name
// stands in for each of them:
//
//	\\.\pipe\csi-proxy-disk-v1  →  <directory>/csi-proxy-disk-v1.sock
//
// The directory is the environment variable CSI_PROXY_DIR; if that is not set,
// /run/csi-proxy for root and $XDG_RUNTIME_DIR/csi-proxy for anybody else.
// Server and client both ask [SocketPath], so they agree as long as they run
// as the same user or are given the same directory.
//
// Programs name pipes by their Windows path on every system.
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

// MaxSocketPath is how many bytes the path of a unix socket may have on this
// system. The address structure has one more, for the NUL at the end: there
// are 108 of them on Linux and Windows.
const MaxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// Path returns the path of the named pipe with a name, such as
// csi-proxy-disk-v1. Its separators are doubled, which Windows does not mind,
// as in the paths that this module has always returned.
func Path(name string) string {
	return `\\.\\pipe\\` + name
}

// pipePath is the path of a named pipe on the local machine, with separators
// once or doubled.
var pipePath = regexp.MustCompile(`^\\\\\.\\{1,2}(?i:pipe)\\{1,2}([^\\/[:cntrl:]]+)$`)

// Name returns the name of the pipe at a path. It takes the paths that [Path]
// returns, and those with single separators: \\.\pipe\csi-proxy-disk-v1.
func Name(path string) (string, error) {
	m := pipePath.FindStringSubmatch(path)
	if m == nil {
		return "", fmt.Errorf(`%q is not the path of a named pipe: want \\.\pipe\NAME`, path)
	}
	return m[1], nil
}

// SocketDir returns the directory that holds the sockets. It need not exist.
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
		return "", fmt.Errorf("no directory for the sockets: neither %s nor XDG_RUNTIME_DIR is set, and only root has one without", DirVariable)
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("XDG_RUNTIME_DIR is %q: want an absolute path", dir)
	}
	return filepath.Join(dir, "csi-proxy"), nil
}

// SocketPath returns the path of the unix socket that stands in for a named
// pipe. An absolute path of a socket is returned as it is. A path that the
// system could not bind or connect to, for its length, is an error.
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
		return "", fmt.Errorf("path %q has a NUL in it", socket)
	}
	if n := len(socket); n > MaxSocketPath {
		return "", fmt.Errorf("path %q is %d bytes long: that of a unix socket has at most %d here; set %s to a shorter directory",
			socket, n, MaxSocketPath, DirVariable)
	}
	return socket, nil
}
