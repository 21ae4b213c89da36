package apiserver

import (
	"container/list"
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
// When the limit is reached, a new connection replaces the oldest one that has not
// sent its greeting. So the idle connections that published clients leave open
// do not lock out other clients. If all have sent their greeting, the new
// connection is closed.
type conns struct {
	net.Listener
	pipe string
	log  *slog.Logger

	closing func()
	closed  chan struct{}

	mu         sync.Mutex
	open       map[*conn]struct{}
	silent     *list.List // connections without a greeting (*conn), oldest first
	refusedLog logLimiter
}

func newConns(pipe string, l net.Listener, log *slog.Logger) *conns {
	closed := make(chan struct{})
	return &conns{Listener: l, pipe: pipe, log: log, open: map[*conn]struct{}{}, silent: list.New(),
		closed: closed, closing: sync.OnceFunc(func() { close(closed) })}
}

// Close implements [net.Listener]. It also closes connections that have not sent
// their greeting, as if they had arrived after Close.
func (l *conns) Close() error {
	l.closing()
	err := l.Listener.Close()
	l.mu.Lock()
	var silent []*conn
	for e := l.silent.Front(); e != nil; e = e.Next() {
		silent = append(silent, e.Value.(*conn))
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
		c := &conn{Conn: nc, listener: l, caller: newCaller(nc)}
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
	replaced, ok := l.add(c)
	if !ok {
		if suppressed, ok := l.refusedLog.allow(); ok {
			l.log.Warn("Refused connection, too many are open", "pipe", l.pipe, "limit", maxConnections, "suppressed", suppressed)
		}
		return false
	}
	if replaced != nil {
		replaced.Close()
	}
	return true
}

// add registers c. If the limit is reached, c takes the place of another
// connection, which the caller must close; ok is false if there is none.
func (l *conns) add(c *conn) (replaced *conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= maxConnections {
		oldest := l.silent.Front()
		if oldest == nil {
			return nil, false
		}
		replaced = oldest.Value.(*conn)
		l.remove(replaced)
	}
	l.open[c] = struct{}{}
	c.element = l.silent.PushBack(c)
	return replaced, true
}

// remove unregisters c. The caller holds mu.
func (l *conns) remove(c *conn) {
	delete(l.open, c)
	if c.element != nil {
		l.silent.Remove(c.element)
		c.element = nil
	}
}

// conn is a connection.
type conn struct {
	net.Conn
	listener *conns
	caller   *caller      // nil if unknown
	received atomic.Int64 // bytes; not updated beyond greetingSize

	element *list.Element // in listener.silent; nil after the greeting
}

// RemoteAddr returns the caller, which calls of the connection find as their peer.
func (c *conn) RemoteAddr() net.Addr {
	if c.caller == nil {
		return c.Conn.RemoteAddr()
	}
	return c.caller
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.received.Load() < greetingSize && c.received.Add(int64(n)) >= greetingSize {
		c.listener.mu.Lock()
		if c.element != nil {
			c.listener.silent.Remove(c.element)
			c.element = nil
		}
		c.listener.mu.Unlock()
	}
	return n, err
}

// Write gives the client writeLimit to read p. It closes the connection if it
// fails. gRPC would leave that to the goroutine that reads, which may not notice.
func (c *conn) Write(p []byte) (int, error) {
	err := c.Conn.SetWriteDeadline(time.Now().Add(writeLimit))
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

// disconnect ends a named pipe's connection at the client's end, too: without that, a
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
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
