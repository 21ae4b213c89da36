package wire

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
)

// Service is one version of one API group: what one pipe serves. It is made
// from rows and ready to be registered with a gRPC server.
type Service struct {
	// Group is the name of the API group as in the pipe: "disk".
	Group string

	// Version is the version of the group.
	Version apiversion.Version

	// Desc has the full name of the service ("v1beta3.Disk"), its methods, and
	// as Metadata the path under which its .proto file is registered, which
	// is where gRPC reflection looks for it.
	Desc *grpc.ServiceDesc

	// Impl is the version-agnostic service that the rows call.
	Impl any
}

// Register adds the service to a gRPC server.
func (s Service) Register(r grpc.ServiceRegistrar) { r.RegisterService(s.Desc, s.Impl) }

// String is "disk/v1beta3".
func (s Service) String() string { return s.Group + "/" + s.Version.String() }

// version is a published version of a group.
type version struct {
	name      string
	published *grpc.ServiceDesc // as generated for the version's own messages
}

// Check is asked about each request of a service before the service gets it,
// and may refuse it with an error. The request is a pointer to a struct of pkg,
// such as *volume.MountVolumeRequest. A nil Check refuses nothing.
type Check func(request any) error

// target is what a row calls, through [ask]: a method of S, the Service of its
// group.
type target[S any] struct {
	service S
	check   Check
	version string // the version called, for error texts that contain it
}

// ask hands a request to the service unless the check refuses it. It is the only
// way from a row to its service.
func ask[S, In, Out any](ctx context.Context, to target[S], method func(S, context.Context, *In) (*Out, error), in *In) (*Out, error) {
	if to.check != nil {
		if err := to.check(in); err != nil {
			return nil, err
		}
	}
	return method(to.service, ctx, in)
}

// row serves one method in one shape on the wire.
type row[S any] struct {
	method   string
	versions []string
	bind     func(fullMethod, version string, check Check) grpc.MethodHandler
}

// unary makes a row of a function.
func unary[S, In, Out any](method string, call func(ctx context.Context, to target[S], in *In) (*Out, error), versions ...string) row[S] {
	bind := func(fullMethod, version string, check Check) grpc.MethodHandler {
		return func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			in := new(In)
			if err := dec(in); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, in any) (any, error) {
				out, err := call(ctx, target[S]{srv.(S), check, version}, in.(*In))
				if err != nil {
					return nil, err
				}
				return out, nil
			}
			if interceptor == nil {
				return handle(ctx, in)
			}
			return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod}, handle)
		}
	}
	return row[S]{method: method, versions: versions, bind: bind}
}

// services registers the rows under the service name of each version that they
// serve.
func services[S any](group string, impl S, check Check, versions []version, rows []row[S]) []Service {
	var all []Service
	for _, v := range versions {
		desc := &grpc.ServiceDesc{
			ServiceName: v.published.ServiceName,
			HandlerType: (*S)(nil),
			Metadata:    v.published.Metadata,
		}
		for _, r := range rows {
			for _, name := range r.versions {
				if name == v.name {
					full := "/" + desc.ServiceName + "/" + r.method
					desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: r.method, Handler: r.bind(full, v.name, check)})
				}
			}
		}
		all = append(all, Service{Group: group, Version: apiversion.NewVersionOrPanic(v.name), Desc: desc, Impl: impl})
	}
	return all
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

// noAnswer is the error for an implementation of a group that returns neither
// a response nor an error. Nothing else could be sent but zeros, and a driver
// would believe them.
func noAnswer(method string) error {
	return fmt.Errorf("%s returned neither a response nor an error", method)
}
