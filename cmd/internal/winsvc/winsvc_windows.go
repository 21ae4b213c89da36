package winsvc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/windows/svc"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// shutdownTime is what a service may take to stop when Windows shuts down: Windows gives about
// 5 s (docs/develop/contract/pipes.md), and one is for reporting that it stopped.
const shutdownTime = 4 * time.Second

// TerminateTime returns how long this process has after SIGTERM, or 0 if nothing limits that. The
// runtime of HostProcess containers starts cmd.exe, with this process as its child, except on
// Server 2019. Only cmd.exe gets the first signal, and ends. Then this process gets one, and the
// container is ended 5 s later (docs/develop/contract/pipes.md#the-stop-of-a-hostprocess-container). A
// console that is closed ends the processes in it as soon.
func TerminateTime() time.Duration {
	if parent := pipes.ProgramOf(uint32(os.Getppid())); strings.EqualFold(filepath.Base(parent), "cmd.exe") {
		return shutdownTime
	}
	return 0
}

const (
	// Not SERVICE_ACCEPT_PRESHUTDOWN: before a shutdown the kubelet unmounts the volumes of its
	// pods, through this service, in its own handler of SERVICE_CONTROL_PRESHUTDOWN.
	accepted = svc.AcceptStop | svc.AcceptShutdown | svc.AcceptParamChange

	// During a pending start or stop, progress is reported to the manager every
	// reportInterval. The manager gives up after waitHint without a report.
	reportInterval = 2 * time.Second
	waitHint       = 10 * time.Second
)

// Run runs p as the Windows service that this process was started for, until it is stopped, and
// returns 0. It calls failed with the exit code if p fails without a request to stop; failed must
// end the process. It fails if the process was not started by the service manager.
func Run(p Program, failed func(code int)) (int, error) {
	h := &handler{program: p, failed: failed}
	if err := svc.Run(Name, h); err != nil { // Windows ignores the name: the process has one service
		return 0, fmt.Errorf("run as the service %s: %w", Name, err)
	}
	return 0, nil
}

type handler struct {
	program Program
	failed  func(code int)
}

// Execute is called by package svc, with the name of the service as first argument. The service
// ends when it returns.
func (h *handler) Execute(args []string, requests <-chan svc.ChangeRequest, states chan<- svc.Status) (specific bool, code uint32) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	ready, ended := make(chan struct{}), make(chan int, 1)
	go func() {
		name := Name
		if len(args) > 0 && args[0] != "" {
			name = args[0]
		}
		ended <- h.program(ctx, name, func() { close(ready) })
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
	stop := func(cause error) {
		if status.State != svc.StopPending {
			status = svc.Status{State: svc.StopPending}
			report()
			cancel(cause)
		}
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
			case svc.Stop:
				stop(nil)
			case svc.Shutdown:
				stop(Shutdown{shutdownTime})
			case svc.ParamChange:
				// All parameters are flags, which cannot change.
			}
		case code := <-ended:
			if code != 0 && status.State != svc.StopPending {
				h.failed(code)
			}
			return false, 0
		}
	}
}
