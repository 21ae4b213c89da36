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
	pipe     string
	running  *inFlight
	turns    *semaphore.Weighted
	arriving atomic.Int32
	waiting  atomic.Int32
	streams  atomic.Int32

	// What is told in the log: that calls got no turn, and failures of those that
	// did.
	busy, failures seldom
}

// newGate makes the gate of a pipe, whose calls are counted by running.
func newGate(pipe string, running *inFlight) *gate {
	return &gate{pipe: pipe, running: running, turns: semaphore.NewWeighted(maxRunning), failures: seldom{most: mostFailures}}
}

// open lets a stream begin, unless too many are open.
func (g *gate) open() (leave func(), err error) {
	if g.streams.Add(1) > maxStreams {
		g.streams.Add(-1)
		return nil, &BusyError{Pipe: g.pipe, why: fmt.Sprintf("%d streams are open, and more are not taken", maxStreams)}
	}
	return func() { g.streams.Add(-1) }, nil
}

// arrive lets a call send its request, unless too many are at it.
func (g *gate) arrive() (arrived func(), err error) {
	if g.arriving.Add(1) > maxArriving {
		g.arriving.Add(-1)
		return nil, &BusyError{Pipe: g.pipe, why: fmt.Sprintf("%d calls have begun and sent no request", maxArriving)}
	}
	return func() { g.arriving.Add(-1) }, nil
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
		return nil, &BusyError{Pipe: g.pipe, why: fmt.Sprintf("%d calls run and %d wait, and more are not taken", maxRunning, maxWaiting)}
	}
	defer g.waiting.Add(-1)
	start := time.Now()
	err = g.turns.Acquire(ctx, 1)
	switch {
	case err == nil:
		return leave, nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &BusyError{Pipe: g.pipe, why: fmt.Sprintf("%d calls run, and none ended for this one in %v", maxRunning, time.Since(start).Round(time.Millisecond))}
	}
	return nil, err
}

// BusyError is the answer to a call that got no turn. Nothing was done for it.
type BusyError struct {
	Pipe string
	why  string
}

// Error tells the limit that was met.
func (e *BusyError) Error() string { return "pipe " + e.Pipe + " is busy: " + e.why }

const busyHint = "call again later; a call whose caller gave up runs until Windows lets go of it"

// seldom lets something be said so many times in a while, however often it
// happens.
type seldom struct {
	most int // 0 is 1

	mu     sync.Mutex
	since  time.Time
	said   int // since then
	unsaid int
}

const (
	// sayEvery is the while.
	sayEvery = 10 * time.Second

	// mostFailures is how many failures of calls of a pipe are told in sayEvery.
	// Drivers that call once in a while have all of theirs in the log.
	mostFailures = 100
)

// say reports whether it is time to speak, and of how many times nothing was
// said before this one.
func (s *seldom) say() (before int, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := time.Now(); s.since.IsZero() || t.Sub(s.since) >= sayEvery {
		s.since, s.said = t, 0
	}
	if s.said >= max(s.most, 1) {
		s.unsaid++
		return 0, false
	}
	s.said++
	before, s.unsaid = s.unsaid, 0
	return before, true
}
