// Package winsvc runs a program under the Windows Service Control Manager.
//
// The service is reported as running when the program is ready, so a caller that starts
// it and waits, or a service that depends on it, finds it serving, unless another process
// keeps it from that. To stop the service,
// winsvc ends the context of the program, and reports it as stopped, with exit code 0, when
// the program has returned. Running calls finish first. When Windows shuts down, the cause
// of the context is a [Shutdown], which says how much time there is. [TerminateTime] is for
// programs without the manager.
//
// If the program fails without a request to stop, the process ends without reporting
// that the service stopped: only then does Windows run the service's failure actions
// whatever its failure-actions flag says (page of SERVICE_FAILURE_ACTIONS_FLAG).
//
// The program runs as a service if a flag says so. Windows has functions to detect that, but
// they are wrong for a console in a container.
package winsvc

import (
	"context"
	"fmt"
	"time"
)

// Program is the function that a service runs, with the name of the service. It calls ready when
// it is serving, returns soon after ctx ends, and returns the exit code of the process.
type Program func(ctx context.Context, name string, ready func()) int

// Shutdown is the cause of a program's context that ended because Windows shuts down, or the
// container does.
type Shutdown struct {
	Limit time.Duration // what is left until the process is ended
}

func (s Shutdown) Error() string { return fmt.Sprintf("the process is ended in %v", s.Limit) }

// StopWithin returns the time that the program has to stop.
func (s Shutdown) StopWithin() time.Duration { return s.Limit }
