package remote

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/kubernetes-csi/csi-proxy/client"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
)

// An Option says how the proxy is reached. All constructors take the same ones.
type Option func(*options)

type options struct {
	path func(group string, version apiversion.Version) string
	conn grpc.ClientConnInterface
	dial []grpc.DialOption
}

// WithPipePath names the pipe of a version of a group, if it is not the one of
// [client.PipePath]. Package pipe of the client module tells which paths there
// are; the absolute path of a unix socket is one.
func WithPipePath(path func(group string, version apiversion.Version) string) Option {
	return func(o *options) { o.path = path }
}

// WithConn takes a connection that exists already, whose server has the
// service of the group. It stays the caller's: Close leaves it open.
func WithConn(conn grpc.ClientConnInterface) Option {
	return func(o *options) { o.conn = conn }
}

// WithDialOptions adds options to the gRPC connections that are made, such as
// interceptors that count calls.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, opts...) }
}

// connection is the way to one group. The version that is spoken is a name in
// it, not code: versions of one family have the same bytes.
type connection struct {
	grpc.ClientConnInterface
	api     string // "disk/v1", for error texts
	service string // "v1.Disk"
	at      string // what the connection leads to, for error texts
	close   func() error
}

// connect makes the connection of a constructor. ctx is for the connecting
// only, not for later calls.
func connect(ctx context.Context, group, version, service string, opts []Option) (*connection, error) {
	o := options{}
	for _, set := range opts {
		set(&o)
	}
	if o.path == nil {
		o.path = client.PipePath
	}
	c := &connection{api: group + "/" + version, service: service}
	if o.conn != nil {
		c.ClientConnInterface, c.at, c.close = o.conn, "the connection that was given", func() error { return nil }
		return c, nil
	}
	path := o.path(group, apiversion.NewVersionOrPanic(version))
	c.at = path
	if name, err := pipe.Name(path); err == nil {
		c.at = `\\.\pipe\` + name
	}
	// Connect itself takes two seconds at the most.
	if err := ctx.Err(); err != nil {
		return nil, c.notConnected(err)
	}
	conn, err := transport.Connect(path, o.dial...)
	if err != nil {
		return nil, c.notConnected(err)
	}
	c.ClientConnInterface, c.close = conn, conn.Close
	return c, nil
}

// call calls a method of the API.
func (c *connection) call(ctx context.Context, method string, in, out proto.Message) error {
	if err := c.Invoke(ctx, "/"+c.service+"/"+method, in, out); err != nil {
		return c.failed(ctx, method, in, err)
	}
	return nil
}

// each converts the elements of a slice. Nil stays nil.
func each[A, B any](in []A, convert func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = convert(a)
	}
	return out
}

// eachValue converts the values of a map. Nil stays nil.
func eachValue[K comparable, A, B any](in map[K]A, convert func(A) B) map[K]B {
	if in == nil {
		return nil
	}
	out := make(map[K]B, len(in))
	for k, a := range in {
		out[k] = convert(a)
	}
	return out
}
