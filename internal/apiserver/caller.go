package apiserver

import (
	"log/slog"
	"math"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// caller is the process at the other end of a connection. It is the remote address of the
// connection, so that gRPC passes it to calls. Each connection has its own.
type caller struct {
	pid     uint32 // 0 if unknown
	program func() string
	calls   atomic.Int32 // running calls; negative once the connection is closed for another one
	idle    func()       // is called when one has ended; may be nil
	hangUp  func() error // closes the connection
	left    atomic.Bool  // the connection is closed
}

// owner is what callers' shares are counted by: a process, or a connection if its
// process is not known.
type owner struct {
	pid        uint32
	connection *caller
}

// owner returns the owner of c's shares.
func (c *caller) owner() owner {
	if c == nil || c.pid == 0 {
		return owner{connection: c}
	}
	return owner{pid: c.pid}
}

// gone reports whether c's connection is closed. Its calls end soon.
func (c *caller) gone() bool { return c != nil && c.left.Load() }

// replaced is added to the number of calls of a connection that is closed for another one.
const replaced = math.MinInt32 / 2

// replace reports whether the connection may be closed for another one, because none of its
// calls run. A call that starts later finds that in wasReplaced, and does not run.
func (c *caller) replace() bool { return c.calls.CompareAndSwap(0, replaced) }

// wasReplaced reports whether the server closes c's connection for another one.
func (c *caller) wasReplaced() bool { return c != nil && c.calls.Load() < 0 }

// newCaller asks the system for the process at the other end of c. A later process can have
// the same number, so the caller is read when the connection is made.
func newCaller(c net.Conn) *caller {
	pid, _ := clientOf(c)
	return &caller{pid: pid, program: sync.OnceValue(func() string { return imageOf(pid) })}
}

// Network implements [net.Addr].
func (*caller) Network() string { return "process" }

// String returns the number of the process.
func (c *caller) String() string { return strconv.FormatUint(uint64(c.pid), 10) }

// attrs are the attributes of log lines about the caller.
func (c *caller) attrs() []slog.Attr {
	if c == nil || c.pid == 0 {
		return []slog.Attr{slog.String("caller", "unknown")}
	}
	return []slog.Attr{slog.Uint64("caller", uint64(c.pid)), slog.String("program", c.program())}
}

// unknownProgram is what imageOf returns if the system does not report the program.
const unknownProgram = "its program cannot be determined"
