package apiserver

import (
	"context"
	"net"
	"testing"
)

// A caller that takes more and more loses its own shares, the longest unused first.
func TestSharesOfTheGreedyAreLost(t *testing.T) {
	connection := func(pid uint32) *share { return (&conn{caller: &caller{pid: pid}}).newShare() }
	r := newShares(8)
	take := func(s *share) *share {
		t.Helper()
		replaced, ok := r.take(s)
		if !ok {
			t.Fatal("a new share is refused")
		}
		return replaced
	}
	honest := []*share{connection(1), connection(2), connection(3)}
	for _, s := range honest {
		take(s)
		r.use(s)
	}
	var greedy []*share
	for i := range 100 {
		s := connection(9)
		replaced := take(s)
		r.use(s)
		greedy = append(greedy, s)
		if want := len(greedy) - 6; i < 5 && replaced != nil || i >= 5 && replaced != greedy[want] {
			t.Fatalf("the share %d of the greedy took the place of %+v", i, replaced)
		}
	}
	// A new caller replaces a share of the greedy one: an unused one, or else the
	// oldest that is not running a call.
	r.use(greedy[95])
	greedy[96].of.calls.Add(1)
	if replaced := take(connection(4)); replaced != greedy[97] {
		t.Errorf("a new caller took the place of %+v", replaced)
	}
	unused := connection(9)
	if replaced := take(unused); replaced != greedy[98] {
		t.Errorf("the greedy took the place of %+v", replaced)
	}
	if replaced := take(connection(5)); replaced != unused {
		t.Errorf("a new caller took the place of %+v", replaced)
	}
	for _, s := range honest {
		if s.place < 0 {
			t.Error("an honest caller lost its share")
		}
	}
	// All that the greedy caller has left is running calls: it gets no more shares.
	for _, s := range greedy {
		s.of.calls.Store(1)
	}
	if _, ok := r.take(connection(9)); ok {
		t.Error("the greedy took the place of a smaller caller")
	}
}

// A connection on which a call starts is not closed for another one, whichever comes first.
func TestConnectionThatStartsACallIsNotReplaced(t *testing.T) {
	for range 2000 {
		idle := (&conn{caller: &caller{pid: 1}}).newShare()
		r, l := newShares(1), newLimiter("p", new(Calls))
		r.take(idle)
		runs := make(chan bool)
		go func() { runs <- l.tryAcquire(idle.of) && !idle.of.wasReplaced() }()
		_, replaced := r.take((&conn{caller: &caller{pid: 2}}).newShare())
		if <-runs == replaced {
			t.Fatalf("the connection was replaced: %t, and its call runs: %[1]t", replaced)
		}
	}
}

// In a queue, a call replaces another only if the other's process has more or, in the same
// process, its connection.
func TestQueueKeepsItsOrder(t *testing.T) {
	r := newShares(4)
	r.queue = true
	one, two := &caller{pid: 1}, &caller{pid: 1}
	var calls []*share
	for range 4 {
		s := &share{of: one}
		if _, ok := r.take(s); !ok {
			t.Fatal("refused below the limit")
		}
		calls = append(calls, s)
	}
	if _, ok := r.take(&share{of: one}); ok {
		t.Error("a later call of the same connection took the place of an earlier one")
	}
	for i := range 2 {
		if replaced, ok := r.take(&share{of: two}); !ok || replaced != calls[i] {
			t.Errorf("another connection of the same process took the place of %+v, %t", replaced, ok)
		}
	}
	if _, ok := r.take(&share{of: two}); ok {
		t.Error("a call took the place of one of a connection that has no more")
	}
	if replaced, ok := r.take(&share{of: &caller{pid: 2}}); !ok || replaced != calls[2] {
		t.Errorf("another process took the place of %+v, %t", replaced, ok)
	}
}

// A call whose connection is closed does not keep its place until its goroutine notices.
func TestQueueForgetsCallersThatLeft(t *testing.T) {
	r := newShares(2)
	r.queue = true
	stays, leaves := &share{of: &caller{pid: 1}}, &share{of: &caller{pid: 1}}
	r.take(stays)
	r.take(leaves)
	next := &share{of: &caller{pid: 1}}
	if _, ok := r.take(next); ok {
		t.Fatal("a call took the place of one of a connection that has no more")
	}
	client, server := net.Pipe()
	defer client.Close()
	c := &conn{Conn: server, caller: leaves.of, listener: newConns("pipe", nil, nil)}
	c.share = c.newShare()
	c.listener.shares.take(c.share)
	c.Close()
	if replaced, ok := r.take(next); !ok || replaced != leaves {
		t.Errorf("a call took the place of %+v, %t", replaced, ok)
	}
}

// A process whose many connections fill the queue still gets a place for a connection that has
// none: there are fewer other connections than places, so one of them has two.
func TestQueueHasPlaceForEachConnection(t *testing.T) {
	r := newShares(maxWaiting)
	r.queue = true
	for i := range maxConnections - 1 {
		c := &caller{pid: 1}
		for range 1 + i%maxCalls {
			r.take(&share{of: c})
		}
	}
	if len(r.held) != maxWaiting {
		t.Fatalf("%d of %d places are held", len(r.held), maxWaiting)
	}
	if _, ok := r.take(&share{of: &caller{pid: 1}}); !ok {
		t.Error("the call of a connection without another is refused")
	}
}

// Replacing a share does not count all shares again: hostile clients begin tens of thousands
// of calls, and all callers of the pipe wait for each.
func TestSharesAreNotCountedEachTime(t *testing.T) {
	r := newShares(maxArriving)
	greedy := make([]*caller, maxArriving/maxCalls)
	for i := range greedy {
		greedy[i] = &caller{pid: 9}
	}
	for i := range maxArriving {
		if _, ok := r.take(&share{of: greedy[i/maxCalls]}); !ok {
			t.Fatal("refused below the limit")
		}
	}
	allocations := testing.AllocsPerRun(1000, func() {
		if replaced, ok := r.take(&share{of: greedy[0]}); !ok || replaced == nil {
			t.Fatal("no share took the place of another")
		}
	})
	if allocations > 4 {
		t.Errorf("%v allocations for a share among %d, want at most 4", allocations, maxArriving)
	}
	if len(r.held) != maxArriving || len(r.owners) != 1 || len(r.callers) != len(greedy) {
		t.Errorf("%d shares of %d owners and %d callers", len(r.held), len(r.owners), len(r.callers))
	}
	for len(r.held) > 0 {
		r.put(r.held[0])
	}
	if len(r.owners)+len(r.callers) > 0 {
		t.Errorf("left %d owners and %d callers without a share", len(r.owners), len(r.callers))
	}
}

// If gRPC's streams do not accept a status, calls that have ended are still not kept.
func TestEndWithoutStatusHangsUp(t *testing.T) {
	hungUp := 0
	c := &call{ctx: context.Background(), from: &caller{hangUp: func() error { hungUp++; return nil }}}
	c.end(failed(context.DeadlineExceeded))
	if hungUp != 1 {
		t.Errorf("the connection was closed %d times, want once", hungUp)
	}
}
