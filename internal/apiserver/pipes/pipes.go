// Package pipes makes the named pipes of a server, all of them or none. It knows who may
// connect to a pipe, which process is at the other end of a connection, and which process
// serves a pipe.
//
// Drivers mount individual pipes into their containers, and a driver can call only the versions
// whose pipes it mounts. So every version of every group has its own pipe:
// \\.\pipe\csi-proxy-disk-v1. On systems without named pipes, unix sockets are used instead;
// package pipe of the client module maps pipe names to sockets for both sides.
package pipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

const (
	// openRetry is the interval at which [Open] tries a pipe that is in use.
	openRetry = 100 * time.Millisecond

	// ownersInterval is the interval at which Open checks which processes serve its
	// pipes. That connects to each pipe.
	ownersInterval = 30 * time.Second

	// waitLogInterval is the interval at which Open logs that it still waits.
	waitLogInterval = 5 * time.Minute
)

// Pipe is a pipe to open.
type Pipe struct {
	Name string // "csi-proxy-disk-v1", without the prefix \\.\pipe\
	// Listen creates the pipe; nil means [Opening.Listen].
	Listen func(name string) (net.Listener, error)
}

// Opening says how to open pipes.
type Opening struct {
	Log *slog.Logger

	// Listen creates a pipe; nil means [Listen].
	Listen func(name string) (net.Listener, error)

	// InUse, if set, is called when [Open] starts to wait for pipes that other processes
	// serve, with an error that names each of these processes, and again when the
	// processes change.
	InUse func(error)
}

// Open creates all pipes, or none if it cannot create one.
//
// Open waits until ctx ends for pipes that another process serves, such as an earlier CSI Proxy
// that is stopping. While it waits it has no pipe, so two servers never serve different pipes at
// the same time. It never adds an instance to a pipe of another process. If several servers start
// at the same time, one of them gets all pipes.
func Open(ctx context.Context, o Opening, pipes []Pipe) ([]net.Listener, error) {
	if o.Listen == nil {
		o.Listen = Listen
	}
	begin := time.Now()
	var looked, logged time.Time
	var by error // who serves pipes
	blocked := 0 // the pipe to try first: the one that failed last
	for {
		listeners, failed, err := o.listenAll(pipes, blocked)
		if err == nil {
			if !logged.IsZero() {
				o.Log.Info("Created all pipes after waiting for another process", "waited", time.Since(begin))
			}
			return listeners, nil
		}
		var inUse *inUseError
		if !errors.As(err, &inUse) {
			return nil, fmt.Errorf("create pipe %s: %w", pipes[failed].Name, err)
		}
		if now := time.Now(); looked.IsZero() || failed != blocked || now.Sub(looked) >= ownersInterval {
			looked = now
			before := by
			by = ownersOf(pipes, failed, inUse.withRemedy(err))
			changed := before == nil || before.Error() != by.Error()
			if o.InUse != nil && changed {
				o.InUse(by)
			}
			if changed || now.Sub(logged) >= waitLogInterval {
				o.Log.Warn("Waiting for another process to close its pipe, serving no pipe until then", "pipe", pipes[failed].Name, "err", by)
				logged = now
			}
		}
		pause := openRetry
		if failed != blocked {
			// Servers that wait for each other's pipe must not try again at the same time.
			pause += rand.N(openRetry)
		}
		blocked = failed
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", by, ctx.Err())
		}
	}
}

// ownersOf returns err, which says who serves the pipe that failed and what to do, with the
// other processes that serve pipes. Pipes whose server is unknown are left out.
func ownersOf(pipes []Pipe, failed int, err error) error {
	type owner struct {
		pid   uint32
		image string
		pipes []string
	}
	first, _, _ := ServerOf(pipe.Path(pipes[failed].Name))
	var others []owner
	for i, p := range pipes {
		if i == failed {
			continue
		}
		pid, image, err := ServerOf(pipe.Path(p.Name))
		if err != nil || pid == first {
			continue
		}
		at := slices.IndexFunc(others, func(o owner) bool { return o.pid == pid })
		if at < 0 {
			at, others = len(others), append(others, owner{pid: pid, image: image})
		}
		others[at].pipes = append(others[at].pipes, p.Name)
	}
	err = fmt.Errorf("%s: %w", pipes[failed].Name, err)
	for _, o := range others {
		more := ""
		if n := len(o.pipes) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		err = fmt.Errorf("%w; %s%s: served by process %d (%s): stop it, too", err, o.pipes[0], more, o.pid, o.image)
	}
	return err
}

// listenAll creates the listeners of all pipes, beginning with the pipe first. If one fails,
// it closes the earlier ones, and returns the index of the pipe that failed.
func (o *Opening) listenAll(pipes []Pipe, first int) (listeners []net.Listener, failed int, err error) {
	listeners = make([]net.Listener, len(pipes))
	for i := -1; i < len(pipes); i++ {
		at := i
		if i < 0 {
			at = first
		} else if i == first {
			continue
		}
		if listeners[at], err = o.listen(pipes[at]); err != nil {
			listeners[at] = nil
			closeListeners(listeners)
			return nil, at, err
		}
	}
	return listeners, 0, nil
}

func closeListeners(listeners []net.Listener) {
	for _, l := range listeners {
		if l != nil {
			l.Close()
		}
	}
}

func (o *Opening) listen(p Pipe) (net.Listener, error) {
	if p.Listen != nil {
		return p.Listen(p.Name)
	}
	return o.Listen(p.Name)
}

// inUseError is the error of [Listen] for a pipe that another process serves.
type inUseError struct {
	path string
	err  error
}

func (e *inUseError) Error() string { return e.err.Error() }
func (e *inUseError) Unwrap() error { return e.err }

// withRemedy adds to err, which wraps e, what to do.
func (e *inUseError) withRemedy(err error) error { return fmt.Errorf("%w: %s", err, e.remedy()) }

// UnknownProgram is what [ProgramOf] returns if the system does not report the program.
const UnknownProgram = "its program cannot be determined"

// Response headers of a health check. Responses of the API itself do not have them: they are the
// same as those of every other CSI Proxy.
const (
	VersionHeader  = "csi-proxy-version"  // the version of the build
	RefusalsHeader = "csi-proxy-refusals" // what the pipe refuses to newcomers, if it does
	ServesHeader   = "csi-proxy-serves"   // the name of a pipe that the daemon serves; one for each
	ReadOnlyHeader = "csi-proxy-readonly" // "true" if the daemon refuses requests that change the node
)
