package apiserver

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Calls are the calls in flight of a server's services, and the last that failed, without
// health checks and reflection. The zero value is ready to use.
type Calls struct {
	mu     sync.Mutex
	calls  map[*inflight.Call]*call
	timed  bool // a timer is running that looks for calls that take longer than their limit
	closed bool
	none   chan struct{} // once closed is true: is closed when there are no calls

	failed failedCalls
}

// CallState is what is known about a call in flight.
type CallState struct {
	ID       uint64
	Pipe     string // "csi-proxy-disk-v1"
	Method   string // "Rescan"
	Target   string // the fields of the request as in the audit log, without secrets
	Process  uint32 // of the caller, or 0
	Program  string // of the caller
	Age      time.Duration
	Phase    inflight.Phase
	Gone     bool     // the caller has given up, and the work continues
	Win32    string   // the Win32 call in which it is, or empty
	WaitsFor string   // a lock or the work of another call, or empty
	HeldBy   []uint64 // the calls that hold that; 0 is work without a call
}

// List returns the states of all calls, the oldest first.
func (c *Calls) List() []CallState {
	c.mu.Lock()
	calls := slices.Collect(maps.Keys(c.calls))
	c.mu.Unlock()
	slices.SortFunc(calls, func(a, b *inflight.Call) int { return cmp.Compare(a.ID, b.ID) })
	var all []CallState
	for _, s := range inflight.States(calls) {
		state := CallState{
			ID: s.ID, Pipe: s.Pipe, Method: path.Base(s.Method), Target: targetOf(s.Request), Process: s.Process,
			Age: time.Since(s.Started), Phase: s.Phase, Gone: !s.Left.IsZero(), Win32: win32.CallIn(s.Stack), WaitsFor: s.Waits,
		}
		if s.Process != 0 {
			state.Program = s.Program()
		}
		for _, h := range s.Holders {
			if h == nil {
				state.HeldBy = append(state.HeldBy, 0)
			} else {
				state.HeldBy = append(state.HeldBy, h.ID)
			}
		}
		all = append(all, state)
	}
	return all
}

// Tally is what is known about the calls of one pipe.
type Tally struct {
	Phases map[inflight.Phase]int // the calls in a phase
	Oldest time.Duration          // the age of the oldest call
}

// Tallies returns a tally for each pipe that has calls, by its name.
func (c *Calls) Tallies() map[string]Tally {
	c.mu.Lock()
	calls := slices.Collect(maps.Keys(c.calls))
	c.mu.Unlock()
	all := map[string]Tally{}
	for _, call := range calls {
		t := all[call.Pipe]
		if t.Phases == nil {
			t.Phases = map[inflight.Phase]int{}
		}
		if p := call.Phase(); p != "" { // it has begun
			t.Phases[p]++
		}
		t.Oldest = max(t.Oldest, time.Since(call.Started))
		all[call.Pipe] = t
	}
	return all
}

// Count returns how many calls there are.
func (c *Calls) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

// start adds a call; ok is false if it must not start.
func (c *Calls) start(of *call) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.calls == nil {
		c.calls = map[*inflight.Call]*call{}
	}
	c.calls[&of.record] = of
	if of.record.Limit > 0 && !c.timed {
		c.timed = true
		time.AfterFunc(defaultDeadline, c.expire)
	}
	return true
}

// expire ends the calls that have taken longer than their limits, and checks again when
// the next one may have.
func (c *Calls) expire() {
	for _, late := range c.overdue() {
		late.expire()
	}
}

// overdue returns the calls that have taken longer than their limits, each of them once. A
// single timer for all calls costs them nothing. A call that has not begun yet may have the
// shortest limit, so that is the longest interval.
func (c *Calls) overdue() (late []*call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := defaultDeadline
	c.timed = false
	for record, call := range c.calls {
		if record.Limit == 0 || call.late || !record.Left().IsZero() {
			continue
		}
		if left := time.Until(record.Started.Add(record.Limit)); left > 0 {
			c.timed = true
			next = min(next, left)
			continue
		}
		call.late = true
		late = append(late, call)
	}
	if c.timed {
		time.AfterFunc(next, c.expire)
	}
	return late
}

// end removes a call.
func (c *Calls) end(call *inflight.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, call)
	if c.closed && len(c.calls) == 0 {
		close(c.none)
	}
}

// close lets no new call start. It returns the number of running calls and a
// channel that is closed when they have finished. It must be called only once.
func (c *Calls) close() (running int, none <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.none = true, make(chan struct{})
	if len(c.calls) == 0 {
		close(c.none)
	}
	return len(c.calls), c.none
}

// stopping is the error of a call that arrives while the server is stopping.
// gRPC accepts calls until it has notified every client, and a client that is
// halfway through its handshake can delay that for [handshakeLimit].
func stopping(method string) error {
	return hosterr.WithHint("call", method, stoppingError{}, "call again when csi-proxy is running again")
}

// stoppingError has its own type because it is logged as a warning: the node
// has not failed.
type stoppingError struct{}

func (stoppingError) Error() string { return "csi-proxy is stopping, and nothing was done" }
func (stoppingError) Unwrap() error { return hosterr.ErrUnavailable }
