// Package negotiate finds the newest version of an API group that both a driver and
// the CSI Proxy of its node support.
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
// [Connect] returns an open connection, for the generated clients below client/api.
// [Find] returns only the version and its pipe, for the clients below
// client/groups: NewClientWithPipePath(found.PipePath).
//
// # A proxy that is starting or stopping
//
// When a node boots, the driver may start before the proxy. If ctx has a deadline,
// both functions wait until then for a proxy that does not run or does not respond
// yet; without a deadline they try once. If a proxy that is running responds they do not
// wait, even if it serves none of the wanted versions: a proxy creates all of its pipes
// before it responds on any of them. If a version is found while the proxy starts, the
// newer ones are tried again first.
//
// A proxy that is stopping, for example for an upgrade, removes its pipes one by one. If a
// wanted version is missing, both functions therefore ask the health service of a pipe that
// responds, and wait for the next proxy if this one is stopping. A proxy that has no health
// service counts as running.
//
// # Mounted pipes
//
// Only pipes that LocalSystem, administrators or this account owns are used, unless
// [WithPipePath] names others; package pipe describes the check.
//
// A container has only the pipes that are mounted into it. A version whose pipe is
// not mounted counts as not served.
//
// Every connection that is opened during the search is either returned or closed.
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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/client"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
)

// Found is a served version of a group, with its pipe.
type Found struct {
	Group   string // "disk"
	Version apiversion.Version

	// PipePath is the path of the pipe as returned by [client.PipePath], or the path
	// given by [WithPipePath].
	PipePath string
}

// String returns the group and version, such as "disk/v1".
func (f Found) String() string { return f.Group + "/" + f.Version.String() }

// Conn is an open connection to a version that was found. Use it with the clients
// below client/api, and close it. If the proxy is restarted, the connection is
// restored automatically. If the new proxy does not serve this version, calls fail
// with the status Unavailable or Unimplemented, and the driver must negotiate
// again.
type Conn struct {
	*grpc.ClientConn
	Found
}

// String returns [Found.String].
func (c *Conn) String() string { return c.Found.String() }

// An Option configures how to connect to the proxy.
type Option func(*options)

type options struct {
	path func(group string, version apiversion.Version) string
	dial []grpc.DialOption
}

// WithPipePath sets a function that replaces [client.PipePath]. Package pipe defines
// the valid paths; the absolute path of a unix socket is one of them.
func WithPipePath(path func(group string, version apiversion.Version) string) Option {
	return func(o *options) { o.path = path }
}

// WithDialOptions adds options for the gRPC connection. Its interceptors also see the calls of
// the health service that a search makes.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, opts...) }
}

// Connect connects to the newest of the given versions that is served. The order of
// versions does not matter. The server has responded on the returned connection.
//
// If no version is found, the error is an [*Error]. The package comment describes how
// long Connect waits.
func Connect(ctx context.Context, group string, versions []apiversion.Version, opts ...Option) (*Conn, error) {
	s, err := newSearch(group, versions, opts)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("CSI Proxy: %s %s: did not try to connect: %w", group, list(s.wanted), err)
	}
	var last *Error
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		conn, err := s.try(ctx)
		if err == nil {
			return conn, nil
		}
		if last == nil || !over(ctx) {
			last = err // the error of an attempt that ctx interrupted has no meaning
		}
		if _, ok := ctx.Deadline(); !ok || !last.temporary() {
			return nil, last
		}
		if !sleep(ctx, wait) {
			return nil, last.withCause(ctx.Err())
		}
	}
}

// over reports whether ctx has ended. An attempt fails at its deadline, also where a busy machine
// ends ctx a moment later.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// Find is like [Connect], but closes the connection. Use it to connect by other means.
func Find(ctx context.Context, group string, versions []apiversion.Version, opts ...Option) (Found, error) {
	c, err := Connect(ctx, group, versions, opts...)
	if err != nil {
		return Found{}, err
	}
	return c.Found, c.Close()
}

// The interval between two attempts, and the time limit for a pipe on which nothing
// responds.
const (
	firstWait   = 25 * time.Millisecond
	longestWait = time.Second
	answerLimit = 2 * time.Second
)

// sleep waits for d. It returns false if ctx ends first.
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

// search is the input of a search.
type search struct {
	options
	group  string
	wanted []apiversion.Version // newest first
}

func newSearch(group string, versions []apiversion.Version, opts []Option) (*search, error) {
	s := &search{group: group}
	for _, set := range opts {
		set(&s.options)
	}
	if s.options.path == nil {
		s.options.path = client.PipePath
		s.options.dial = append(s.options.dial, transport.RequireTrustedOwner())
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("%s: want at least one version", group)
	}
	s.wanted = newestFirst(versions)
	if oldest := s.wanted[len(s.wanted)-1]; oldest == (apiversion.Version{}) {
		return nil, fmt.Errorf("%s: one of the versions is the zero Version", group)
	}
	return s, nil
}

func newestFirst(versions []apiversion.Version) []apiversion.Version {
	return slices.SortedFunc(slices.Values(versions), func(a, b apiversion.Version) int { return int(b.Compare(a)) })
}

// try makes one attempt.
func (s *search) try(ctx context.Context) (*Conn, *Error) {
	conn, refused := s.first(ctx, s.wanted)
	if conn != nil {
		// The proxy may have been starting when the newer versions were tried. Now it
		// has responded, so all of its pipes exist.
		newer := s.wanted[:slices.Index(s.wanted, conn.Version)]
		better, refused := s.first(ctx, newer)
		switch {
		case better != nil:
			conn.Close()
			return better, nil
		case refused[ErrBusy] != nil:
			conn.Close()
			return nil, s.failed(ErrBusy, nil, refused[ErrBusy])
		}
		if len(newer) > 0 {
			if reason := health(ctx, conn.ClientConn); reason != nil {
				conn.Close()
				return nil, s.failed(reason, nil, nil)
			}
		}
		return conn, nil
	}
	for _, reason := range []error{ErrBusy, ErrAccessDenied, errUnreachable} {
		if err := refused[reason]; err != nil {
			return nil, s.failed(reason, nil, err)
		}
	}
	// None of the pipes exists. Find the reason by trying others.
	served, groups, reason := s.others(ctx)
	if reason != nil {
		return nil, s.failed(reason, nil, nil)
	}
	if len(served) > 0 || len(groups) > 0 {
		switch conn, refused := s.first(ctx, s.wanted); {
		case conn != nil:
			return conn, nil // the proxy was starting
		case refused[ErrBusy] != nil:
			return nil, s.failed(ErrBusy, nil, refused[ErrBusy])
		}
	}
	switch {
	case len(served) > 0:
		return nil, s.failed(ErrTooOld, served, nil)
	case len(groups) > 0:
		e := s.failed(ErrNotServed, nil, nil)
		e.groups = groups
		return nil, e
	}
	return nil, s.failed(ErrNotRunning, nil, refused[ErrNotRunning])
}

// first connects to the first of the versions that is served. If there is none, it
// returns the first error for each reason.
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
			break // it is served, so do not fall back to an older one
		}
	}
	return nil, refused
}

func (s *search) connect(ctx context.Context, path string) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	return transport.ConnectContext(ctx, path, s.dial...)
}

// others returns the served versions of the group that are not wanted, oldest first.
// If there are none, it returns the other groups that are served. It returns a reason if the
// proxy does not run as it should, so that the result would be incomplete.
func (s *search) others(ctx context.Context) (versions []apiversion.Version, groups []string, reason error) {
	busy, asked := false, false
	served := func(p api) bool {
		if busy || reason != nil {
			return false
		}
		conn, err := s.connect(ctx, s.path(p.group, p.version))
		if err != nil {
			busy = reasonOf(err) == ErrBusy // the proxy is starting, so the result would be incomplete
			return reasonOf(err) == ErrAccessDenied
		}
		defer conn.Close()
		if !asked { // one pipe answers for all
			asked, reason = true, health(ctx, conn)
		}
		return true
	}
	for _, p := range published() {
		if p.group == s.group && !slices.Contains(s.wanted, p.version) && served(p) {
			versions = append(versions, p.version)
		}
	}
	if len(versions) > 0 {
		return versions, nil, reason
	}
	for _, p := range published() {
		if p.group != s.group && !slices.Contains(groups, p.group) && served(p) {
			groups = append(groups, p.group)
		}
	}
	return nil, groups, reason
}

// health returns ErrStopping if the proxy at the other end of conn is stopping, ErrBusy if it
// has closed the connection or ctx ends first, and otherwise nil. A proxy reports that it is
// stopping before it removes the first pipe.
func health(ctx context.Context, conn *grpc.ClientConn) error {
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(limited, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(false))
	switch {
	case err == nil && answer.Status == grpc_health_v1.HealthCheckResponse_NOT_SERVING:
		return ErrStopping
	case status.Code(err) == codes.Unavailable, err != nil && over(ctx):
		return ErrBusy
	}
	return nil
}

// reasonOf returns the reason for the error of a connection.
func reasonOf(err error) error {
	var network net.Error
	switch {
	case errors.Is(err, fs.ErrPermission):
		return ErrAccessDenied
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return ErrNotRunning // no pipe, or a socket left by a server that was killed
	case errors.Is(err, transport.ErrNoAnswer), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.As(err, &network) && network.Timeout():
		return ErrBusy // all instances of the pipe are in use, or nothing responds
	}
	return errUnreachable
}
