package api_test

import (
	"reflect"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/internal/pipetest"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// TestClientMethodsCallService calls every method of every version's client and checks
// the method that arrives at the pipe.
func TestClientMethodsCallService(t *testing.T) {
	called := make(chan string, 1)
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		name, _ := grpc.MethodFromServerStream(stream)
		called <- name
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		return stream.SendMsg(&emptypb.Empty{})
	}))
	path := pipetest.Path(t)
	l := pipetest.Listen(t, path)
	go s.Serve(l)
	defer s.Stop()

	for _, v := range load(t).versions() {
		out := reflect.ValueOf(published[v.String()]).Call([]reflect.Value{reflect.ValueOf(path)})
		if err, _ := out[1].Interface().(error); err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		c := out[0]
		for _, r := range v.RPCs {
			m := c.MethodByName(r.Name)
			req := reflect.New(m.Type().In(1).Elem())
			out := m.Call([]reflect.Value{reflect.ValueOf(t.Context()), req})
			if err, _ := out[1].Interface().(error); err != nil {
				t.Errorf("%s %s: %v", v, r.Name, err)
				continue
			}
			if got := <-called; got != r.FullMethod {
				t.Errorf("%s %s called %s, want %s", v, r.Name, got, r.FullMethod)
			}
			if out[0].IsNil() {
				t.Errorf("%s %s returned no response", v, r.Name)
			}
		}
		if out := c.MethodByName("Close").Call(nil); !out[0].IsNil() {
			t.Errorf("%s: Close: %v", v, out[0])
		}
	}
	l.WaitOpen(t, 0)
}
