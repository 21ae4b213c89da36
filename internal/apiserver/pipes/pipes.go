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
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// OpenLimit is how long [Open] waits for pipes that other processes serve, without
// [Opening.InUse].
const OpenLimit = 10 * time.Second

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
	// processes change. Open then waits until its context ends.
	InUse func(error)
}

// Open creates all pipes. If it cannot create one, it removes the others and returns an
// [OpenError] that lists every pipe that could not be created.
//
// Open waits up to [OpenLimit], or until ctx ends, for pipes that another process
// serves, such as an earlier CSI Proxy that is stopping. While it waits it has no pipe, so
// two servers never serve different pipes at the same time. It never adds an instance to a
// pipe of another process. If several servers start at the same time, one of them gets all
// pipes.
func Open(ctx context.Context, o Opening, pipes []Pipe) ([]net.Listener, error) {
	if o.Listen == nil {
		o.Listen = Listen
	}
	begin := time.Now()
	var looked, logged time.Time
	owners := ""
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
			return o.listenEach(pipes)
		}
		if now := time.Now(); looked.IsZero() || failed != blocked || now.Sub(looked) >= ownersInterval {
			looked = now
			by := ownersOf(pipes, failed, inUse.withRemedy(err))
			changed := by.Error() != owners
			owners = by.Error()
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
		if o.InUse == nil {
			left := OpenLimit - time.Since(begin)
			if left <= 0 {
				return o.listenEach(pipes)
			}
			pause = min(pause, left)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if o.InUse != nil {
				return nil, ctx.Err()
			}
			return o.listenEach(pipes)
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

// listenEach creates the listeners of all pipes, and fails with an [OpenError] that lists
// each one that it could not create.
func (o *Opening) listenEach(pipes []Pipe) ([]net.Listener, error) {
	listeners := make([]net.Listener, len(pipes))
	var refused []error
	for i, p := range pipes {
		l, err := o.listen(p)
		var inUse *inUseError
		switch {
		case errors.As(err, &inUse):
			refused = append(refused, fmt.Errorf("%s: %w", p.Name, inUse.withRemedy(err)))
		case err != nil:
			refused = append(refused, fmt.Errorf("%s: %w", p.Name, err))
		default:
			listeners[i] = l
		}
	}
	if refused != nil {
		closeListeners(listeners)
		return nil, &OpenError{Pipes: len(pipes), Refused: refused}
	}
	return listeners, nil
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

// OpenError lists the pipes that could not be created.
type OpenError struct {
	Pipes   int     // number of pipes that Open was asked for
	Refused []error // one error per failed pipe, with its name and the reason
}

// Error returns a summary line, and one line for each failed pipe.
func (e *OpenError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cannot create %d of %d pipes:", len(e.Refused), e.Pipes)
	for _, err := range e.Refused {
		fmt.Fprintf(&b, "\n  %v", err)
	}
	return b.String()
}

// Unwrap returns the errors of the failed pipes.
func (e *OpenError) Unwrap() []error { return e.Refused }

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
