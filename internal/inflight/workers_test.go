package inflight_test

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
)

// work runs f as the work of a call with these workers, and waits for it.
func work(workers *inflight.Workers, f func()) {
	c := &inflight.Call{Workers: workers}
	c.Begin(context.Background(), func() {})
	defer c.Leave()
	done := make(chan struct{})
	c.Go(func() error { f(); return nil }, func() { close(done) })
	<-done
}

// waiting returns how many goroutines of workers there are.
func waiting() int {
	b := make([]byte, 1<<20)
	return bytes.Count(b[:runtime.Stack(b, true)], []byte("inflight.(*Workers).loop("))
}

// Successive pieces of work run on the same goroutine; concurrent ones each have their
// own. All goroutines end when there is no work, or when the workers are closed.
func TestWorkersEndWithoutWork(t *testing.T) {
	for _, closed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var w inflight.Workers
			for range 100 {
				work(&w, func() {})
			}
			synctest.Wait()
			if n := waiting(); n != 1 {
				t.Errorf("work after work left %d goroutines, want 1", n)
			}
			for range 100 {
				go work(&w, func() { time.Sleep(time.Second) })
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if n := waiting(); n < 1 || n > 8 {
				t.Errorf("after 100 at once %d goroutines wait, want 1 to 8", n)
			}
			if closed {
				w.Close()
				work(&w, func() {})
			} else {
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			if n := waiting(); n != 0 {
				t.Errorf("closed %t: %d goroutines are left without work", closed, n)
			}
		})
	}
}

// Work that ends its goroutine, as a failing test does, ends like any other.
func TestWorkThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w inflight.Workers
		work(&w, runtime.Goexit)
		ran := false
		work(&w, func() { ran = true })
		if !ran {
			t.Error("there is no worker after one that ended")
		}
		w.Close()
	})
}

// A worker that has gone on to another call does not show that call's stack as the work of
// the earlier one.
func TestStackIsOfTheCall(t *testing.T) {
	var w inflight.Workers
	defer w.Close()
	began, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	first := &inflight.Call{ID: 1, Workers: &w}
	first.Begin(context.Background(), func() {})
	defer first.Leave()
	first.Go(func() error { close(began); <-end; return nil }, func() { close(ended) })
	<-began

	second := &inflight.Call{ID: 2, Workers: &w}
	second.Begin(context.Background(), func() {})
	defer second.Leave()
	goOn, done := make(chan struct{}), make(chan struct{})
	first.SetWait(&inflight.Wait{What: "disk 1", Holders: func() []*inflight.Call {
		close(end) // between the checks of the call and of its goroutine
		<-ended
		begun := make(chan struct{})
		second.Go(func() error { close(begun); <-goOn; return nil }, func() { close(done) })
		<-begun
		return nil
	}})
	states := inflight.States([]*inflight.Call{first})
	if len(states) != 1 || states[0].Stack != nil {
		t.Errorf("the call whose work has ended has the stack\n%s", states[0].Stack)
	}
	if states := inflight.States([]*inflight.Call{second}); states[0].Stack == nil {
		t.Error("the call that works has no stack")
	}
	close(goOn)
	<-done
}
