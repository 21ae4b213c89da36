package limit

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// Conn is a connection and the process at its other end. It is the remote address of the
// connection, so that gRPC passes it to calls.
type Conn struct {
	net.Conn
	pipe    *Pipe
	pid     uint32 // 0 if unknown
	program func() string
	begun   time.Time
	renew   atomic.Int64 // how long after begun the deadline of writes is set again
	heard   int          // bytes, up to those of a greeting
	greeted atomic.Bool  // the client has sent what an HTTP/2 client sends first

	// With the lock of the pipe.
	process *process
	place   place
	calls   int // that have a place
	running int
	lost    bool // its place, to another one
	closed  bool
}

// newConn asks the system for the process at the other end. A later process can have the same
// number, so that is asked when the connection is made.
func (p *Pipe) newConn(nc net.Conn) *Conn {
	pid, _ := pipes.ClientOf(nc)
	return &Conn{Conn: nc, pipe: p, pid: pid, program: sync.OnceValue(func() string { return pipes.ProgramOf(pid) }), begun: time.Now()}
}

// CallerOf returns the connection of a call.
func CallerOf(ctx context.Context) *Conn {
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.Addr.(*Conn); ok {
			return c
		}
	}
	return &Conn{process: new(process)}
}

// RemoteAddr implements [net.Conn].
func (c *Conn) RemoteAddr() net.Addr { return c }

// Network implements [net.Addr].
func (*Conn) Network() string { return "process" }

// String returns the number of the process.
func (c *Conn) String() string { return strconv.FormatUint(uint64(c.pid), 10) }

// Process returns the number of the process, or 0 if it is not known, and what returns its
// program.
func (c *Conn) Process() (pid uint32, program func() string) { return c.pid, c.program }

// yields says how easily the connection is given up for another one. The caller holds the lock of
// the pipe.
func (c *Conn) yields() yielding {
	switch {
	case c.running > 0:
		return never
	case !c.greeted.Load():
		return unused
	case c.calls > 0:
		return inUse
	}
	return idle
}

// greeting is how many bytes an HTTP/2 client sends at least: the preface, and the header of its
// settings (RFC 9113, sections 3.4 and 4.1).
const greeting = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + 9

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.heard < greeting {
		c.heard += n
		c.greeted.Store(c.heard >= greeting)
	}
	return n, err
}

// Write gives the client writeLimit to read p, or up to writeSlack less: setting a
// deadline for each write would take longer than many writes. It closes the connection if
// it fails. gRPC would leave that to the goroutine that reads, which may not notice.
func (c *Conn) Write(p []byte) (n int, err error) {
	if age := time.Since(c.begun); age >= time.Duration(c.renew.Load()) {
		c.renew.Store(int64(age + writeSlack))
		err = c.Conn.SetWriteDeadline(c.begun.Add(age + writeLimit))
	}
	if err == nil {
		n, err = c.Conn.Write(p)
	}
	if err != nil {
		c.Close()
	}
	return n, err
}

// SetDeadline sets the deadline of reads only, because each Write sets its own.
// gRPC sets a deadline for the handshake and clears it afterwards; by then a Write
// may be waiting for a client that does not read.
func (c *Conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// disconnect also ends a named pipe's connection at the client's end: otherwise, a
// client that never closes its end could keep the pipe's name in use (page of
// DisconnectNamedPipe). It discards what the client has not read.
func (c *Conn) disconnect() {
	if p, ok := c.Conn.(interface{ Disconnect() error }); ok {
		if err := p.Disconnect(); err != nil {
			c.pipe.log.Warn("Failed to disconnect client", "pipe", c.pipe.name, "err", err)
		}
	}
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	if c.pipe != nil {
		c.pipe.mu.Lock()
		c.closed = true
		c.pipe.conns.put(&c.place)
		c.pipe.forget(c.process)
		c.pipe.mu.Unlock()
	}
	return c.Conn.Close()
}
