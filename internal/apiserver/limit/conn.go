package limit

import (
	"context"
	"encoding/binary"
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
	greeted atomic.Bool  // the client has sent what an HTTP/2 client sends first

	// With the lock of the pipe.
	process *process
	place   place
	one     int        // the connections of a connection: 1
	calls   [kinds]int // that have a place
	running int
	lost    bool // its place, to another one
	closed  bool

	mu      sync.Mutex
	in, out frames
	open    map[uint32]struct{} // the streams that are open
	highest uint32              // the last stream that the client has opened
	ran     uint32              // highest, when one of its calls began to run last
	ended   uint32              // the last stream that the server has ended
	endedAt time.Time           // when the server ended one
	gaveUp  time.Time           // when the client gave up a call
	writing bool
	wrote   bool // a frame to the client
	leaving bool // it gets no more frames of gRPC
}

// newConn asks the system for the process at the other end. A later process can have the same
// number, so that is asked when the connection is made.
func (p *Pipe) newConn(nc net.Conn) *Conn {
	pid, _ := pipes.ClientOf(nc)
	return &Conn{Conn: nc, pipe: p, pid: pid, program: sync.OnceValue(func() string { return pipes.ProgramOf(pid) }), begun: time.Now(),
		in: frames{left: len(preface)}, open: map[uint32]struct{}{}}
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

// yields says how easily the connection is given up for another one.
func (c *Conn) yields() yielding {
	if c.running > 0 {
		return never
	}
	if !c.greeted.Load() {
		return unused
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) > 0 || !c.between() {
		return inUse
	}
	return idle
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.in.pass(p[:n], c.received)
	c.mu.Unlock()
	return n, err
}

// Write gives the client writeLimit to read p, or up to writeSlack less: setting a
// deadline for each write would take longer than many writes. It closes the connection if
// it fails. gRPC would leave that to the goroutine that reads, which may not notice.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	if c.leaving { // what follows the farewell is for no one, and an error would end it early
		c.mu.Unlock()
		return len(p), nil
	}
	c.writing = true
	c.mu.Unlock()
	if age := time.Since(c.begun); age >= time.Duration(c.renew.Load()) {
		c.renew.Store(int64(age + writeSlack))
		err = c.Conn.SetWriteDeadline(c.begun.Add(age + writeLimit))
	}
	if err == nil {
		n, err = c.Conn.Write(p)
	}
	c.mu.Lock()
	c.out.pass(p[:n], c.sent)
	c.writing = false
	c.mu.Unlock()
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

// farewellLimit is how long a client may take to read that its connection ends.
const farewellLimit = time.Second

// between reports whether the next byte to the client would begin a frame, after the settings,
// which are the first. The caller holds mu.
func (c *Conn) between() bool { return !c.writing && c.wrote && c.out.between() }

// sendAway closes a lost connection, on which no call runs any more. It first lets the answers of
// those that ran go out. Then it says that no open call was begun: a client of gRPC makes these
// again on a new connection, once, and its caller does not notice. If the client does not read its
// answers, that is said of calls that arrived after the last one that ran.
func (c *Conn) sendAway() {
	last, leaves := uint32(0), false
	for end := time.Now().Add(farewellLimit); !leaves && time.Now().Before(end); {
		if last, leaves = c.leave(); !leaves {
			time.Sleep(time.Millisecond)
		}
	}
	c.mu.Lock()
	if !leaves {
		c.leaving, last = true, c.ran
	}
	between := c.between()
	c.mu.Unlock()
	if between {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(farewellLimit)) // Write says if that is not possible
		_, _ = c.Conn.Write(goAway(last))                          // it fails if the client is gone
	}
	c.Close()
}

// leave ends what gRPC sends to the client, if each stream that is open is that of a call that
// has not run. last is what the farewell says.
func (c *Conn) leave() (last uint32, leaves bool) {
	c.pipe.mu.Lock()
	defer c.pipe.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := 0
	for _, n := range c.calls {
		waiting += n
	}
	// A call that was given up may be among those that wait for a moment.
	last, known := c.lastEnded()
	c.leaving = c.closed || !c.greeted.Load() || time.Since(c.gaveUp) > forgets && len(c.open) == waiting && c.between() && known
	return last, c.leaving
}

// forgets is how long a client may take to forget a call that it reads the answer of, and a call to
// give its place back that its client has given up.
const forgets = 100 * time.Millisecond

// lastEnded returns the last stream that has its answer, if all that are open came after it. Else it
// returns 0 once the client has forgotten those with answers: until then, a client of gRPC may make
// a call again that failed, if the farewell says that it was not begun. The caller holds mu.
func (c *Conn) lastEnded() (last uint32, known bool) {
	for stream := range c.open {
		if stream < c.ended {
			return 0, time.Since(c.endedAt) > forgets
		}
	}
	return c.ended, true
}

// runs notes that one of the calls that have arrived begins to run.
func (c *Conn) runs() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran = c.highest
}

// received notes a frame of the client.
func (c *Conn) received(kind, _ byte, stream uint32) {
	c.greeted.Store(true)
	switch {
	case kind == frameHeaders && stream > c.highest:
		c.highest = stream
		if len(c.open) < 2*maxCalls { // gRPC refuses more
			c.open[stream] = struct{}{}
		}
	case kind == frameReset:
		delete(c.open, stream)
		c.gaveUp = time.Now()
	}
}

// sent notes a frame of the server.
func (c *Conn) sent(kind, flags byte, stream uint32) {
	c.wrote = true
	if kind == frameReset || (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0 {
		delete(c.open, stream)
		c.ended, c.endedAt = max(c.ended, stream), time.Now()
	}
}

// What [frames] has to know of HTTP/2 (RFC 9113, sections 3.4, 4.1 and 6).
const (
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameData     = 0x0
	frameHeaders  = 0x1
	frameReset    = 0x3
	frameGoAway   = 0x7
	flagEndStream = 0x1
)

// frames follows the HTTP/2 frames in one direction of a connection.
type frames struct {
	left   int // bytes of the preface or of the payload of a frame that are still to come
	header [9]byte
	have   int // bytes of header
}

// pass follows p, and calls frame for each header of a frame.
func (f *frames) pass(p []byte, frame func(kind, flags byte, stream uint32)) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, len(p))
			f.left, p = f.left-n, p[n:]
			continue
		}
		n := copy(f.header[f.have:], p)
		f.have, p = f.have+n, p[n:]
		if f.have < len(f.header) {
			return
		}
		f.have, f.left = 0, int(f.header[0])<<16|int(f.header[1])<<8|int(f.header[2])
		frame(f.header[3], f.header[4], binary.BigEndian.Uint32(f.header[5:])&^(1<<31))
	}
}

// between reports whether the next byte begins a frame.
func (f *frames) between() bool { return f.left == 0 && f.have == 0 }

// goAway returns the frame that ends a connection on which the stream last was the last.
func goAway(last uint32) []byte {
	b := []byte{0, 0, 8, frameGoAway, 0, 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, last)
	return binary.BigEndian.AppendUint32(b, 0) // no error
}
