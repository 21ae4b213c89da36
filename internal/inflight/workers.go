package inflight

import (
	"fmt"
	"sync"
	"time"
)

const (
	// maxIdle is how many goroutines of [Workers] wait for work.
	maxIdle = 8
	// idleInterval is the time after which goroutines without work end.
	idleInterval = 5 * time.Second
)

// Workers are goroutines that run work one after another. A new goroutine for each piece of
// work would grow its stack and look up its number each time, which takes longer than most
// work. There is no limit on running goroutines; some of them wait a while for more work
// when theirs has ended. The zero value is ready to use.
type Workers struct {
	mu     sync.Mutex
	idle   []*worker // the most recent is last: its stack is in the cache
	unused int       // of idle, the first, that have waited since the last trim
	timer  *time.Timer
	closed bool
}

type worker struct {
	id   uint64
	next chan job
}

// PanicError is a panic that was recovered in work. Its goroutine gets no other work and ends,
// and with it a thread that the work had locked and left in an unusual state.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

type job struct {
	work func(goroutine uint64) (again bool)
	done func()
}

// run runs work, and then done, on a goroutine that waits for work, or on a new one. work
// returns whether its goroutine may get more.
func (w *Workers) run(work func(goroutine uint64) (again bool), done func()) {
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		free := w.idle[n-1]
		w.idle[n-1], w.idle = nil, w.idle[:n-1]
		w.unused = min(w.unused, n-1)
		w.mu.Unlock()
		free.next <- job{work, done}
		return
	}
	w.mu.Unlock()
	go w.loop(job{work, done})
}

// loop runs j and then what it is given, unless enough others wait.
func (w *Workers) loop(j job) {
	self := &worker{id: goroutineID(), next: make(chan job, 1)}
	for {
		if !w.do(self, j) {
			return
		}
		j = job{} // do not keep references to it
		var ok bool
		if j, ok = <-self.next; !ok {
			return
		}
	}
}

// do runs j. It returns whether the worker may stay.
func (w *Workers) do(self *worker, j job) (stays bool) {
	again := false // also if it does not return
	defer func() {
		// Before done: the next call of a caller that gets the result finds it waiting.
		stays = again && w.wait(self)
		j.done()
	}()
	again = j.work(self.id)
	return
}

// wait adds a worker to those that wait. It returns false if there are enough.
func (w *Workers) wait(self *worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.idle) >= maxIdle {
		return false
	}
	w.idle = append(w.idle, self)
	if w.timer == nil {
		w.unused = 0
		w.timer = time.AfterFunc(idleInterval, w.trim)
	}
	return true
}

// trim ends the goroutines that have waited since the last trim.
func (w *Workers) trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(w.unused)
	w.unused = len(w.idle)
	if w.timer = nil; len(w.idle) > 0 {
		w.timer = time.AfterFunc(idleInterval, w.trim)
	}
}

// end ends the first n of those that wait. The caller holds mu.
func (w *Workers) end(n int) {
	for _, free := range w.idle[:n] {
		close(free.next)
	}
	w.idle = append(w.idle[:0], w.idle[n:]...)
}

// Close ends the waiting goroutines, and lets no more wait.
func (w *Workers) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.end(len(w.idle))
	w.unused = 0
	if w.timer != nil {
		w.timer.Stop()
	}
}
