// Package inflight is the record of a server's call while it is in flight: its work may
// outlive it, runs on its own goroutines, and waits for locks that other calls hold. A
// driver in process has no such records, and pays nothing for them.
package inflight

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Call is a call of a server. Its exported fields do not change after [Call.Begin].
//
// It is in flight until the call and all its work are done. So a server that limits its
// calls in flight also limits the threads that hang in Windows: a caller that gives up
// does not free its thread.
type Call struct {
	ID      uint64 // unique in the process
	Pipe    string
	Method  string // "/v1.Disk/Rescan"
	Started time.Time

	// Process is the process at the other end of the connection, or 0 if it is not known.
	// Program returns what it runs.
	Process uint32
	Program func() string
	// Limit is how long it may take, if its caller has set no deadline; otherwise 0. The
	// server ends the context of [Call.Begin] then.
	Limit time.Duration
	// Steps, if set, keeps the steps of its work that failed, and marks it when it changes the
	// node.
	Steps *Steps

	ctx     callContext
	free    func()
	expired atomic.Bool
	changed atomic.Bool

	mu         sync.Mutex
	users      int
	request    any
	phase      Phase
	left       time.Time // when its caller had its answer or was gone; zero before
	goroutines []uint64  // that work for it, the innermost last
	first      [1]uint64
	wait       *Wait
	err        error  // of the work that ended last
	failed     []Step // of work that ended with an error
}

// Phase is how far a call has got.
type Phase string

// The phases of a call, in their order.
const (
	Receiving Phase = "receiving" // its request is on its way
	Queued    Phase = "queued"    // it waits for one of the pipe's slots
	Waiting   Phase = "waiting"   // it runs, but waits for a lock or for the work of another call
	Running   Phase = "running"
)

// Phases returns all phases.
func Phases() []Phase { return []Phase{Receiving, Queued, Waiting, Running} }

// Phase returns how far the call has got.
func (c *Call) Phase() Phase {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == Running && c.wait != nil {
		return Waiting
	}
	return c.phase
}

// Wait is what the work of a call waits for.
type Wait struct {
	What    string         // such as "disk 3"
	Holders func() []*Call // the calls that have it now; a nil one is work without a call
}

type key struct{}

// callContext is the context of a call. It is a part of the call, and has no timer for the
// call's limit: both would cost as much as the work of a short call.
type callContext struct {
	context.Context
	call *Call
}

// Deadline implements [context.Context].
func (c *callContext) Deadline() (time.Time, bool) {
	if c.call.Limit > 0 {
		return c.call.Started.Add(c.call.Limit), true
	}
	return c.Context.Deadline()
}

// Err implements [context.Context].
func (c *callContext) Err() error {
	err := c.Context.Err()
	if err != nil && c.call.expired.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// Value implements [context.Context].
func (c *callContext) Value(k any) any {
	if k == (key{}) {
		return c.call
	}
	return c.Context.Value(k)
}

// Expire notes that the call has reached its limit. The server must call it before it ends the
// context. A call that was canceled before stays so.
func (c *Call) Expire() {
	if c.ctx.Context.Err() == nil {
		c.expired.Store(true)
	}
}

// Expired reports whether the call has reached its limit.
func (c *Call) Expired() bool { return c.expired.Load() }

// Begin makes c the call of the returned context: work that [Call.Go] runs under it keeps c in
// flight. free is called once, after [Call.Leave] and after the last of that work.
func (c *Call) Begin(ctx context.Context, free func()) context.Context {
	c.mu.Lock() // it may be in a list already
	c.users, c.free, c.phase = 1, free, Receiving
	c.goroutines = c.first[:0]
	c.mu.Unlock()
	c.ctx = callContext{ctx, c}
	return &c.ctx
}

// Of returns the call of a context, or nil.
func Of(ctx context.Context) *Call {
	c, _ := ctx.Value(key{}).(*Call)
	return c
}

// Leave ends the call itself. It reports whether its work continues.
func (c *Call) Leave() (goesOn bool) {
	c.mu.Lock()
	if c.users > 1 {
		c.left = time.Now()
		goesOn = true
	}
	c.mu.Unlock()
	c.release()
	return goesOn
}

// Go runs f on another goroutine, and then done, even if f panics or ends its goroutine. c
// stays in flight until f has returned, unless it was done before. The error of f becomes
// the error of c's work. c may be nil.
func (c *Call) Go(f func() error, done func()) {
	if c == nil {
		go func() {
			defer done()
			_ = f() // the caller of Go has it
		}()
		return
	}
	held := c.hold()
	go func() {
		defer done()
		growStack()
		id := goroutineID()
		var err error
		defer func() {
			c.leave(id, err)
			if held { // before done: a caller that gets the result leaves nothing behind
				c.release()
			}
		}()
		c.enter(id)
		err = f()
	}()
}

// growStack gives a new goroutine the stack that work takes. Without that, the stack doubles three
// times on the way into the work, and what is on it is copied each time, which takes four times as
// long as all else about a goroutine.
//
//go:noinline
func growStack() byte {
	var b [12 << 10]byte
	return b[unused]
}

// unused is an index that the compiler does not know.
var unused int

// hold keeps the call in flight until release is called. It returns false if the call is
// done.
func (c *Call) hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 {
		return false
	}
	c.users++
	return true
}

func (c *Call) release() {
	c.mu.Lock()
	c.users--
	last := c.users == 0
	c.mu.Unlock()
	if last {
		c.free()
	}
}

// MarkChanged notes that the work of the call has changed the node, or may have. c may be nil.
func (c *Call) MarkChanged() {
	if c != nil {
		c.changed.Store(true)
	}
}

// Changed reports whether the work of the call has changed the node, as far as that was
// observed: without Steps, it has not.
func (c *Call) Changed() bool { return c.changed.Load() }

// Works reports whether work of the call goes on.
func (c *Call) Works() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.users > 1
}

// SetPhase notes how far the call has got. A nil request leaves the known one.
func (c *Call) SetPhase(p Phase, request any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = p
	if request != nil {
		c.request = request
	}
}

// Request returns the request, or nil if it has not arrived.
func (c *Call) Request() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.request
}

// Left returns when the caller left the call's work, or the zero time.
func (c *Call) Left() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// Err returns the error of the work that ended last.
func (c *Call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// enter notes that a goroutine works for c.
func (c *Call) enter(id uint64) {
	c.Steps.begin(id, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goroutines = append(c.goroutines, id)
}

// leave notes that its work has ended, with this error.
func (c *Call) leave(id uint64, err error) {
	defer c.Steps.end(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	if err != nil {
		c.failed = lastSteps(append(c.failed, c.Steps.of(id)...))
	}
	c.goroutines = slices.DeleteFunc(c.goroutines, func(g uint64) bool { return g == id })
}

// SetWait notes what the work waits for; nil ends that. c may be nil.
func (c *Call) SetWait(w *Wait) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait = w
}

// State is what is known about a call at one moment.
type State struct {
	*Call
	Phase   Phase
	Request any       // nil until it has arrived
	Left    time.Time // zero while its caller waits
	Stack   []byte    // of its innermost work; nil if it does none
	Waits   string    // what it waits for, or empty
	Holders []*Call   // who has that
}

// States returns the states of calls, in their order, without those that are done.
func States(calls []*Call) []State {
	var all []State
	var innermost []uint64
	for _, c := range calls {
		c.mu.Lock()
		s, wait, done := State{Call: c, Phase: c.phase, Request: c.request, Left: c.left}, c.wait, c.users == 0
		c.mu.Unlock()
		if done {
			continue
		}
		id := c.innermost()
		if wait != nil { // without the lock of c: the other side may want it
			s.Waits, s.Holders = wait.What, wait.Holders()
		}
		all, innermost = append(all, s), append(innermost, id)
	}
	stacks := stacksOf(innermost)
	for i, id := range innermost {
		all[i].Stack = stacks[id]
	}
	return all
}

// innermost returns the number of the goroutine of the innermost work, or 0 if there is none.
func (c *Call) innermost() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.goroutines); n > 0 {
		return c.goroutines[n-1]
	}
	return 0
}

// maxStacks limits the text of the stacks of all goroutines.
const maxStacks = 16 << 20

// stacksOf returns the stacks of goroutines.
func stacksOf(ids []uint64) map[uint64][]byte {
	found := map[uint64][]byte{}
	if !slices.ContainsFunc(ids, func(id uint64) bool { return id != 0 }) {
		return found // it would stop all goroutines for nothing
	}
	b := make([]byte, 64<<10)
	for {
		n := runtime.Stack(b, true)
		if n < len(b) || len(b) >= maxStacks {
			b = b[:n]
			break
		}
		b = make([]byte, 2*len(b))
	}
	for stack := range bytes.SplitSeq(b, []byte("\n\n")) {
		if id := idOf(stack); id != 0 && slices.Contains(ids, id) {
			found[id] = stack
		}
	}
	return found
}

// goroutineID returns the number that Go's stack traces have for this goroutine. It is only
// used to find its stack in such a trace.
func goroutineID() uint64 {
	var b [40]byte
	return idOf(b[:runtime.Stack(b[:], false)])
}

// idOf returns the number in the first line of a stack: "goroutine 18 [running]:".
func idOf(stack []byte) uint64 {
	rest, ok := bytes.CutPrefix(stack, []byte("goroutine "))
	if !ok {
		return 0
	}
	number, _, _ := bytes.Cut(rest, []byte(" "))
	id, _ := strconv.ParseUint(string(number), 10, 64)
	return id
}
