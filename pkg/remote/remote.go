package remote

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kubernetes-csi/csi-proxy/client"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// An Option configures a constructor. All constructors have the same options.
type Option func(*options)

type options struct {
	path     func(group string, version apiversion.Version) string
	versions []apiversion.Version
	conn     grpc.ClientConnInterface
	dial     []grpc.DialOption
}

// WithPipePath sets the path of the pipe of a version of a group, instead of
// [client.PipePath]. Package pipe of the client module describes paths of pipes; the absolute
// path of a unix socket is one.
func WithPipePath(path func(group string, version apiversion.Version) string) Option {
	return func(o *options) { o.path = path }
}

// WithVersions limits the versions that may be used. The constructor fails if the group does
// not have one of them.
func WithVersions(versions ...apiversion.Version) Option {
	return func(o *options) { o.versions = versions }
}

// WithConn uses an existing connection to a server that has the newest version of the group, or
// of [WithVersions]. Close does not close it.
func WithConn(conn grpc.ClientConnInterface) Option {
	return func(o *options) { o.conn = conn }
}

// WithDialOptions adds options to the gRPC connection that the constructor makes, such as
// interceptors that count calls. They also see calls of the proxy's health service.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, opts...) }
}

// spoken is a version of a group that this package supports.
type spoken struct {
	name string
	desc *grpc.ServiceDesc
}

// connection is the connection to one group.
type connection struct {
	grpc.ClientConnInterface
	group   string
	version string
	desc    *grpc.ServiceDesc // of the version
	at      string            // where the connection leads, for error texts
	close   func() error
}

// connect makes the connection of a constructor to the first of versions that is served;
// versions are sorted, newest first. ctx is for connecting only, not for later calls.
func connect(ctx context.Context, group string, versions []spoken, opts []Option) (*connection, error) {
	o := options{path: client.PipePath}
	for _, set := range opts {
		set(&o)
	}
	wanted, err := o.wanted(group, versions)
	if err != nil {
		return nil, err
	}
	c := &connection{group: group}
	speak := func(v apiversion.Version) *connection {
		i := slices.IndexFunc(versions, func(s spoken) bool { return s.name == v.String() })
		c.version, c.desc = versions[i].name, versions[i].desc
		return c
	}
	if o.conn != nil {
		c.ClientConnInterface, c.at, c.close = o.conn, "the connection of WithConn", func() error { return nil }
		return speak(wanted[0]), nil
	}
	conn, err := negotiate.Connect(ctx, group, wanted, negotiate.WithPipePath(o.path), negotiate.WithDialOptions(o.dial...))
	if err != nil {
		return nil, notConnected(err)
	}
	c.ClientConnInterface, c.at, c.close = conn, conn.PipePath, conn.Close
	if name, err := pipe.Name(conn.PipePath); err == nil {
		c.at = `\\.\pipe\` + name
	}
	return speak(conn.Version), nil
}

// wanted returns the versions that may be used, newest first.
func (o *options) wanted(group string, versions []spoken) ([]apiversion.Version, error) {
	var all []apiversion.Version
	for _, s := range versions {
		all = append(all, apiversion.NewVersionOrPanic(s.name))
	}
	if len(o.versions) == 0 {
		return all, nil
	}
	for _, v := range o.versions {
		if !slices.Contains(all, v) {
			return nil, &Error{text: fmt.Sprintf("%s: unknown version %q, want one of %v", group, v, all), causes: []error{hosterr.ErrInvalid}}
		}
	}
	return slices.DeleteFunc(all, func(v apiversion.Version) bool { return !slices.Contains(o.versions, v) }), nil
}

// api returns the group and version, such as "disk/v1".
func (c *connection) api() string { return c.group + "/" + c.version }

func (c *connection) apiVersion() apiversion.Version { return apiversion.NewVersionOrPanic(c.version) }

// call calls a method of the API, if the version has it.
func (c *connection) call(ctx context.Context, method string, in, out proto.Message) error {
	return c.callAs(ctx, method, method, in, out)
}

// callAs calls a method that has the name then in this version.
func (c *connection) callAs(ctx context.Context, method, then string, in, out proto.Message) error {
	if !slices.ContainsFunc(c.desc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == then }) {
		return c.lacks(method)
	}
	if err := c.Invoke(ctx, "/"+c.desc.ServiceName+"/"+then, in, out); err != nil {
		return c.failed(ctx, method, in, err)
	}
	return nil
}

// versionHeader is pipes.VersionHeader of the server: a header of its health check.
const versionHeader = "csi-proxy-version"

// build returns the version of the proxy's build. A proxy that is none of this project has no
// health service, or no such header.
func (c *connection) build(ctx context.Context) (string, error) {
	var header metadata.MD
	in := &grpc_health_v1.HealthCheckRequest{}
	_, err := grpc_health_v1.NewHealthClient(c).Check(ctx, in, grpc.Header(&header))
	if v := header.Get(versionHeader); len(v) == 1 {
		return v[0], nil
	}
	if err == nil || status.Code(err) == codes.Unimplemented {
		return "", nil
	}
	return "", c.failed(ctx, "Check", in, err)
}
