package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// gate lets the calls of one pipe run, maxRunning at a time, in the order in
// which they came.
type gate struct {
	pipe    string
	turns   *semaphore.Weighted
	waiting atomic.Int32
	busy    seldom // told in the log
}

func newGate(pipe string) *gate {
	return &gate{pipe: pipe, turns: semaphore.NewWeighted(maxRunning)}
}

// enter waits for a turn until ctx ends, which is a [BusyError] at its deadline.
// leave gives the turn to the next one.
func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { g.turns.Release(1) }
	if g.turns.TryAcquire(1) {
		return leave, nil
	}
	if g.waiting.Add(1) > maxWaiting {
		g.waiting.Add(-1)
		return nil, g.full()
	}
	defer g.waiting.Add(-1)
	start := time.Now()
	err = g.turns.Acquire(ctx, 1)
	switch {
	case err == nil:
		return leave, nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &BusyError{Pipe: g.pipe, Waited: time.Since(start)}
	}
	return nil, err
}

// full is the error of a call that cannot even wait.
func (g *gate) full() error { return &BusyError{Pipe: g.pipe} }

// BusyError is the answer to a call that got no turn. Nothing was done for it.
type BusyError struct {
	Pipe   string
	Waited time.Duration // until its deadline; 0 if too many waited already
}

// Error tells the limits.
func (e *BusyError) Error() string {
	if e.Waited > 0 {
		return fmt.Sprintf("pipe %s is busy: %d calls run, and none ended for this one in %v", e.Pipe, maxRunning, e.Waited.Round(time.Millisecond))
	}
	return fmt.Sprintf("pipe %s is busy: %d calls run and %d wait, and more are not taken", e.Pipe, maxRunning, maxWaiting)
}

const busyHint = "call again later; a call whose caller gave up runs until Windows lets go of it"

// seldom lets something be said once in a while, however often it happens.
type seldom struct {
	mu     sync.Mutex
	said   time.Time
	unsaid int
}

// sayEvery is the while.
const sayEvery = 10 * time.Second

// say reports whether it is time to speak, and of how many times nothing was
// said before this one.
func (s *seldom) say() (before int, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := time.Now(); s.said.IsZero() || t.Sub(s.said) >= sayEvery {
		before, s.unsaid, s.said = s.unsaid, 0, t
		return before, true
	}
	s.unsaid++
	return 0, false
}
