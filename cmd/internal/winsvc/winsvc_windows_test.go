package winsvc

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/windows/svc"
)

// execution is a service that runs.
type execution struct {
	requests chan svc.ChangeRequest
	states   []svc.Status
	failed   []int // codes with which the process would have ended
	ended    bool
	specific bool
	code     uint32
}

// execute runs a handler as package svc does. It must be called in a bubble.
func execute(t *testing.T, p Program) *execution {
	e := &execution{requests: make(chan svc.ChangeRequest)}
	h := &handler{program: p, failed: func(code int) { e.failed = append(e.failed, code) }}
	states, done := make(chan svc.Status), make(chan struct{})
	go func() {
		defer close(done)
		e.specific, e.code = h.Execute(nil, e.requests, states)
		e.ended = true
	}()
	go func() {
		for {
			select {
			case s := <-states:
				e.states = append(e.states, s)
			case <-done:
				return
			}
		}
	}()
	synctest.Wait()
	return e
}

func (e *execution) last() svc.Status { return e.states[len(e.states)-1] }

// A process that ends without reporting the stop is what makes Windows run failure
// actions.
func TestFailureIsNotReportedAsStop(t *testing.T) {
	for name, serves := range map[string]bool{"at start": false, "while it serves": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fail := make(chan struct{})
				e := execute(t, func(_ context.Context, _ string, ready func()) int {
					if serves {
						ready()
					}
					<-fail
					return 1
				})
				close(fail)
				synctest.Wait()
				if len(e.failed) != 1 || e.failed[0] != 1 {
					t.Errorf("the process ended with the codes %v, want 1 once", e.failed)
				}
				for _, s := range e.states {
					if s.State == svc.Stopped || s.State == svc.StopPending {
						t.Errorf("reported the state %d", s.State)
					}
				}
			})
		})
	}
}

// A service that was asked to stop must not be started again, even if it had to cut off
// calls.
func TestWantedStopIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := execute(t, func(ctx context.Context, _ string, ready func()) int {
			ready()
			<-ctx.Done()
			return 1
		})
		e.requests <- svc.ChangeRequest{Cmd: svc.Stop}
		synctest.Wait()
		if !e.ended || e.code != 0 || e.specific || len(e.failed) != 0 {
			t.Errorf("the service ended: %t with code %d (own: %t), and the process with %v; want code 0", e.ended, e.code, e.specific, e.failed)
		}
	})
}

// While running calls finish, the service says that it is still stopping. A second
// request to stop must not begin the count again.
func TestStopReportsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := execute(t, func(ctx context.Context, _ string, ready func()) int {
			ready()
			<-ctx.Done()
			time.Sleep(30 * time.Second)
			return 0
		})
		e.requests <- svc.ChangeRequest{Cmd: svc.Stop}
		time.Sleep(9 * time.Second)
		e.requests <- svc.ChangeRequest{Cmd: svc.Stop}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		checkPoint := uint32(0)
		for _, s := range e.states {
			if s.State != svc.StopPending {
				continue
			}
			if s.CheckPoint != checkPoint+1 || s.WaitHint < 4000 {
				t.Errorf("after check point %d: %+v", checkPoint, s)
			}
			checkPoint = s.CheckPoint
		}
		if checkPoint < 14 {
			t.Errorf("%d reports in 29 s, want one every 2 s", checkPoint)
		}
		time.Sleep(time.Minute)
	})
}

// Before a shutdown the kubelet unmounts volumes through this service, so it serves until the
// shutdown itself begins, and then has 4 s.
func TestShutdownLimitsStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		e := execute(t, func(ctx context.Context, _ string, ready func()) int {
			ready()
			<-ctx.Done()
			cause = context.Cause(ctx)
			return 0
		})
		if accepts := e.last().Accepts; accepts&svc.AcceptPreShutdown != 0 || accepts&svc.AcceptShutdown == 0 {
			t.Errorf("it accepts %#x, want SERVICE_CONTROL_SHUTDOWN without SERVICE_CONTROL_PRESHUTDOWN", accepts)
		}
		e.requests <- svc.ChangeRequest{Cmd: svc.PreShutdown}
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		if cause != nil || e.ended || e.last().State != svc.Running {
			t.Errorf("before the shutdown it stops because of %v, in state %d; want that it serves", cause, e.last().State)
		}
		e.requests <- svc.ChangeRequest{Cmd: svc.Shutdown}
		synctest.Wait()
		var s Shutdown
		if !errors.As(cause, &s) || s.StopWithin() != 4*time.Second || !e.ended {
			t.Errorf("it stops because of %v, ended: %t; want a Shutdown with 4 s", cause, e.ended)
		}
	})
}
