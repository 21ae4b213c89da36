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

// greeting is the least that a client of HTTP/2 says first: the preface of 24
// bytes and the header of its SETTINGS frame.
const greeting = 24 + 9

// conns is the listener of one pipe. It bounds the connections and the time that
// a client takes to read, and outlasts failures to accept.
//
// When all connections are taken, a newcomer gets the place of the one that has
// waited longest without having said who it is: those that published clients
// leave behind keep nobody out. If all have said it, the newcomer is hung up on.
type conns struct {
	net.Listener
	pipe string
	log  *slog.Logger

	closing func()
	closed  chan struct{}

	mu      sync.Mutex
	open    map[*conn]struct{}
	silent  *list.List // of *conn, the oldest first
	refused seldom
}

func newConns(pipe string, l net.Listener, log *slog.Logger) *conns {
	closed := make(chan struct{})
	return &conns{Listener: l, pipe: pipe, log: log, open: map[*conn]struct{}{}, silent: list.New(),
		closed: closed, closing: sync.OnceFunc(func() { close(closed) })}
}

// Close implements [net.Listener]. Those that have connected and not said who they
// are go with it: they are as good as those that come too late.
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
		c.Close()
	}
	return err
}

// hangUp closes all connections.
func (l *conns) hangUp() {
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

// acceptLimit is for how long a pipe may fail to take connections before it is
// given up. Windows runs out of what it makes pipes of, and gets it back.
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
				l.log.Warn("A pipe fails to take connections", "pipe", l.pipe, "err", err)
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
		c := &conn{Conn: nc, of: l}
		if !l.admit(c) {
			nc.Close()
			continue
		}
		select {
		case <-l.closed:
			c.Close() // Close may not have known of it
		default:
			return c, nil
		}
	}
}

// admit finds a place for c, or says in the log why there is none: before c is
// closed, so that whoever sees that can read it.
func (l *conns) admit(c *conn) bool {
	out, free := l.place(c)
	if !free {
		if before, now := l.refused.say(); now {
			l.log.Warn("A connection was closed at once: there are too many", "pipe", l.pipe, "limit", maxConnections, "not told of before", before)
		}
		return false
	}
	if out != nil {
		out.Close()
	}
	return true
}

// place puts c on the books, in the place of out if that has to go.
func (l *conns) place(c *conn) (out *conn, free bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= maxConnections {
		oldest := l.silent.Front()
		if oldest == nil {
			return nil, false
		}
		out = oldest.Value.(*conn)
		l.forget(out)
	}
	l.open[c] = struct{}{}
	c.place = l.silent.PushBack(c)
	return out, true
}

// forget takes c off the books. It is called with mu held.
func (l *conns) forget(c *conn) {
	delete(l.open, c)
	if c.place != nil {
		l.silent.Remove(c.place)
		c.place = nil
	}
}

// conn is one connection.
type conn struct {
	net.Conn
	of   *conns
	said atomic.Int64 // bytes, until greeting

	place *list.Element // in of.silent; nil once it has said who it is
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.said.Load() < greeting && c.said.Add(int64(n)) >= greeting {
		c.of.mu.Lock()
		if c.place != nil {
			c.of.silent.Remove(c.place)
			c.place = nil
		}
		c.of.mu.Unlock()
	}
	return n, err
}

// Write gives the client writeLimit to read p. A connection that cannot be
// written to is closed: gRPC leaves that to whoever reads, who may never know.
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

// SetDeadline is that of reading: each write has its own. gRPC sets one for the
// handshake, and takes it away once that is over, when the first answer may be
// waiting for a client that does not read.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.forget(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
