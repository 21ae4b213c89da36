// Package calls is the record of every call: who makes it, what it asks for, what it changes and
// how it ends. While a call or its work runs it is in [Calls], with the last that failed; what
// becomes of it is in the log ([Log]), within limits on what one caller and all callers can add.
package calls

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Calls are the calls in flight of a server's services, and the last that failed, without
// health checks. The zero value is ready to use.
type Calls struct {
	mu     sync.Mutex
	calls  map[*inflight.Call]watch
	timed  bool // a timer is running that looks for calls that take longer than their limit
	closed bool
	none   chan struct{} // nil until it is needed; is closed when there are no calls and none may start

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
			ID: s.ID, Pipe: s.Pipe, Method: path.Base(s.Method), Target: Target(s.Request), Process: s.Process,
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

// Ender can end a call before its handler has returned.
type Ender interface{ End() }

// watch says when to end a call; by is nil once that was done.
type watch struct {
	by      Ender
	receipt time.Duration
}

// Start adds a call; ok is false if it must not start. by ends it if its request takes longer
// than receipt to arrive, or the call longer than its limit.
func (c *Calls) Start(call *inflight.Call, receipt time.Duration, by Ender) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.calls == nil {
		c.calls = map[*inflight.Call]watch{}
	}
	c.calls[call] = watch{by, receipt}
	if !c.timed {
		c.timed = true
		time.AfterFunc(receipt, c.expire)
	}
	return true
}

// expire ends the calls that have taken too long, and checks again when the next one may have.
func (c *Calls) expire() {
	for _, late := range c.overdue() {
		late.End()
	}
}

// overdue returns what ends the calls that have taken too long, each of them once. A single
// timer for all calls costs them nothing.
func (c *Calls) overdue() (late []Ender) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next time.Duration
	for call, w := range c.calls {
		if w.by == nil || !call.Left().IsZero() {
			continue
		}
		limit := call.Limit
		if phase := call.Phase(); phase == inflight.Receiving || phase == "" {
			limit = w.receipt
		}
		if limit == 0 {
			continue
		}
		if left := time.Until(call.Started.Add(limit)); left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		late = append(late, w.by)
		c.calls[call] = watch{}
	}
	if c.timed = next > 0; c.timed {
		time.AfterFunc(next, c.expire)
	}
	return late
}

// End removes a call.
func (c *Calls) End(call *inflight.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, call)
	if c.closed && len(c.calls) == 0 {
		close(c.whenNone())
	}
}

// Close lets no new call start. It returns the number of running calls and a
// channel that is closed when they have finished. It must be called only once.
func (c *Calls) Close() (running int, none <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if len(c.calls) == 0 {
		close(c.whenNone())
	}
	return len(c.calls), c.whenNone()
}

// None returns the channel that [Calls.Close] returns, also before that.
func (c *Calls) None() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whenNone()
}

func (c *Calls) whenNone() chan struct{} {
	if c.none == nil {
		c.none = make(chan struct{})
	}
	return c.none
}
