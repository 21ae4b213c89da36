package win32

import (
	"sync/atomic"
	"time"
)

// Counts counts the calls of an [API] by name. It is safe for concurrent use.
type Counts struct{ calls map[string]*count }

type count struct {
	begun, ended, failed atomic.Uint64
	nanoseconds          atomic.Int64
}

// Count is what is known of the calls with one name.
type Count struct {
	Call    string
	Calls   uint64        // that were begun
	Running uint64        // of these, those that have not returned
	Errors  uint64        // that returned an error, also one that the caller expects
	Took    time.Duration // of all that have returned
}

// NewCounts returns counts that are zero.
func NewCounts() *Counts {
	c := &Counts{calls: map[string]*count{}}
	for _, name := range CallNames() {
		c.calls[name] = new(count)
	}
	return c
}

// All returns the counts of all calls, sorted by name. A nil Counts has none.
func (c *Counts) All() []Count {
	if c == nil {
		return nil
	}
	var all []Count
	for _, name := range CallNames() {
		n := c.calls[name]
		ended := n.ended.Load() // before begun, so that Running is never negative
		begun := n.begun.Load()
		all = append(all, Count{Call: name, Calls: begun, Running: begun - ended, Errors: n.failed.Load(), Took: time.Duration(n.nanoseconds.Load())})
	}
	return all
}

// count makes a call and counts it. A nil Counts only makes it.
func (c *Counts) count(name string, do func() error) (err error) {
	if c == nil {
		return do()
	}
	n := c.calls[name]
	n.begun.Add(1)
	begin := time.Now()
	defer func() { // also if it panics
		n.nanoseconds.Add(int64(time.Since(begin)))
		if err != nil {
			n.failed.Add(1)
		}
		n.ended.Add(1)
	}()
	return do()
}
