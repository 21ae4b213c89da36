package inflight

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// keptSteps is how many steps [Steps] keeps of all work.
	keptSteps = 256
	// maxSteps is how many steps a call keeps.
	maxSteps = 16
	// maxStepText limits the object of a step, in bytes.
	maxStepText = 512
)

// Step is a step of work that failed: a Win32 call.
type Step struct {
	At     time.Time
	Call   string // "DeviceIoControl"
	Code   uint32 // of the call, such as a control code, or 0
	Object string // such as a path; may be empty
	Err    error

	number    uint64
	goroutine uint64
}

// Steps is what the observer of Win32 calls has seen in the work of calls: which calls have
// changed the node ([Steps.Change]), and the last steps that failed, so that a call that fails can
// have its own. It is safe for concurrent use, and its zero value is ready to use. A nil Steps
// keeps nothing.
type Steps struct {
	working atomic.Int64 // work that may need steps

	mu      sync.Mutex
	added   uint64
	last    [keptSteps]Step
	workers map[uint64]*Call // by goroutine
}

// Change notes that this goroutine has changed the node, or may have. Without work of a call it
// does nothing.
func (s *Steps) Change() {
	if s == nil || s.working.Load() == 0 {
		return
	}
	id := goroutineID()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.workers[id]; c != nil {
		c.MarkChanged()
	}
}

// Add adds a step of this goroutine. Without work of a call it does nothing.
func (s *Steps) Add(step Step) {
	if s == nil || s.working.Load() == 0 {
		return
	}
	if len(step.Object) > maxStepText {
		step.Object = strings.ToValidUTF8(step.Object[:maxStepText], "") + "…"
	}
	step.At, step.goroutine = time.Now(), goroutineID()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added++
	step.number = s.added
	s.last[step.number%keptSteps] = step
}

// begin notes that a goroutine begins to work for c.
func (s *Steps) begin(id uint64, c *Call) {
	if s == nil {
		return
	}
	s.working.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers == nil {
		s.workers = map[uint64]*Call{}
	}
	s.workers[id] = c
}

// end notes that the work of a goroutine has ended.
func (s *Steps) end(id uint64) {
	if s == nil {
		return
	}
	s.working.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.workers, id)
}

// of returns the kept steps of a goroutine.
func (s *Steps) of(goroutine uint64) (steps []Step) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range s.last {
		if step.goroutine == goroutine {
			steps = append(steps, step)
		}
	}
	return steps
}

// FailedSteps returns the last steps of the call's work that failed, in their order: of work
// that ended with an error, and of work that continues.
func (c *Call) FailedSteps() []Step {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps := append([]Step(nil), c.failed...)
	for _, g := range c.goroutines {
		steps = append(steps, c.Steps.of(g)...)
	}
	return lastSteps(steps)
}

// lastSteps sorts steps, which are few and nearly sorted, and returns the last ones. The
// sort of package slices would make the program larger.
func lastSteps(steps []Step) []Step {
	for i := range steps {
		for j := i; j > 0 && steps[j-1].number > steps[j].number; j-- {
			steps[j-1], steps[j] = steps[j], steps[j-1]
		}
	}
	return steps[max(0, len(steps)-maxSteps):]
}
