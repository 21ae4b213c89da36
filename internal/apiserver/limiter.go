package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// limiter bounds the calls and streams of one pipe. At most maxRunning calls run at a time.
// The next one to run is of the caller with the fewest running calls; calls of one caller
// run in the order in which they arrived.
type limiter struct {
	pipe     string
	quiet    bool // failures of calls are not logged, unless csi-proxy causes them
	looks    bool // [Pipe.Looks]
	calls    *Calls
	arriving *shares
	waiting  *shares
	streams  *shares

	mu      sync.Mutex
	free    int // slots
	running map[owner]int
	queue   []*waiter // in the order of arrival

	// Limits on log lines: calls that were rejected, and calls that failed.
	busyLog, failureLog logLimiter
}

// waiter is a call that waits for a slot.
type waiter struct {
	of   *caller
	runs chan struct{} // closed when it has a slot
}

// newLimiter returns the limiter of a pipe. Its calls are counted in calls.
func newLimiter(pipe string, calls *Calls) *limiter {
	arriving, waiting := newShares(maxArriving), newShares(maxWaiting)
	arriving.late, arriving.time = func(s *share) { s.call.abort() }, receiptLimit
	waiting.queue = true
	return &limiter{
		pipe: pipe, calls: calls, free: maxRunning, running: map[owner]int{},
		arriving: arriving, waiting: waiting, streams: newShares(maxStreams),
		failureLog: logLimiter{most: maxFailureLines},
	}
}

// Calls and streams are never busy, so a new one always gets a place, unless its caller has
// more than every other.

// openStream counts a new stream. It ends when lost is closed.
func (l *limiter) openStream(c *caller) (lost <-chan struct{}, done func(), err error) {
	s := &share{of: c, lost: make(chan struct{})}
	replaced, ok := l.streams.take(s)
	if !ok {
		return nil, nil, l.manyStreams()
	}
	if replaced != nil {
		close(replaced.lost)
	}
	return s.lost, func() { l.streams.put(s) }, nil
}

func (l *limiter) manyStreams() error {
	return &BusyError{Pipe: l.pipe, reason: fmt.Sprintf("%d streams are open, which is the limit", maxStreams)}
}

// arrive counts a call whose request is on its way.
func (l *limiter) arrive(s *share) error {
	replaced, ok := l.arriving.take(s)
	if !ok {
		return l.manyArriving()
	}
	if replaced != nil {
		replaced.call.abort()
	}
	return nil
}

func (l *limiter) manyArriving() error {
	return &BusyError{Pipe: l.pipe, reason: fmt.Sprintf("%d calls have started without sending a request, which is the limit", maxArriving)}
}

// tryAcquire takes a slot if one is free.
func (l *limiter) tryAcquire(c *caller) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free == 0 {
		return false
	}
	l.start(c)
	return true
}

// acquire waits for a slot. It fails with a [BusyError] if ctx reaches its
// deadline first.
func (l *limiter) acquire(ctx context.Context, c *caller) (err error) {
	w := &waiter{c, make(chan struct{})}
	tooMany := &BusyError{Pipe: l.pipe, reason: fmt.Sprintf("%d calls are running and %d are waiting, which is the limit", maxRunning, maxWaiting)}
	s := &share{of: c, lost: make(chan struct{})}
	replaced, ok := l.waiting.take(s)
	if !ok {
		return tooMany
	}
	if replaced != nil {
		close(replaced.lost)
	}
	defer l.waiting.put(s)
	l.enqueue(w)
	begun := time.Now()
	select {
	case <-w.runs:
		return nil
	case <-s.lost:
		err = tooMany
	case <-ctx.Done():
		if err = ctx.Err(); errors.Is(err, context.DeadlineExceeded) || timeIsOver(ctx, time.Now()) {
			err = l.allRunning(time.Since(begun))
		}
	}
	if !l.leave(w) {
		l.release(c) // it got a slot in the meantime
	}
	return err
}

// allRunning is the error of a call that has waited for a slot for so long.
func (l *limiter) allRunning(waited time.Duration) error {
	return &BusyError{Pipe: l.pipe, reason: fmt.Sprintf("%d calls are running, and none of them finished in %v", maxRunning, waited.Round(time.Millisecond))}
}

// start takes a slot. The caller holds mu.
func (l *limiter) start(c *caller) {
	l.free--
	l.running[c.owner()]++
	if c != nil {
		c.calls.Add(1)
	}
}

// enqueue adds w to the queue, unless a slot has become free.
func (l *limiter) enqueue(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, w)
	l.next()
}

// leave removes w from the queue. It returns false if w is not in it.
func (l *limiter) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, w)
	if i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	return i >= 0
}

// release gives a slot back.
func (l *limiter) release(c *caller) {
	if c != nil {
		c.calls.Add(-1)
		if c.idle != nil {
			c.idle()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free++
	of := c.owner()
	if l.running[of]--; l.running[of] == 0 {
		delete(l.running, of)
	}
	l.next()
}

// next gives free slots to waiting calls. The caller holds mu.
func (l *limiter) next() {
	for l.free > 0 && len(l.queue) > 0 {
		least := 0
		for i, w := range l.queue {
			if l.running[w.of.owner()] < l.running[l.queue[least].of.owner()] {
				least = i
			}
		}
		w := l.queue[least]
		l.queue = slices.Delete(l.queue, least, least+1)
		l.start(w.of)
		close(w.runs)
	}
}

// BusyError rejects a call because its pipe reached a limit. Nothing was done
// for the call.
type BusyError struct {
	Pipe   string
	reason string
}

// Error names the pipe and the limit.
func (e *BusyError) Error() string { return "pipe " + e.Pipe + " is busy: " + e.reason }

const busyHint = "call again later; a call whose caller gave up keeps running until Windows finishes it"
