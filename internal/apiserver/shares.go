package apiserver

import (
	"slices"
	"sync"
	"time"
)

// shares are a resource of a pipe that its callers share, such as its connections. At most
// limit are held at a time. When all are held, a new share replaces one of the caller that
// holds most, so a caller that leaves connections or calls open harms itself.
type shares struct {
	limit int
	// queue means that a later share does not replace an earlier one of the same
	// connection, or of a connection of the same process that has no more than its own.
	queue bool

	// late, if set, is called for shares that were lost because they were held for time.
	late func(*share)
	time time.Duration

	mu      sync.Mutex
	held    []*share
	owners  map[owner]*holding
	callers map[*caller]*holding
	spare   []*holding
	turn    uint64 // counts uses
	timed   bool   // a timer is running that looks for late shares
}

// holding is how many shares an owner or a caller has, so that they need not be counted for
// each new one.
type holding struct{ n int }

// share is one unit of a resource.
type share struct {
	of    *caller
	used  uint64    // the turn of the last use
	since time.Time // when it was taken, if that has a limit
	late  bool      // it was lost because it was held for too long

	// While it is held, or is about to be.
	place         int // among those that are held; -1 if it is none
	owner, caller *holding

	// Of a connection. One that was not used yet is lost before others, and one with a
	// running call is not lost.
	conn   *conn
	unused bool

	call *call         // whose request is on its way
	lost chan struct{} // of a stream or a waiting call: closed when it is lost
}

func newShares(limit int) *shares {
	return &shares{limit: limit, owners: map[owner]*holding{}, callers: map[*caller]*holding{}}
}

// add counts s as a share of its owner and its caller. The caller holds mu.
func (r *shares) add(s *share) {
	s.owner, s.caller = counted(r, r.owners, s.of.owner()), counted(r, r.callers, s.of)
	s.owner.n++
	s.caller.n++
	s.place = -1
}

// counted returns the holding of a key.
func counted[K comparable](r *shares, of map[K]*holding, key K) *holding {
	h, ok := of[key]
	if ok {
		return h
	}
	if n := len(r.spare); n > 0 {
		h, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		h = &holding{}
	}
	of[key] = h
	return h
}

// spared keeps a holding for the next one.
func (r *shares) spared(h *holding) {
	if len(r.spare) < 2*maxCalls {
		r.spare = append(r.spare, h)
	}
}

// remove undoes add. The caller holds mu.
func (r *shares) remove(s *share) {
	if s.owner.n--; s.owner.n == 0 {
		delete(r.owners, s.of.owner())
		r.spared(s.owner)
	}
	if s.caller.n--; s.caller.n == 0 {
		delete(r.callers, s.of)
		r.spared(s.caller)
	}
}

// take adds s to the shares. If all are held, it removes and returns the share that s
// replaces; ok is false if there is none.
func (r *shares) take(s *share) (replaced *share, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(s)
	if len(r.held) >= r.limit {
		if replaced = r.replaceable(s); replaced == nil {
			r.remove(s)
			return nil, false
		}
		r.drop(replaced)
	}
	if r.late != nil {
		s.since = time.Now()
		if !r.timed {
			r.timed = true
			time.AfterFunc(r.time, r.expire)
		}
	}
	s.place = len(r.held)
	r.held = append(r.held, s)
	r.touch(s)
	return replaced, true
}

// touch makes s the most recently used share. The caller holds mu.
func (r *shares) touch(s *share) {
	r.turn++
	s.used = r.turn
}

// use notes a use of s.
func (r *shares) use(s *share) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.unused = false
	r.touch(s)
}

// drop removes s, which is held. The caller holds mu.
func (r *shares) drop(s *share) {
	last := len(r.held) - 1
	r.held[s.place], r.held[last].place = r.held[last], s.place
	r.held[last], r.held = nil, r.held[:last]
	s.place = -1
	r.remove(s)
}

// expire removes the shares that are late, and checks again when the next one is.
func (r *shares) expire() {
	for _, s := range r.overdue() {
		r.late(s)
	}
}

// overdue removes and returns the shares that are late.
func (r *shares) overdue() (late []*share) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	next := r.time
	for _, s := range slices.Clone(r.held) {
		if left := r.time - now.Sub(s.since); left > 0 {
			next = min(next, left)
			continue
		}
		r.drop(s)
		s.late = true
		late = append(late, s)
	}
	if r.timed = len(r.held) > 0; r.timed {
		time.AfterFunc(next, r.expire)
	}
	return late
}

// put gives s back. It returns false if s was lost. s must have been taken.
func (r *shares) put(s *share) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := s.place >= 0
	if held {
		r.drop(s)
	}
	return held
}

// replaceable returns the share that s replaces. If it is a connection, no more calls start
// on it. The caller holds mu.
func (r *shares) replaceable(s *share) *share {
	for {
		found := r.least(s)
		if found == nil || found.conn == nil || found.of.gone() || found.of.replace() {
			return found
		}
		// A call has started on it since least checked.
	}
}

// least returns the share that s replaces: among the callers with most shares, and their
// connections with most, the least recently used one. A caller never replaces a share of
// one that has fewer or, in a queue, as many. A caller that has left loses its shares
// before all others.
func (r *shares) least(s *share) (found *share) {
	// first reports whether a is lost before b.
	first := func(a, b *share) bool {
		if a.owner.n != b.owner.n {
			return a.owner.n > b.owner.n
		}
		if a.caller.n != b.caller.n {
			return a.caller.n > b.caller.n
		}
		if a.unused != b.unused {
			return a.unused
		}
		return a.used < b.used
	}
	// keeps reports whether h keeps its place in a queue.
	keeps := func(h *share) bool {
		if h.owner == s.owner {
			return h.caller.n <= s.caller.n
		}
		return h.owner.n <= s.owner.n
	}
	for _, h := range r.held {
		if h.of.gone() {
			return h
		}
		if h.owner.n < s.owner.n || r.queue && keeps(h) || h.conn != nil && h.of.calls.Load() > 0 {
			continue
		}
		if found == nil || first(h, found) {
			found = h
		}
	}
	return found
}
