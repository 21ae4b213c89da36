package inflight_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
)

// run runs f as work of a call that keeps steps, and returns the call.
func run(s *inflight.Steps, f func() error) *inflight.Call {
	c := &inflight.Call{Steps: s}
	c.Begin(context.Background(), func() {})
	done := make(chan struct{})
	c.Go(f, func() { close(done) })
	<-done
	c.Leave()
	return c
}

func objects(steps []inflight.Step) (all []string) {
	for _, s := range steps {
		all = append(all, s.Object)
	}
	return all
}

// Calls, one after the other or one in the other, do not get each other's steps.
func TestStepsAreThoseOfTheCall(t *testing.T) {
	s := new(inflight.Steps)
	fail := errors.New("failed")
	add := func(object string) { s.Add(inflight.Step{Call: "CreateFile", Object: object, Err: fail}) }

	add("outside of all calls")
	first := run(s, func() error { add("first"); return fail })
	second := run(s, func() error {
		add("second")
		run(s, func() error { add("other"); return fail })
		add("second again")
		return fail
	})
	good := run(s, func() error { add("expected"); return nil })
	for _, want := range []struct {
		call  *inflight.Call
		steps []string
	}{{first, []string{"first"}}, {second, []string{"second", "second again"}}, {good, nil}} {
		if got := objects(want.call.FailedSteps()); !slices.Equal(got, want.steps) {
			t.Errorf("steps %q, want %q", got, want.steps)
		}
	}
}

// A call whose work continues has its steps so far.
func TestStepsOfWorkThatGoesOn(t *testing.T) {
	s := new(inflight.Steps)
	c := &inflight.Call{Steps: s}
	c.Begin(context.Background(), func() {})
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	c.Go(func() error {
		s.Add(inflight.Step{Object: "so far"})
		close(begun)
		<-end
		return nil
	}, func() { close(done) })
	<-begun
	if got := objects(c.FailedSteps()); !slices.Equal(got, []string{"so far"}) {
		t.Errorf("steps %q", got)
	}
	close(end)
	<-done
	c.Leave()
}

// The last steps are kept, and their texts are bounded.
func TestStepsAreBounded(t *testing.T) {
	s := new(inflight.Steps)
	c := run(s, func() error {
		for i := range 1000 {
			s.Add(inflight.Step{Object: strings.Repeat("x", 1000) + fmt.Sprint(i)})
			s.Add(inflight.Step{Object: fmt.Sprint(i)})
		}
		return errors.New("failed")
	})
	got := objects(c.FailedSteps())
	if len(got) != 16 || got[15] != "999" || got[13] != "998" || len(got[14]) > 520 {
		t.Errorf("%d steps: %q", len(got), got)
	}
}

// A node without a server keeps no steps, and does not look up its goroutine.
func TestNoSteps(t *testing.T) {
	var none *inflight.Steps
	none.Add(inflight.Step{})
	if c := run(none, func() error { none.Add(inflight.Step{}); return errors.New("failed") }); len(c.FailedSteps()) > 0 {
		t.Error("steps without a place for them")
	}
	s := new(inflight.Steps)
	if n := testing.AllocsPerRun(100, func() { s.Add(inflight.Step{Object: "x"}) }); n > 0 {
		t.Errorf("%v allocations without work", n)
	}
}
