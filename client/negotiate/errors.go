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
	// ErrNotRunning: no pipe of any group exists. The proxy is not running, or none
	// of its pipes is mounted into this container.
	ErrNotRunning = errors.New("not running")

	// ErrStopping: the proxy is stopping, for example for an upgrade, and has removed pipes
	// of wanted versions.
	ErrStopping = errors.New("stopping")

	// ErrTooOld: the proxy serves the group, but none of the wanted versions.
	// Error.Serves lists the versions that it serves. The reason is the same for
	// drivers that support only versions that were removed; the text of the Error
	// distinguishes both cases.
	ErrTooOld = errors.New("too old")

	// ErrNotServed: the proxy serves other groups, but no version of this one. The
	// group is not enabled, or its pipes are not mounted.
	ErrNotServed = errors.New("group not served")

	// ErrAccessDenied: this account may not open the pipe. The error is also an
	// [io/fs.ErrPermission].
	ErrAccessDenied = errors.New("access denied")

	// ErrBusy: the pipe exists, but the server did not respond in time.
	ErrBusy = errors.New("busy")

	errUnreachable = errors.New("unreachable")
)

// Error is the reason why no version was found. Use errors.Is with the reasons
// above, and with the errors that caused them: [io/fs.ErrNotExist],
// [io/fs.ErrPermission], and [context.DeadlineExceeded] if Connect waited for a
// proxy until the deadline.
type Error struct {
	Group  string
	Wanted []apiversion.Version // newest first
	Reason error                // one of the reasons above, or another one if the path is not valid

	// Serves are the published versions of the group that the proxy serves, oldest
	// first. It is set for ErrTooOld only.
	Serves []apiversion.Version

	// Causes are the system error of the first pipe that failed for this reason, and
	// the error of the context if it ended while Connect waited.
	Causes []error

	path   string   // of the newest wanted version
	groups []string // served groups
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

// withCause adds err to the causes, unless e is an err already.
func (e *Error) withCause(err error) *Error {
	if !errors.Is(e, err) {
		e.Causes = append(e.Causes, err)
	}
	return e
}

// temporary reports whether it makes sense to wait and retry.
func (e *Error) temporary() bool {
	return e.Reason == ErrNotRunning || e.Reason == ErrStopping || e.Reason == ErrBusy
}

// Error returns a text with the group, the versions and the reason.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CSI Proxy: %s %s: ", e.Group, list(e.Wanted))
	switch e.Reason {
	case ErrNotRunning:
		fmt.Fprintf(&b, "not running, or its pipes are not mounted here: %s does not exist", e.path)
	case ErrStopping:
		b.WriteString("is stopping, for example for an upgrade: connect again when it has started")
	case ErrTooOld:
		if newest := e.Serves[len(e.Serves)-1]; newest.Compare(e.Wanted[len(e.Wanted)-1]) == apiversion.Lesser {
			fmt.Fprintf(&b, "too old: serves %s", list(e.Serves))
		} else {
			fmt.Fprintf(&b, "no version in common: serves %s", list(e.Serves))
		}
	case ErrNotServed:
		fmt.Fprintf(&b, "the group is not served, or its pipes are not mounted here: found %s", strings.Join(e.groups, ", "))
	case ErrAccessDenied:
		fmt.Fprintf(&b, "access denied: this account may not open the pipe")
	case ErrBusy:
		fmt.Fprintf(&b, "busy, or still starting: no response on the pipe")
	default:
		fmt.Fprintf(&b, "cannot connect to %s", e.path)
	}
	for _, cause := range e.Causes {
		b.WriteString(": ")
		b.WriteString(cause.Error())
	}
	return b.String()
}

// Unwrap returns the reason and the causes.
func (e *Error) Unwrap() []error { return slices.Concat([]error{e.Reason}, e.Causes) }

func list(versions []apiversion.Version) string {
	names := make([]string, len(versions))
	for i, v := range versions {
		names[i] = v.String()
	}
	return strings.Join(names, ", ")
}
