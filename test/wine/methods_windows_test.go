package wine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/kubernetes-csi/csi-proxy/client"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
)

// Each method of each version answers over this Windows, whatever it lacks. (That none starts a
// process, a rule of test/rules says.)
func TestEveryMethodAnswers(t *testing.T) {
	start(t, csiProxy, "-smb-allow-loopback")
	called, done := 0, 0
	for _, name := range apiPipes() {
		group, version, _ := strings.Cut(strings.TrimPrefix(name, "csi-proxy-"), "-")
		conn, err := transport.Connect(client.PipePath(group, apiversion.NewVersionOrPanic(version)))
		if err != nil {
			t.Error(err)
			continue
		}
		c, d := callAll(t, conn, group, version)
		called, done = called+c, done+d
		conn.Close()
	}
	if want := apiMethods(); called != want || done < 20 {
		t.Errorf("called %d methods, of which %d succeeded; want %d and some", called, done, want)
	}
	measured(t, "methods called of csi-proxy.exe: %d, of which %d succeeded", called, done)
}

// callAll calls each method of a service once.
func callAll(t *testing.T, conn grpc.ClientConnInterface, group, version string) (called, done int) {
	t.Helper()
	protoregistry.GlobalFiles.RangeFilesByPackage(protoreflect.FullName(version), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			if !strings.EqualFold(string(s.Name()), group) {
				continue
			}
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				in := dynamicpb.NewMessage(m.Input())
				something(in, m)
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				err := conn.Invoke(ctx, fmt.Sprintf("/%s/%s", s.FullName(), m.Name()), in, dynamicpb.NewMessage(m.Output()))
				cancel()
				called++
				switch status.Code(err) {
				case codes.OK:
					done++
				case codes.Unimplemented: // this Windows may lack it
					if strings.Contains(err.Error(), "unknown ") {
						t.Errorf("%s %s: %v", version, m.FullName(), err)
					}
				case codes.DeadlineExceeded, codes.Canceled:
					t.Errorf("%s %s: %v", version, m.FullName(), err)
				}
			}
		}
		return true
	})
	return called, done
}

// something fills a request with harmless values that reach far into the code: a
// directory of the kubelet, a volume and a disk that do not exist, a service that
// may not be started.
func something(in protoreflect.Message, m protoreflect.MethodDescriptor) {
	for i := range in.Descriptor().Fields().Len() {
		f := in.Descriptor().Fields().Get(i)
		name := strings.ToLower(string(f.Name()))
		switch {
		case f.IsList() || f.IsMap():
		case f.Kind() == protoreflect.MessageKind:
			something(in.Mutable(f).Message(), m)
		case f.Kind() == protoreflect.StringKind:
			text := "98"
			switch {
			case strings.Contains(name, "remote"):
				text = `\\127.0.0.1\nothing`
			case strings.Contains(name, "path"):
				text = `C:\var\lib\kubelet\pods\` + name
			case strings.Contains(name, "volume"):
				text = `\\?\Volume{00000000-1111-2222-3333-444444444444}\`
			case name == "name":
				text = "Spooler"
			}
			in.Set(f, protoreflect.ValueOfString(text))
		case f.Kind() == protoreflect.Uint32Kind:
			in.Set(f, protoreflect.ValueOfUint32(98))
		case f.Kind() == protoreflect.EnumKind:
			in.Set(f, protoreflect.ValueOfEnum(1))
		}
	}
}
