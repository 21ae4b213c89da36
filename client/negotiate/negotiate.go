// Package negotiate finds the newest version of an API group that the CSI Proxy
// of a node serves, among those that a driver can speak.
//
//	conn, err := negotiate.Connect(ctx, diskv1.GroupName,
//		[]apiversion.Version{diskv1.Version, diskv1beta2.Version})
//	if err != nil {
//		return err // not running, too old: serves …, access denied
//	}
//	defer conn.Close()
//	switch conn.Version {
//	case diskv1.Version:
//		disks := v1.NewDiskClient(conn)
//		…
//
// [Connect] returns the open connection, for the generated clients below
// client/api. [Find] tells only where the version is served, for the clients
// below client/groups: NewClientWithPipePath(found.PipePath).
//
// # A proxy that is still starting
//
// On a node that boots, the driver and the proxy race. If ctx has a deadline,
// both functions wait until then for a proxy that is not there, or does not
// answer yet; without a deadline they look once. A proxy that answers is not
// waited for, whatever it serves: it makes all of its pipes before it answers on
// any of them, and a version found while it starts is not taken before the
// newer ones were asked for again.
//
// # Which pipes are seen
//
// A container sees the pipes that are mounted into it. A version that is served
// on the node and not mounted is not served, as far as a driver can tell.
//
// Nothing remains of the search: a connection that is made for it is the one
// that is returned, or is closed.
package negotiate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/kubernetes-csi/csi-proxy/client"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
)

// Found is a version of a group, and where it is served.
type Found struct {
	Group   string // "disk"
	Version apiversion.Version

	// PipePath is the path of the pipe, as [client.PipePath] returns it, or of
	// the unix socket that was named with [WithPipePath].
	PipePath string
}

// String is "disk/v1".
func (f Found) String() string { return f.Group + "/" + f.Version.String() }

// Conn is an open connection to what was found. The clients below client/api
// are made from it, and Close ends it. It comes back by itself if the proxy is
// restarted; if another version of the proxy is then there, calls fail with the
// status Unavailable or Unimplemented, and the driver has to negotiate anew.
type Conn struct {
	*grpc.ClientConn
	Found
}

// String is [Found.String].
func (c *Conn) String() string { return c.Found.String() }

// An Option says how the proxy is reached.
type Option func(*options)

type options struct {
	path func(group string, version apiversion.Version) string
	dial []grpc.DialOption
}

// WithPipePath names the pipe of a version of a group, if it is not the one of
// [client.PipePath]. Package pipe tells which paths there are; the absolute
// path of a unix socket is one.
func WithPipePath(path func(group string, version apiversion.Version) string) Option {
	return func(o *options) { o.path = path }
}

// WithDialOptions adds options to the gRPC connection that is made.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, opts...) }
}

// Connect connects to the newest of the versions that is served. Their order
// does not matter. The server has answered on the connection that is returned.
//
// An error of the search is an [*Error]. See the package comment for how long
// Connect waits.
func Connect(ctx context.Context, group string, versions []apiversion.Version, opts ...Option) (*Conn, error) {
	s, err := newSearch(group, versions, opts)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("CSI Proxy: %s %s: nobody was asked: %w", group, list(s.wanted), err)
	}
	var last *Error
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		conn, err := s.round(ctx)
		if err == nil {
			return conn, nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // what a round found that was cut short says nothing
		}
		if _, ok := ctx.Deadline(); !ok || !last.mayPass() {
			return nil, last
		}
		if !sleep(ctx, wait) {
			return nil, last.after(ctx.Err())
		}
	}
}

// Find is [Connect] for those who connect themselves: it closes the connection
// that it found out with.
func Find(ctx context.Context, group string, versions []apiversion.Version, opts ...Option) (Found, error) {
	c, err := Connect(ctx, group, versions, opts...)
	if err != nil {
		return Found{}, err
	}
	return c.Found, c.Close()
}

// How long is waited between two looks, and for a pipe that is there and does
// not answer, if ctx does not end before.
const (
	firstWait   = 25 * time.Millisecond
	longestWait = time.Second
	answerLimit = 2 * time.Second
)

// sleep tells whether ctx lasted for d.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// search is what is looked for.
type search struct {
	options
	group  string
	wanted []apiversion.Version // newest first
}

func newSearch(group string, versions []apiversion.Version, opts []Option) (*search, error) {
	s := &search{group: group, options: options{path: client.PipePath}}
	for _, set := range opts {
		set(&s.options)
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("%s: no version is given to look for", group)
	}
	s.wanted = newestFirst(versions)
	if oldest := s.wanted[len(s.wanted)-1]; oldest == (apiversion.Version{}) {
		return nil, fmt.Errorf("%s: one of the versions to look for is the zero Version", group)
	}
	return s, nil
}

func newestFirst(versions []apiversion.Version) []apiversion.Version {
	return slices.SortedFunc(slices.Values(versions), func(a, b apiversion.Version) int { return int(b.Compare(a)) })
}

// round looks once.
func (s *search) round(ctx context.Context) (*Conn, *Error) {
	conn, refused := s.first(ctx, s.wanted)
	if conn != nil {
		// The versions before it were looked for while the proxy may have been
		// starting. It has answered now, so all of its pipes are there.
		newer := s.wanted[:slices.Index(s.wanted, conn.Version)]
		better, refused := s.first(ctx, newer)
		if better == nil && refused[ErrBusy] == nil {
			return conn, nil
		}
		conn.Close()
		if better == nil {
			return nil, s.failed(ErrBusy, nil, refused[ErrBusy])
		}
		return better, nil
	}
	for _, reason := range []error{ErrBusy, ErrAccessDenied, errUnreachable} {
		if err := refused[reason]; err != nil {
			return nil, s.failed(reason, nil, err)
		}
	}
	// None of the pipes is there. Others tell why.
	served, answering := s.others(ctx)
	if len(served) > 0 || len(answering) > 0 {
		switch conn, refused := s.first(ctx, s.wanted); {
		case conn != nil:
			return conn, nil // it was starting
		case refused[ErrBusy] != nil:
			return nil, s.failed(ErrBusy, nil, refused[ErrBusy])
		}
	}
	switch {
	case len(served) > 0:
		return nil, s.failed(ErrTooOld, served, nil)
	case len(answering) > 0:
		e := s.failed(ErrNotServed, nil, nil)
		e.groups = answering
		return nil, e
	}
	return nil, s.failed(ErrNotRunning, nil, refused[ErrNotRunning])
}

// first connects to the first of the versions that is served. If there is none
// it tells by what errors, by their reason.
func (s *search) first(ctx context.Context, versions []apiversion.Version) (*Conn, map[error]error) {
	refused := map[error]error{}
	for _, v := range versions {
		found := Found{s.group, v, s.path(s.group, v)}
		conn, err := s.connect(ctx, found.PipePath)
		if err == nil {
			return &Conn{conn, found}, nil
		}
		reason := reasonOf(err)
		if refused[reason] == nil {
			refused[reason] = err
		}
		if reason == ErrBusy {
			break // it is served, so an older one is not what is wanted
		}
	}
	return nil, refused
}

func (s *search) connect(ctx context.Context, path string) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	return transport.ConnectContext(ctx, path, s.dial...)
}

// others tells which versions of the group are served that are not wanted,
// oldest first, or else which other groups are.
func (s *search) others(ctx context.Context) (versions []apiversion.Version, groups []string) {
	busy := false
	served := func(p api) bool {
		if busy {
			return false
		}
		conn, err := s.connect(ctx, s.path(p.group, p.version))
		if err != nil {
			busy = reasonOf(err) == ErrBusy // it is starting: its pipes say nothing yet
			return reasonOf(err) == ErrAccessDenied
		}
		conn.Close()
		return true
	}
	for _, p := range published() {
		if p.group == s.group && !slices.Contains(s.wanted, p.version) && served(p) {
			versions = append(versions, p.version)
		}
	}
	if len(versions) > 0 {
		return versions, nil
	}
	for _, p := range published() {
		if p.group != s.group && !slices.Contains(groups, p.group) && served(p) {
			groups = append(groups, p.group)
		}
	}
	return nil, groups
}

// reasonOf tells what the error of a connection means.
func reasonOf(err error) error {
	var network net.Error
	switch {
	case errors.Is(err, fs.ErrPermission):
		return ErrAccessDenied
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return ErrNotRunning // no pipe; or a socket whose server was killed
	case errors.Is(err, transport.ErrNoAnswer), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.As(err, &network) && network.Timeout():
		return ErrBusy // all instances of the pipe are taken, or nobody answers
	}
	return errUnreachable
}
