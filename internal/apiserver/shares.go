package apiserver

import "sync"

// shares are a resource of a pipe that its callers share, such as its connections. At most
// limit are held at a time. When all are held, a new holder takes the place of one of the
// caller that holds most, so a caller that leaves connections or calls open harms itself.
type shares struct {
	limit int
	// queue means that who comes later does not take the place of an earlier one of the
	// same caller.
	queue bool

	mu   sync.Mutex
	held map[*share]struct{}
	turn uint64 // counts uses
}

// share is one unit of a resource.
type share struct {
	of   *caller
	lost chan struct{} // closed when another holder has taken its place
	used uint64        // the turn of the last use

	// Of a connection. One that was not used yet is lost before others, and one with a
	// running call is not lost.
	conn   *conn
	unused bool
}

func newShares(limit int) *shares { return &shares{limit: limit, held: map[*share]struct{}{}} }

// take adds s to the shares. If all are held, it removes and returns the share that s takes
// the place of; ok is false if there is none.
func (r *shares) take(s *share) (replaced *share, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) >= r.limit {
		if replaced = r.least(s); replaced == nil {
			return nil, false
		}
		r.drop(replaced)
	}
	s.lost = make(chan struct{})
	r.held[s] = struct{}{}
	r.touch(s)
	return replaced, true
}

// touch makes s the share that was used last. The caller holds mu.
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

// drop removes s if it is held. The caller holds mu.
func (r *shares) drop(s *share) {
	if _, held := r.held[s]; held {
		delete(r.held, s)
		close(s.lost)
	}
}

// put gives s back.
func (r *shares) put(s *share) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(s)
}

// least returns the share whose place s takes: of the callers with most shares, of their
// connections with most, the one that was not used for the longest time. A caller never
// takes the place of one that has fewer.
func (r *shares) least(s *share) (found *share) {
	owners, connections := map[owner]int{s.of.owner(): 1}, map[*caller]int{s.of: 1}
	for h := range r.held {
		owners[h.of.owner()]++
		connections[h.of]++
	}
	// first reports whether a is lost before b.
	first := func(a, b *share) bool {
		if x, y := owners[a.of.owner()], owners[b.of.owner()]; x != y {
			return x > y
		}
		if x, y := connections[a.of], connections[b.of]; x != y {
			return x > y
		}
		if a.unused != b.unused {
			return a.unused
		}
		return a.used < b.used
	}
	for h := range r.held {
		more := owners[h.of.owner()] - owners[s.of.owner()]
		if more < 0 || r.queue && more == 0 || h.conn != nil && h.of.calls.Load() > 0 {
			continue
		}
		if found == nil || first(h, found) {
			found = h
		}
	}
	return found
}
