package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/failure"
)

// The kinds of what the calls of a pipe take.
const (
	apiCalls = iota
	auxCalls // health checks have places of their own
	kinds
)

// Pipe is the listener of a pipe, with its limits.
type Pipe struct {
	net.Listener
	// API limits the calls of the API. Aux limits health checks, so that they are answered even if
	// the API has no room.
	API, Aux *Calls

	name    string
	log     *slog.Logger
	crowded func(*Conn, Crowded)

	closing func()
	closed  chan struct{}

	mu        sync.Mutex
	processes map[uint32]*process
	conns     places
	refusals  Refusals
}

// process is a process that has connections or calls. One that is not known is a process for
// each of its connections.
type process struct {
	pid     uint32
	conns   int
	calls   [kinds]int // that have a place
	running [kinds]int
	line    [kinds][]*Call // that wait
}

// Crowded is how a connection was closed because its pipe has too many.
type Crowded string

const (
	// Replaced is a connection without a running call that was closed for a new one.
	Replaced Crowded = "replaced"
	// Refused is a new connection that was closed because no other could be.
	Refused Crowded = "refused"
)

// NewPipe returns l with limits. crowded is called before a connection is closed because too
// many are open.
func NewPipe(name string, l net.Listener, log *slog.Logger, crowded func(*Conn, Crowded)) *Pipe {
	p := &Pipe{Listener: l, name: name, log: log, crowded: crowded, processes: map[uint32]*process{}, conns: places{most: Connections}, closed: make(chan struct{})}
	p.closing = sync.OnceFunc(func() { close(p.closed) })
	p.API, p.Aux = &Calls{pipe: p, kind: apiCalls, places: places{most: maxWaiting}, free: maxRunning}, &Calls{pipe: p, kind: auxCalls, places: places{most: maxWaiting}, free: maxRunning}
	return p
}

// Name returns the name of the pipe.
func (p *Pipe) Name() string { return p.name }

// acceptLimit is how long accepting connections may fail before the server stops.
// Windows may run out of resources for pipes for a while.
const acceptLimit = 30 * time.Second

// Accept implements [net.Listener]. It retries when accepting fails.
func (p *Pipe) Accept() (net.Conn, error) {
	var failing time.Time
	for pause := 5 * time.Millisecond; ; {
		nc, err := p.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
			if failing.IsZero() {
				failing = time.Now()
				p.log.Warn("Failed to accept connection, retrying", "pipe", p.name, "err", err)
			}
			if time.Since(failing) >= acceptLimit {
				return nil, err
			}
			select {
			case <-time.After(pause):
			case <-p.closed:
				return nil, err
			}
			pause = min(2*pause, time.Second)
			continue
		}
		failing, pause = time.Time{}, 5*time.Millisecond
		c := p.newConn(nc)
		if !p.admit(c) {
			nc.Close()
			continue
		}
		select {
		case <-p.closed:
			c.Close() // it may have been accepted too late for Close to see it
		default:
			return c, nil
		}
	}
}

// admit reports whether c may stay. The log has the reason why another one was closed
// when the client notices.
func (p *Pipe) admit(c *Conn) bool {
	p.mu.Lock()
	c.process = p.processOf(c.pid)
	c.place = place{of: c, ofProcess: &c.process.conns, yields: c.yields}
	lost, ok := p.conns.take(&c.place)
	if lost != nil {
		lost.of.lost = true
		p.forget(lost.of.process)
	}
	if !ok {
		p.refusals.note(&p.refusals.Connections)
		p.forget(c.process)
	}
	p.mu.Unlock()
	switch {
	case !ok:
		p.crowded(c, Refused)
	case lost != nil:
		p.crowded(lost.of, Replaced)
		go lost.of.Close() // a client that does not read may keep that waiting
	}
	return ok
}

// processOf returns the process with a number. The caller holds mu.
func (p *Pipe) processOf(pid uint32) *process {
	if pid == 0 {
		return &process{}
	}
	of, ok := p.processes[pid]
	if !ok {
		of = &process{pid: pid}
		p.processes[pid] = of
	}
	return of
}

// forget forgets a process that has nothing. It may have been forgotten before, because gRPC
// closes a connection twice, and be known again since. The caller holds mu.
func (p *Pipe) forget(of *process) {
	if of.conns == 0 && of.calls == [kinds]int{} && of.running == [kinds]int{} && p.processes[of.pid] == of {
		delete(p.processes, of.pid)
	}
}

// Close implements [net.Listener]. It also closes connections that have not sent
// their greeting, as if they had arrived after Close.
func (p *Pipe) Close() error {
	p.closing()
	err := p.Listener.Close()
	for _, c := range p.open() {
		if !c.greeted.Load() {
			c.disconnect()
			c.Close()
		}
	}
	return err
}

// CloseAll closes all connections.
func (p *Pipe) CloseAll() {
	for _, c := range p.open() {
		c.Close()
	}
}

func (p *Pipe) open() (all []*Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.conns.taken {
		all = append(all, t.of)
	}
	return all
}

// Refusals are what a pipe has refused to newcomers, without a pause of a minute or more.
type Refusals struct {
	Connections, Calls int
	Since, Last        time.Time
}

// refusalsEnd is how long after the last refusal a pipe counts as open to newcomers.
const refusalsEnd = time.Minute

// note counts a refusal in one of the fields.
func (r *Refusals) note(field *int) {
	now := time.Now()
	if now.Sub(r.Last) >= refusalsEnd {
		*r = Refusals{Since: now}
	}
	r.Last = now
	*field++
}

// String says what was refused, and is empty if nothing was.
func (r Refusals) String() string {
	if r.Connections+r.Calls == 0 {
		return ""
	}
	return fmt.Sprintf("refused %d connections and %d calls within %v", r.Connections, r.Calls, max(time.Since(r.Since), time.Second).Round(time.Second))
}

// Refusals returns what the pipe refuses now. It is zero for a pipe that has room.
func (p *Pipe) Refusals() Refusals {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.refusals.Last) >= refusalsEnd {
		return Refusals{}
	}
	return p.refusals
}

// Calls limits calls of one kind.
type Calls struct {
	pipe *Pipe
	kind int
	places
	free    int        // slots of calls that run
	waiting []*process // that have calls in their line, the one whose turn is next first
}

// Call is a call, from its beginning until its work has ended.
type Call struct {
	Of    *Conn
	Loser Loser

	place
	turn chan struct{} // closed when its turn has come; nil if it does not wait
	lost atomic.Bool   // its place
	runs bool
}

// Loser is who has to end a call that has lost its place to another one.
type Loser interface{ Lose() }

// Lost reports whether the call has lost its place to another one.
func (c *Call) Lost() bool { return c.lost.Load() }

// Begin takes a place for a call whose request is on its way.
func (g *Calls) Begin(c *Call) error {
	g.pipe.mu.Lock()
	c.place = place{of: c.Of, call: c, ofProcess: &c.Of.process.calls[g.kind]}
	lost, ok := g.take(&c.place)
	if lost != nil {
		lost.call.lost.Store(true)
		g.leave(lost.call)
		g.pipe.forget(lost.of.process)
	}
	if !ok || lost != nil {
		g.pipe.refusals.note(&g.pipe.refusals.Calls)
	}
	g.pipe.mu.Unlock()
	if lost != nil {
		lost.call.Loser.Lose()
	}
	if !ok {
		return g.Full()
	}
	return nil
}

// Full is the error of a call that has no place.
func (g *Calls) Full() error {
	return &failure.BusyError{Pipe: g.pipe.name, Reason: fmt.Sprintf("%d calls are running and %d are waiting, which is the limit", maxRunning, maxWaiting)}
}

// SentAway is the error of a call whose connection was closed for another one.
func (g *Calls) SentAway() error {
	return &failure.BusyError{Pipe: g.pipe.name, Reason: fmt.Sprintf("the connection of this call was closed for another one: %d are open, which is the limit", Connections)}
}

// AllRunning is the error of a call that has waited for so long.
func (g *Calls) AllRunning(waited time.Duration) error {
	return &failure.BusyError{Pipe: g.pipe.name, Reason: fmt.Sprintf("%d calls are running, which is the limit, and this one had no turn in %v", maxRunning, waited.Round(time.Millisecond))}
}

// Drop gives the place of a call back, which does not run. It reports whether the call still
// had it.
func (g *Calls) Drop(c *Call) bool {
	g.pipe.mu.Lock()
	defer g.pipe.mu.Unlock()
	g.leave(c)
	had := g.put(&c.place)
	g.pipe.forget(c.Of.process)
	return had
}

// Run waits until the call may run, and gives its place back. It calls queued if that takes a
// while. From then on its connection is not closed for another one, until [Calls.End]. It fails
// with a [failure.BusyError] if ctx reaches its deadline first, or the connection of the call is
// closed for another one.
func (g *Calls) Run(ctx context.Context, c *Call, queued func()) error {
	begun := time.Now()
	g.pipe.mu.Lock()
	switch {
	case c.Lost(), c.Of.lost:
	case g.free > 0:
		g.start(c)
	default:
		of := c.Of.process
		if c.turn = make(chan struct{}); len(of.line[g.kind]) == 0 {
			g.waiting = append(g.waiting, of)
		}
		of.line[g.kind] = append(of.line[g.kind], c)
	}
	g.pipe.mu.Unlock()
	if c.turn != nil {
		queued()
		select {
		case <-c.turn:
		case <-ctx.Done():
		}
	}
	g.pipe.mu.Lock()
	defer g.pipe.mu.Unlock()
	if c.runs {
		return nil // also if its time is over: it ends soon
	}
	g.leave(c)
	g.put(&c.place)
	g.pipe.forget(c.Of.process)
	switch err := ctx.Err(); {
	case c.Of.lost:
		return g.SentAway()
	case c.Lost():
		return g.Full()
	case errors.Is(err, context.DeadlineExceeded), failure.TimeIsOver(ctx, time.Now()):
		return g.AllRunning(time.Since(begun))
	default:
		return err
	}
}

// start makes a call run. The caller holds the lock.
func (g *Calls) start(c *Call) {
	g.put(&c.place)
	g.free--
	c.runs = true
	c.Of.running++
	c.Of.process.running[g.kind]++
}

// leave removes a call from the line of its process. The caller holds the lock.
func (g *Calls) leave(c *Call) {
	of := c.Of.process
	if i := slices.Index(of.line[g.kind], c); i >= 0 {
		if of.line[g.kind] = slices.Delete(of.line[g.kind], i, i+1); len(of.line[g.kind]) == 0 {
			g.waiting = slices.DeleteFunc(g.waiting, func(p *process) bool { return p == of })
		}
	}
}

// End frees the slot of a call that ran. The next to run is the first call of the process of
// which fewest run; those with as few, or with fewRunning at most, take turns.
func (g *Calls) End(c *Call) {
	g.pipe.mu.Lock()
	defer g.pipe.mu.Unlock()
	g.free++
	c.runs = false
	c.Of.process.running[g.kind]--
	c.Of.running--
	g.pipe.conns.use(&c.Of.place)
	g.pipe.forget(c.Of.process)
	for g.free > 0 && len(g.waiting) > 0 {
		next := 0
		for i, p := range g.waiting {
			if p.running[g.kind] < g.waiting[next].running[g.kind] {
				next = i
			}
			if g.waiting[next].running[g.kind] <= fewRunning {
				break
			}
		}
		first := g.waiting[next].line[g.kind][0]
		of := first.Of.process
		of.line[g.kind] = slices.Delete(of.line[g.kind], 0, 1)
		g.waiting = slices.Delete(g.waiting, next, next+1)
		if len(of.line[g.kind]) > 0 {
			g.waiting = append(g.waiting, of)
		}
		if !first.Of.lost {
			g.start(first)
			close(first.turn)
		}
	}
}
