package wire

import (
	"context"
	"errors"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
)

// Service is a version of an API group, which is served on its own pipe. It can be
// registered with a gRPC server.
type Service struct {
	// Group is the name of the API group as used in the pipe: "disk".
	Group string

	// Version is the version of the group.
	Version apiversion.Version

	// Desc has the full name of the service ("v1beta3.Disk") and its methods. Its
	// Metadata is the registered path of the .proto file.
	Desc *grpc.ServiceDesc

	// Impl is the version-agnostic service that the rows call.
	Impl any
}

// String returns the group and version, such as "disk/v1beta3".
func (s Service) String() string { return s.Group + "/" + s.Version.String() }

// version is a published version of a group.
type version struct {
	name string
	file protoreflect.FileDescriptor // its .proto file
}

// Check is called with each request before its service, and rejects the request by
// returning an error. The request is a pointer to a struct of pkg, such as
// *volume.MountVolumeRequest. A nil Check accepts all requests.
type Check func(request any) error

// target is the service that a row calls through [ask]. S is the Service of its group.
type target[S any] struct {
	service S
	check   Check
	version string // the version called, for error texts that contain it
}

// ask calls a method of the service unless the check rejects the request. Rows call
// their service only through ask. It returns a response or an error, never neither.
func ask[S, In, Out any](ctx context.Context, to target[S], method func(S, context.Context, *In) (*Out, error), in *In) (*Out, error) {
	if to.check != nil {
		if err := to.check(in); err != nil {
			return nil, err
		}
	}
	out, err := method(to.service, ctx, in)
	if err == nil && out == nil {
		err = errors.New("the service returned neither a response nor an error")
	}
	return out, err
}

// row serves one method with one form of its messages.
type row[S any] struct {
	method   string
	versions []string
	request  reflect.Type // the message, without pointer
	call     func(ctx context.Context, to target[S], in any) (any, error)
}

// unary returns a row that calls a function. Of all that serves a call, only the function here is
// compiled for each message.
func unary[S, In, Out any](method string, call func(ctx context.Context, to target[S], in *In) (*Out, error), versions ...string) row[S] {
	return row[S]{method, versions, reflect.TypeFor[In](), func(ctx context.Context, to target[S], in any) (any, error) {
		out, err := call(ctx, to, in.(*In))
		if err != nil {
			return nil, err
		}
		return out, nil
	}}
}

// handler returns what gRPC calls.
func (r row[S]) handler(to target[S], fullMethod string) grpc.MethodHandler {
	info := &grpc.UnaryServerInfo{Server: to.service, FullMethod: fullMethod}
	handle := func(ctx context.Context, in any) (any, error) { return r.call(ctx, to, in) }
	return func(_ any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := reflect.New(r.request).Interface()
		if err := dec(in); err != nil {
			return nil, err
		}
		if interceptor == nil {
			return handle(ctx, in)
		}
		return interceptor(ctx, in, info, handle)
	}
}

// services returns a Service for each version, with the rows that serve it.
func services[S any](group string, impl S, check Check, versions []version, rows []row[S]) []Service {
	var all []Service
	for _, v := range versions {
		// The generated descriptions of the services have the same, and with it the generated
		// handlers of all methods, which nothing calls.
		desc := &grpc.ServiceDesc{
			ServiceName: string(v.file.Services().Get(0).FullName()),
			HandlerType: (*S)(nil),
			Metadata:    v.file.Path(),
		}
		for _, r := range rows {
			for _, name := range r.versions {
				if name == v.name {
					full := "/" + desc.ServiceName + "/" + r.method
					desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: r.method, Handler: r.handler(target[S]{impl, check, v.name}, full)})
				}
			}
		}
		all = append(all, Service{Group: group, Version: apiversion.NewVersionOrPanic(v.name), Desc: desc, Impl: impl})
	}
	return all
}
