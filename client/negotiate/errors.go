package negotiate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// The reasons of an [Error].
var (
	// ErrNotRunning: no pipe of any group is there. The proxy does not run, or
	// none of its pipes is mounted into this container.
	ErrNotRunning = errors.New("not running")

	// ErrTooOld: a proxy serves the group, in none of the versions that were
	// asked for. Error.Serves lists those it serves. A driver that only speaks
	// versions that were retired meets this reason too; Error's text says so.
	ErrTooOld = errors.New("too old")

	// ErrNotServed: a proxy serves other groups, and this one in no version.
	// The group is not enabled there, or its pipes are not mounted.
	ErrNotServed = errors.New("group not served")

	// ErrAccessDenied: the pipe is there, and this account may not open it. Such
	// an error is an [io/fs.ErrPermission] too.
	ErrAccessDenied = errors.New("access denied")

	// ErrBusy: the pipe is there and nobody answered in time.
	ErrBusy = errors.New("busy")

	errUnreachable = errors.New("unreachable")
)

// Error says why no version was found. Use errors.Is with the reasons above,
// and with what lies below them: [io/fs.ErrNotExist], [io/fs.ErrPermission], and
// [context.DeadlineExceeded] if a proxy was waited for in vain.
type Error struct {
	Group  string
	Wanted []apiversion.Version // newest first
	Reason error                // one of the reasons above; another one if the path cannot be a pipe's

	// Serves are the versions of the group that are served instead, oldest
	// first: those among the published ones. There are some with ErrTooOld only.
	Serves []apiversion.Version

	// Causes are the error of the system for the first pipe that tells the
	// reason, and that of the context that ended the waiting.
	Causes []error

	path   string   // of the newest version that was wanted
	groups []string // that are served
}

func (s *search) failed(reason error, serves []apiversion.Version, cause error) *Error {
	e := &Error{Group: s.group, Wanted: s.wanted, Reason: reason, Serves: serves, path: s.path(s.group, s.wanted[0])}
	if name, err := pipe.Name(e.path); err == nil {
		e.path = `\\.\pipe\` + name
	}
	if cause != nil {
		e.Causes = []error{cause}
	}
	return e
}

// after adds why the waiting ended, unless that is told already.
func (e *Error) after(err error) *Error {
	if !errors.Is(e, err) {
		e.Causes = append(e.Causes, err)
	}
	return e
}

// mayPass tells whether it helps to wait.
func (e *Error) mayPass() bool { return e.Reason == ErrNotRunning || e.Reason == ErrBusy }

// Error names the group, the versions, and the reason.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CSI Proxy: %s %s: ", e.Group, list(e.Wanted))
	switch e.Reason {
	case ErrNotRunning:
		fmt.Fprintf(&b, "not running, or its pipes are not mounted here: nobody serves %s", e.path)
	case ErrTooOld:
		if newest := e.Serves[len(e.Serves)-1]; newest.Compare(e.Wanted[len(e.Wanted)-1]) == apiversion.Lesser {
			fmt.Fprintf(&b, "too old: serves %s", list(e.Serves))
		} else {
			fmt.Fprintf(&b, "no version in common: serves %s", list(e.Serves))
		}
	case ErrNotServed:
		fmt.Fprintf(&b, "the group is not served, or its pipes are not mounted here: serves %s", strings.Join(e.groups, ", "))
	case ErrAccessDenied:
		fmt.Fprintf(&b, "access denied: this account may not open the pipe")
	case ErrBusy:
		fmt.Fprintf(&b, "busy, or still starting: nobody answers on the pipe")
	default:
		fmt.Fprintf(&b, "cannot connect to %s", e.path)
	}
	for _, cause := range e.Causes {
		b.WriteString(": ")
		b.WriteString(cause.Error())
	}
	return b.String()
}

// Unwrap lists the reason and the causes.
func (e *Error) Unwrap() []error { return slices.Concat([]error{e.Reason}, e.Causes) }

func list(versions []apiversion.Version) string {
	names := make([]string, len(versions))
	for i, v := range versions {
		names[i] = v.String()
	}
	return strings.Join(names, ", ")
}
