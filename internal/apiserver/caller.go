package apiserver

import (
	"log/slog"
	"net"
	"strconv"
	"sync"
)

// caller is the process at the other end of a connection. It is the remote address of the
// connection, so that gRPC passes it to calls. A nil caller is unknown.
type caller struct {
	pid     uint32
	program func() string
}

// newCaller asks the system for the process at the other end of c. It returns nil if the
// system does not know. A later process can have the same number, so the caller is read
// when the connection is made.
func newCaller(c net.Conn) *caller {
	pid, ok := clientOf(c)
	if !ok {
		return nil
	}
	return &caller{pid, sync.OnceValue(func() string { return imageOf(pid) })}
}

// Network implements [net.Addr].
func (*caller) Network() string { return "process" }

// String returns the number of the process.
func (c *caller) String() string { return strconv.FormatUint(uint64(c.pid), 10) }

// attrs are the attributes of log lines about the caller.
func (c *caller) attrs() []slog.Attr {
	if c == nil {
		return []slog.Attr{slog.String("caller", "unknown")}
	}
	return []slog.Attr{slog.Uint64("caller", uint64(c.pid)), slog.String("program", c.program())}
}

// unknownProgram is what imageOf returns if the system does not report the program.
const unknownProgram = "its program cannot be determined"
