package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// greetingSize is the minimum that an HTTP/2 client sends first: the preface of 24
// bytes and the header of its SETTINGS frame.
const greetingSize = 24 + 9

// conns is the listener of one pipe. It limits the number of connections and the
// time that a client takes to read, and retries when accepting fails.
//
// When the limit is reached, a new connection replaces one of the process that has most:
// one that has not sent its greeting, or the one that was idle for the longest time. So a
// process that leaves connections open, as published clients do, does not lock out others.
// A connection with a running call is not replaced; if there is no other, the new
// connection is closed.
type conns struct {
	net.Listener
	pipe string
	log  *slog.Logger

	// crowded, if set, is called for each connection that is closed because too many are open.
	crowded func(Crowded)

	closing func()
	closed  chan struct{}

	mu         sync.Mutex
	open       map[*conn]struct{}
	shares     *shares // of open
	refusedLog logLimiter
	closedLog  logLimiter
}

// Crowded is how a connection was closed because its pipe has too many.
type Crowded string

const (
	// Replaced is a connection without a running call that was closed for a new one.
	Replaced Crowded = "replaced"
	// Refused is a new connection that was closed because none could be replaced.
	Refused Crowded = "refused"
)

// count counts a connection that is closed because too many are open.
func (l *conns) count(how Crowded) {
	if l.crowded != nil {
		l.crowded(how)
	}
}

func newConns(pipe string, l net.Listener, log *slog.Logger) *conns {
	closed := make(chan struct{})
	return &conns{Listener: l, pipe: pipe, log: log, open: map[*conn]struct{}{}, shares: newShares(maxConnections),
		closed: closed, closing: sync.OnceFunc(func() { close(closed) })}
}

// Close implements [net.Listener]. It also closes connections that have not sent
// their greeting, as if they had arrived after Close.
func (l *conns) Close() error {
	l.closing()
	err := l.Listener.Close()
	l.mu.Lock()
	var silent []*conn
	for c := range l.open {
		if c.received.Load() < greetingSize {
			silent = append(silent, c)
		}
	}
	l.mu.Unlock()
	for _, c := range silent {
		c.disconnect()
		c.Close()
	}
	return err
}

// closeAll closes all connections.
func (l *conns) closeAll() {
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

// acceptLimit is how long accepting connections may fail before the server stops.
// Windows may run out of resources for pipes for a while.
const acceptLimit = 30 * time.Second

// Accept implements [net.Listener].
func (l *conns) Accept() (net.Conn, error) {
	var failing time.Time
	for pause := 5 * time.Millisecond; ; {
		nc, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
			if failing.IsZero() {
				failing = time.Now()
				l.log.Warn("Failed to accept connection, retrying", "pipe", l.pipe, "err", err)
			}
			if time.Since(failing) >= acceptLimit {
				return nil, err
			}
			select {
			case <-time.After(pause):
			case <-l.closed:
				return nil, err
			}
			pause = min(2*pause, time.Second)
			continue
		}
		failing, pause = time.Time{}, 5*time.Millisecond
		c := &conn{Conn: nc, listener: l, caller: newCaller(nc), begun: time.Now()}
		if !l.admit(c) {
			nc.Close()
			continue
		}
		select {
		case <-l.closed:
			c.Close() // it may have been accepted too late for Close to see it
		default:
			return c, nil
		}
	}
}

// admit reports whether c may stay. If not, it logs the reason before the caller
// closes c, so that the reason is in the log when the client notices.
func (l *conns) admit(c *conn) bool {
	c.share = c.newShare()
	c.caller.idle, c.caller.hangUp = func() { l.shares.use(c.share) }, c.Close
	replaced, ok := l.shares.take(c.share)
	if !ok {
		l.count(Refused)
		if suppressed, ok := l.refusedLog.allow(); ok {
			l.warn("Refused a connection: too many are open", c.caller, suppressed)
		}
		return false
	}
	l.mu.Lock()
	l.open[c] = struct{}{}
	l.mu.Unlock()
	if replaced != nil && replaced.of.wasReplaced() { // otherwise it is closed already
		l.count(Replaced)
		if suppressed, ok := l.closedLog.allow(); ok {
			l.warn("Closed a connection without a running call, of the process that has most: too many are open", replaced.of, suppressed)
		}
		replaced.conn.Close()
	}
	return true
}

// warn logs that a connection of a process was closed.
func (l *conns) warn(msg string, of *caller, suppressed int) {
	l.log.LogAttrs(context.Background(), slog.LevelWarn, msg,
		append(of.attrs(), slog.String("pipe", l.pipe), slog.Int("limit", maxConnections), slog.Int("suppressed", suppressed))...)
}

// conn is a connection.
type conn struct {
	net.Conn
	listener *conns
	caller   *caller
	share    *share
	received atomic.Int64 // bytes; not updated beyond greetingSize
	begun    time.Time
	renew    atomic.Int64 // how long after begun the deadline of writes is set again
}

// newShare returns the share of the listener that c takes.
func (c *conn) newShare() *share { return &share{of: c.caller, conn: c, unused: true} }

// RemoteAddr returns the caller, which calls of the connection find as their peer.
func (c *conn) RemoteAddr() net.Addr { return c.caller }

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.received.Load() < greetingSize && c.received.Add(int64(n)) >= greetingSize {
		c.listener.shares.use(c.share)
	}
	return n, err
}

// Write gives the client writeLimit to read p, or up to writeSlack less: setting a
// deadline for each write would take longer than many writes. It closes the connection if
// it fails. gRPC would leave that to the goroutine that reads, which may not notice.
func (c *conn) Write(p []byte) (int, error) {
	var err error
	if age := time.Since(c.begun); age >= time.Duration(c.renew.Load()) {
		c.renew.Store(int64(age + writeSlack))
		err = c.Conn.SetWriteDeadline(c.begun.Add(age + writeLimit))
	}
	n := 0
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
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// disconnect also ends a named pipe's connection at the client's end: otherwise, a
// client that never closes its end could keep the pipe's name in use (page of
// DisconnectNamedPipe). It discards what the client has not read.
func (c *conn) disconnect() {
	if p, ok := c.Conn.(interface{ Disconnect() error }); ok {
		if err := p.Disconnect(); err != nil {
			c.listener.log.Warn("Failed to disconnect client", "pipe", c.listener.pipe, "err", err)
		}
	}
}

func (c *conn) Close() error {
	c.caller.left.Store(true)
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	c.listener.shares.put(c.share)
	return c.Conn.Close()
}
