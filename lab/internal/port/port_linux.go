// Package port reserves ports for programs that do not say on which port they listen.
package port

import (
	"fmt"
	"syscall"
)

// Reserve returns a free address of loopback, as host:port, and keeps it free until release. A
// socket has the port and does not listen, so no connection of another program gets the port, and
// no listener that asks for any. The program that is to have the address can listen on it, because
// this socket and those of Wine and Go have SO_REUSEADDR.
func Reserve() (address string, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("reserve a port: %w", err)
	}
	release = func() { _ = syscall.Close(fd) }
	var at syscall.Sockaddr
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		at, err = syscall.Getsockname(fd)
	}
	if err != nil {
		release()
		return "", nil, fmt.Errorf("reserve a port: %w", err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port), release, nil
}
