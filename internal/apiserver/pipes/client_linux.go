package pipes

import (
	"net"
	"os"
	"strconv"
	"syscall"
)

// ClientOf returns the process at the other end of a unix socket: the client, or for a
// client the process that listens.
func ClientOf(c net.Conn) (pid uint32, ok bool) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		// A process of another namespace has the number 0.
		if ok = err == nil && cred.Pid > 0; ok {
			pid = uint32(cred.Pid)
		}
	})
	return pid, ok && err == nil
}

// ProgramOf returns the path of the program that a process runs.
func ProgramOf(pid uint32) string {
	path, err := os.Readlink("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/exe")
	if err != nil {
		return UnknownProgram
	}
	return path
}
