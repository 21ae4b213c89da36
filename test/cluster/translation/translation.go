package translation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
)

// Config says between what a translation stands.
type Config struct {
	Root   string               // the kubelet's directory on Linux
	Driver string               // where the driver serves CSI, such as unix:///csi.sock
	Files  filesystem.Interface // the node's directories
	// Called, if it is set, is called before and after each call of the kubelet. If it
	// returns an error before a call, the driver is not called.
	Called func(Call) error
}

// Call is a call of the kubelet.
type Call struct {
	Method string // such as NodeStageVolume
	Path   string // on the node, of a pod if there is one; empty for a call without one
	Done   bool   // the driver has answered
	Err    error  // of a call that is done
}

// Translation is one driver on one node.
type Translation struct {
	config Config
	name   string
	conn   *grpc.ClientConn
	mirror *mirror
	stop   context.CancelFunc
	server *grpc.Server
	wait   sync.WaitGroup
}

// fields are the fields of CSI's requests that are paths of the node.
var fields = []protoreflect.Name{"staging_target_path", "target_path", "volume_path"}

// Start asks the driver for its name, waiting for it until ctx ends, and registers it.
func Start(ctx context.Context, config Config) (*Translation, error) {
	config.Root = path.Clean(config.Root)
	conn, err := grpc.NewClient(config.Driver, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	t := &Translation{config: config, conn: conn, mirror: &mirror{root: config.Root, node: config.Files, made: map[string]bool{}}}
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the driver at %s does not answer: %w", config.Driver, err), conn.Close())
	}
	t.name = info.GetName()
	if err := t.serve(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return t, nil
}

// Name returns the name of the driver.
func (t *Translation) Name() string { return t.name }

// Volumes returns the paths on the node that belong to pods and staged volumes.
func (t *Translation) Volumes() []string { return t.mirror.volumes() }

// Close unregisters the driver. The directories stay.
func (t *Translation) Close() error {
	t.stop()
	t.server.Stop()
	t.wait.Wait()
	return t.conn.Close()
}

// serve serves the kubelet's two sockets.
func (t *Translation) serve() error {
	socket := filepath.Join(t.config.Root, "plugins", t.name, "csi.sock")
	register := filepath.Join(t.config.Root, "plugins_registry", t.name+"-reg.sock")
	var listeners []net.Listener
	for _, file := range []string{socket, register} {
		l, err := listen(file)
		if err != nil {
			for _, open := range listeners {
				err = errors.Join(err, open.Close())
			}
			return err
		}
		listeners = append(listeners, l)
	}
	t.server = grpc.NewServer(grpc.UnknownServiceHandler(t.pass)) // CSI's services are unknown
	registration.RegisterRegistrationServer(t.server, &registrar{name: t.name, socket: socket})
	for _, l := range listeners {
		t.wait.Go(func() { _ = t.server.Serve(l) }) // ends with Stop
	}
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.wait.Go(func() { t.mirror.run(ctx) })
	return nil
}

// listen listens on a socket, in place of one that a translation that was killed has left.
func listen(file string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", file)
}

// pass passes a call to the driver. It translates the request, and makes the directories fit before
// and after the call.
func (t *Translation) pass(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	method, _ := grpc.MethodFromServerStream(stream) // a server's stream has one
	in, out, err := messages(method)
	if err != nil {
		return err
	}
	if err := stream.RecvMsg(in); err != nil {
		return err
	}
	c := Call{Method: path.Base(method)}
	files, err := t.translate(in)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if len(files) > 0 {
		c.Path, _ = windows(t.config.Root, files[len(files)-1]) // translated before
	}
	for _, file := range files {
		if err := t.mirror.before(ctx, file); err != nil {
			return status.Errorf(codes.Unavailable, "make the directories of the kubelet on the node: %v", err)
		}
	}
	if t.config.Called != nil {
		if err := t.config.Called(c); err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
	}
	err = t.conn.Invoke(ctx, method, in, out)
	if err == nil {
		for _, file := range files {
			if err = t.mirror.after(ctx, file); err != nil {
				err = status.Errorf(codes.Unavailable, "make the directories of the node for the kubelet: %v", err)
				break
			}
		}
	}
	c.Done, c.Err = true, err
	if t.config.Called != nil {
		_ = t.config.Called(c) // the call is made
	}
	if err != nil {
		return err
	}
	return stream.SendMsg(out)
}

// messages returns empty messages of a method of CSI.
func messages(method string) (in, out *dynamicpb.Message, err error) {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")))
	m, ok := d.(protoreflect.MethodDescriptor)
	if err != nil || !ok {
		return nil, nil, status.Errorf(codes.Unimplemented, "%s is no method of CSI", method)
	}
	return dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output()), nil
}

// text returns a text of a message, or "" if it does not have the field.
func text(m *dynamicpb.Message, name protoreflect.Name) string {
	field := m.Descriptor().Fields().ByName(name)
	if field == nil {
		return ""
	}
	return m.Get(field).String()
}

// translate replaces the paths in a request by those of the node, and returns what they were.
func (t *Translation) translate(in *dynamicpb.Message) ([]string, error) {
	var files []string
	for _, name := range fields {
		file := text(in, name)
		if file == "" {
			continue
		}
		file = path.Clean(file)
		on, err := windows(t.config.Root, file)
		if err != nil {
			return nil, err
		}
		in.Set(in.Descriptor().Fields().ByName(name), protoreflect.ValueOfString(on))
		files = append(files, file)
	}
	return files, nil
}
