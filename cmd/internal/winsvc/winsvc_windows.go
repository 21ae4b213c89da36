package winsvc

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/windows/svc"
)

const (
	accepted = svc.AcceptStop | svc.AcceptShutdown | svc.AcceptParamChange

	// During a pending start or stop, progress is reported to the manager every
	// reportInterval. The manager gives up after waitHint without a report.
	reportInterval = 2 * time.Second
	waitHint       = 10 * time.Second
)

// Run runs p as the Windows service with this name and returns its exit code. It fails if
// the process was not started by the service manager.
func Run(name string, p Program) (int, error) {
	h := &handler{program: p}
	if err := svc.Run(name, h); err != nil {
		return 0, fmt.Errorf("run as the service %s: %w", name, err)
	}
	return h.code, nil
}

type handler struct {
	program Program
	code    int
}

// Execute is called by package svc. The service ends when it returns.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, states chan<- svc.Status) (specific bool, code uint32) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready, ended := make(chan struct{}), make(chan int, 1)
	go func() {
		ended <- h.program(ctx, func() { close(ready) })
	}()

	status := svc.Status{State: svc.StartPending}
	report := func() {
		status.WaitHint = 0
		if status.State == svc.StartPending || status.State == svc.StopPending {
			status.CheckPoint++
			status.WaitHint = uint32(waitHint.Milliseconds())
		}
		states <- status
	}
	report()
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for {
		select {
		case <-ready:
			ready = nil
			if status.State == svc.StartPending {
				status = svc.Status{State: svc.Running, Accepts: accepted}
				report()
			}
		case <-tick.C:
			if status.State != svc.Running {
				report()
			}
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				states <- status
			case svc.Stop, svc.Shutdown:
				status = svc.Status{State: svc.StopPending}
				report()
				cancel()
			case svc.ParamChange:
				// All parameters are flags, which cannot change.
			}
		case h.code = <-ended:
			return h.code != 0, uint32(h.code)
		}
	}
}
