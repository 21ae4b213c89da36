package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// limiter bounds the calls and streams of one pipe. At most maxRunning calls
// run at a time; the others wait in the order in which they arrived.
type limiter struct {
	pipe     string
	inFlight *inFlight
	slots    *semaphore.Weighted
	arriving atomic.Int32
	waiting  atomic.Int32
	streams  atomic.Int32

	// Limits on log lines: calls that were rejected, and calls that failed.
	busyLog, failureLog logLimiter
}

// newLimiter returns the limiter of a pipe. Its calls are counted in calls.
func newLimiter(pipe string, calls *inFlight) *limiter {
	return &limiter{pipe: pipe, inFlight: calls, slots: semaphore.NewWeighted(maxRunning), failureLog: logLimiter{most: maxFailureLines}}
}

// openStream counts a new stream, unless too many are open.
func (l *limiter) openStream() (done func(), err error) {
	if l.streams.Add(1) > maxStreams {
		l.streams.Add(-1)
		return nil, &BusyError{Pipe: l.pipe, reason: fmt.Sprintf("%d streams are open, which is the limit", maxStreams)}
	}
	return func() { l.streams.Add(-1) }, nil
}

// arrive counts a call whose request is on its way, unless there are too many.
func (l *limiter) arrive() (arrived func(), err error) {
	if l.arriving.Add(1) > maxArriving {
		l.arriving.Add(-1)
		return nil, &BusyError{Pipe: l.pipe, reason: fmt.Sprintf("%d calls have started without sending a request, which is the limit", maxArriving)}
	}
	return func() { l.arriving.Add(-1) }, nil
}

// acquire waits for a slot. It fails with a [BusyError] if ctx reaches its
// deadline first.
func (l *limiter) acquire(ctx context.Context) (release func(), err error) {
	release = func() { l.slots.Release(1) }
	if l.slots.TryAcquire(1) {
		return release, nil
	}
	if l.waiting.Add(1) > maxWaiting {
		l.waiting.Add(-1)
		return nil, &BusyError{Pipe: l.pipe, reason: fmt.Sprintf("%d calls are running and %d are waiting, which is the limit", maxRunning, maxWaiting)}
	}
	defer l.waiting.Add(-1)
	start := time.Now()
	err = l.slots.Acquire(ctx, 1)
	switch {
	case err == nil:
		return release, nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &BusyError{Pipe: l.pipe, reason: fmt.Sprintf("%d calls are running, and none of them finished in %v", maxRunning, time.Since(start).Round(time.Millisecond))}
	}
	return nil, err
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
