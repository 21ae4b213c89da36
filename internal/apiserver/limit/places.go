package limit

// places are one of the things that callers share. At most so many are taken at a time. The
// caller of its methods holds the lock of the pipe.
type places struct {
	most      int
	taken     []*place
	turn      uint64 // counts uses
	processes tops   // by how many places they have
}

// tops knows the greatest of some counts.
type tops struct {
	have []int // how many of them have a value
	top  int   // the greatest value
}

// add changes one of the counts by 1 or -1.
func (t *tops) add(n *int, by int) {
	if *n > 0 {
		t.have[*n]--
	}
	*n += by
	for len(t.have) <= *n {
		t.have = append(t.have, 0)
	}
	t.have[*n]++
	for t.top = max(t.top, *n); t.top > 0 && t.have[t.top] == 0; {
		t.top--
	}
}

// place is one of the places.
type place struct {
	of   *Conn
	call *Call  // nil for a connection
	at   int    // 1 more than its index among those that are taken; 0 if it is none
	used uint64 // the turn of the last use

	ofProcess *int // how many places its process has

	// yields says how easily a connection is given up. It is nil for a call, which is lost only to
	// a process with fewer.
	yields func() yielding
}

// yielding says how easily a place is given up, the easiest first.
type yielding int

const (
	unused yielding = iota
	idle
	inUse
	never
)

// take takes a place for p. If there is none, p takes that of another one, which it returns; ok
// is false if nothing may be taken from anyone.
func (s *places) take(p *place) (lost *place, ok bool) {
	s.processes.add(p.ofProcess, 1)
	if len(s.taken) >= s.most {
		if lost = s.victim(p); lost == nil {
			s.processes.add(p.ofProcess, -1)
			return nil, false
		}
		s.put(lost)
	}
	if p.call != nil {
		p.of.calls++
	}
	s.taken = append(s.taken, p)
	p.at = len(s.taken)
	s.use(p)
	return lost, true
}

// use makes p the one that was used last.
func (s *places) use(p *place) {
	s.turn++
	p.used = s.turn
}

// put gives a place back. It returns false if it was lost.
func (s *places) put(p *place) bool {
	if p.at == 0 {
		return false
	}
	last := s.taken[len(s.taken)-1]
	s.taken[p.at-1], last.at = last, p.at
	s.taken[len(s.taken)-1] = nil
	s.taken = s.taken[:len(s.taken)-1]
	p.at = 0
	if p.call != nil {
		p.of.calls--
	}
	s.processes.add(p.ofProcess, -1)
	return true
}

// victim returns the place that p takes, or nil. It is of the process that has most: one that was
// never used, or else is idle, or else was not used for the longest time. A process never takes a
// place of one that has fewer.
func (s *places) victim(p *place) (found *place) {
	if p.call != nil && *p.ofProcess >= s.processes.top {
		return nil // a flood finds out without a look at all places
	}
	var best yielding
	for _, h := range s.taken {
		if h.of.closed {
			return h // its goroutine has not noticed yet
		}
		if *h.ofProcess < *p.ofProcess {
			continue
		}
		how := inUse
		if h.yields != nil {
			how = h.yields()
		}
		switch {
		case how == never:
			continue
		case *h.ofProcess > *p.ofProcess, how < inUse:
		case h.ofProcess != p.ofProcess || p.call != nil: // another process that has as many keeps what it uses
			continue
		}
		if found == nil || h.before(how, found, best) {
			found, best = h, how
		}
	}
	return found
}

// before reports whether h is lost before o.
func (h *place) before(how yielding, o *place, other yielding) bool {
	switch {
	case *h.ofProcess != *o.ofProcess:
		return *h.ofProcess > *o.ofProcess
	case how != other:
		return how < other
	}
	return h.used < o.used
}
