package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire/wiretest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// node is a proxy with its own pipes.
type node struct {
	*recorder
	prefix string
	stop   func() error
}

// pipePath returns the pipe of a version of a group.
func (n *node) pipePath(group string, version apiversion.Version) string {
	return pipe.Path(n.prefix + "csi-proxy-" + group + "-" + version.String())
}

func (n *node) option() remote.Option { return remote.WithPipePath(n.pipePath) }

// start serves all groups until the test ends.
func start(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(pipe.DirVariable, dir)
	n := &node{recorder: &recorder{}, prefix: filepath.Base(dir) + "-"}
	pipes := serve.Pipes(wire.Services(n.groups()))
	for i := range pipes {
		pipes[i].Name = n.prefix + pipes[i].Name
	}
	ready := make(chan struct{})
	s, err := serve.Open(context.Background(), serve.Config{
		Log:   slog.New(slog.NewTextHandler(io.Discard, nil)),
		Ready: func() { close(ready) },
	}, pipes...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- s.Serve(ctx) }()
	select {
	case <-ready:
	case err := <-result:
		cancel()
		t.Fatal(err)
	}
	n.stop = sync.OnceValue(func() error { cancel(); return <-result })
	t.Cleanup(func() { n.stop() })
	return n
}

// groupOf is a client of one group.
type groupOf struct {
	name   string
	api    reflect.Type // its Service
	client io.Closer
}

// connectAll connects clients to all groups.
func connectAll(t *testing.T, opts ...remote.Option) []groupOf {
	t.Helper()
	groups, err := tryAll(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		t.Cleanup(func() { g.client.Close() })
	}
	return groups
}

func tryAll(ctx context.Context, opts ...remote.Option) ([]groupOf, error) {
	d, errD := remote.NewDisk(ctx, opts...)
	f, errF := remote.NewFilesystem(ctx, opts...)
	i, errI := remote.NewISCSI(ctx, opts...)
	s, errS := remote.NewSMB(ctx, opts...)
	y, errY := remote.NewSystem(ctx, opts...)
	v, errV := remote.NewVolume(ctx, opts...)
	return []groupOf{
		{"disk", reflect.TypeFor[disk.Service](), d},
		{"filesystem", reflect.TypeFor[filesystem.Service](), f},
		{"iscsi", reflect.TypeFor[iscsi.Service](), i},
		{"smb", reflect.TypeFor[smb.Service](), s},
		{"system", reflect.TypeFor[system.Service](), y},
		{"volume", reflect.TypeFor[volume.Service](), v},
	}, errors.Join(errD, errF, errI, errS, errY, errV)
}

// method is a method of an Interface.
type method struct {
	group string
	reflect.Method
	client io.Closer
}

func (m method) String() string { return m.group + "." + m.Name }

// unpublished lists the methods that no published version has.
var unpublished = []string{"PathValid"}

// methods returns the methods of all groups that a client can call through a pipe.
func methods(groups []groupOf) []method {
	var all []method
	for _, g := range groups {
		for i := range g.api.NumMethod() {
			if m := g.api.Method(i); !slices.Contains(unpublished, m.Name) {
				all = append(all, method{g.name, m, g.client})
			}
		}
	}
	return all
}

// request returns a new, empty request of the method.
func (m method) request() reflect.Value { return reflect.New(m.Type.In(1).Elem()) }

// call calls the method on impl.
func (m method) call(ctx context.Context, impl any, in reflect.Value) (out any, err error) {
	results := reflect.ValueOf(impl).MethodByName(m.Name).Call([]reflect.Value{reflect.ValueOf(ctx), in})
	err, _ = results[1].Interface().(error)
	return results[0].Interface(), err
}

// travels sends values through a method, in the fields that the version has.
func (n *node) travels(t *testing.T, m method, name string, request, response map[string]bool) {
	t.Helper()
	same := func(about string, fillIn, fillOut func(any)) {
		t.Helper()
		in := m.request()
		fillIn(in.Interface())
		wiretest.Clear(in.Interface(), request)
		n.set(fillOut, nil, nil)

		want := reflect.New(m.Type.Out(0).Elem()).Interface()
		if err := n.answer(t.Context(), m.Name, in.Interface(), want); err != nil {
			t.Fatal(err)
		}
		wiretest.Clear(want, response)
		n.set(fillOut, nil, nil)
		got, err := m.call(t.Context(), m.client, in)
		if err != nil {
			t.Fatalf("%s with %s: %v", name, about, err)
		}
		called, arrived := n.last()
		if called != m.Name || !reflect.DeepEqual(arrived, in.Interface()) {
			t.Errorf("%s with %s: the service got %s(%+v), want %+v", name, about, called, arrived, in.Interface())
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s with %s: response %+v, want %+v", name, about, got, want)
		}
	}
	bools := max(fill(m.request().Interface(), 0, false), fill(reflect.New(m.Type.Out(0).Elem()).Interface(), 0, false))
	for b := range bools + 1 { // in the last run, none is true
		fills := func(p any) { fill(p, b, false) }
		same(fmt.Sprintf("values, bool %d true", b), fills, fills)
	}
	most := func(p any) { fill(p, 0, true) }
	same("the largest numbers", most, most)
	nothing := func(any) {}
	same("nothing", nothing, nothing)
}

// TestErrorsMatchInProcess sends each kind of error through each group.
func TestErrorsMatchInProcess(t *testing.T) {
	n := start(t)
	clients := connectAll(t, n.option())
	type sent struct {
		err    error
		kind   error // also found by its code alone
		reason string
	}
	denied := fmt.Errorf("the volume: %w", win32.ERROR_ACCESS_DENIED)
	cases := []sent{
		{errors.New("something else"), nil, "UNKNOWN"},
		{hosterr.Wrap("format volume", `"V"`, errors.New("without kind")), nil, "UNKNOWN"},
		{denied, hosterr.ErrPermissionDenied, "ERROR_ACCESS_DENIED"},
		{hosterr.WithHint("remove", `"C:\a"`, win32.ERROR_SHARING_VIOLATION, "stop who has it open"), hosterr.ErrUnavailable, "ERROR_SHARING_VIOLATION"},
		{hosterr.Wrap("open", "disk 3", win32.ERROR_FILE_NOT_FOUND), hosterr.ErrNotFound, "ERROR_FILE_NOT_FOUND"},
		{hosterr.Wrap("wait for", "service X", context.DeadlineExceeded), nil, "DEADLINE_EXCEEDED"},
		{hosterr.Wrap("wait for", "service X", context.Canceled), nil, "CANCELED"},
		{hosterr.Wrap("do", "", errors.ErrUnsupported), hosterr.ErrUnimplemented, "UNIMPLEMENTED"},
		{hosterr.Wrap("outer", "a", hosterr.WithHint("inner", "b", hosterr.ErrNotFound, "look there")), hosterr.ErrNotFound, "NOT_FOUND"},
		{hosterr.Text(hosterr.ErrInvalid, "exactly this: %w", errors.New("text")), hosterr.ErrInvalid, "INVALID_ARGUMENT"},
	}
	codes := map[error]string{
		hosterr.ErrInvalid: "INVALID_ARGUMENT", hosterr.ErrNotFound: "NOT_FOUND", hosterr.ErrAlreadyExists: "ALREADY_EXISTS",
		hosterr.ErrPermissionDenied: "PERMISSION_DENIED", hosterr.ErrFailedPrecondition: "FAILED_PRECONDITION",
		hosterr.ErrOutOfRange: "OUT_OF_RANGE", hosterr.ErrUnavailable: "UNAVAILABLE", hosterr.ErrUnimplemented: "UNIMPLEMENTED",
	}
	for _, kind := range hosterr.Kinds() {
		cases = append(cases, sent{hosterr.WithHint("format volume", `"V"`, fmt.Errorf("it is so: %w", kind), "do that"), kind, codes[kind]})
	}
	targets := append(hosterr.Kinds(), fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, context.Canceled, context.DeadlineExceeded,
		win32.ERROR_ACCESS_DENIED, win32.ERROR_SHARING_VIOLATION, win32.ERROR_FILE_NOT_FOUND)
	for _, c := range cases {
		n.set(nil, c.err, nil)
		for _, m := range methods(clients) {
			in := m.request()
			out, err := m.call(t.Context(), m.client, in)
			var e *remote.Error
			if !errors.As(err, &e) || !reflect.ValueOf(out).IsNil() {
				t.Fatalf("%s: response %v, error %v (%T), want an Error", m, out, err, err)
			}
			if err.Error() != c.err.Error() {
				t.Errorf("%s: error %q, want %q", m, err, c.err)
			}
			if got, want := hosterr.KindOf(err), c.kind; got != want {
				t.Errorf("%s: %q is of kind %v, want %v", m, err, got, want)
			}
			for _, target := range targets {
				if got, want := errors.Is(err, target), errors.Is(c.err, target) || target == c.kind; got != want {
					t.Errorf("%s: %q is %v: %t, want %t", m, err, target, got, want)
				}
			}
			if got, want := errors.Is(err, errors.ErrUnsupported), c.kind == hosterr.ErrUnimplemented; got != want {
				t.Errorf("%s: %q is ErrUnsupported: %t, want %t", m, err, got, want)
			}
			var was, is hosterr.Error
			if w := (*hosterr.Error)(nil); errors.As(c.err, &w) {
				was = *w
			}
			if i := (*hosterr.Error)(nil); errors.As(err, &i) {
				is = *i
				if is.Error() != was.Error() {
					t.Errorf("%s: the error inside is %q, want %q", m, is.Error(), was.Error())
				}
			}
			if is.Op != was.Op || is.Target != was.Target || e.Op != was.Op || e.Target != was.Target {
				t.Errorf("%s: op %q, target %q, in Error %q and %q, want %q and %q", m, is.Op, is.Target, e.Op, e.Target, was.Op, was.Target)
			}
			hint := hosterr.HintOf(c.err)
			if e.Hint != hint || hosterr.HintOf(err) != hint || e.Reason != c.reason {
				t.Errorf("%s: hint %q (%q), reason %q, want %q and %q", m, e.Hint, hosterr.HintOf(err), e.Reason, hint, c.reason)
			}
			if _, ok := status.FromError(err); ok {
				t.Errorf("%s: %q is a gRPC status; in process it is none", m, err)
			}
		}
	}
}

func TestContextOfCall(t *testing.T) {
	n := start(t)
	all := methods(connectAll(t, n.option()))

	for _, m := range all {
		began, ended := make(chan struct{}), make(chan error, 1)
		n.set(nil, nil, func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-began; cancel() }()
		_, err := m.call(ctx, m.client, m.request())
		if !errors.Is(err, context.Canceled) || hosterr.KindOf(err) != nil {
			t.Errorf("%s, canceled: error %v of kind %v, want that of the context", m, err, hosterr.KindOf(err))
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s, canceled: the service's context ended with %v", m, err)
		}
	}

	m := all[0]
	// gRPC sends the remaining time through the pipe, so the service's deadline is later
	// by the time that the request took.
	got := make(chan time.Time, 1)
	n.set(nil, nil, func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		got <- deadline
		return nil
	})
	want := time.Now().Add(24 * time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), want)
	defer cancel()
	if _, err := m.call(ctx, m.client, m.request()); err != nil {
		t.Fatalf("%s: %v", m, err)
	}
	if d := (<-got).Sub(want).Abs(); d > time.Hour {
		t.Errorf("%s: the service's deadline is %v off", m, d)
	}

	// The deadline may pass before the request reaches the service.
	n.set(nil, nil, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := m.call(ctx, m.client, m.request())
	if !errors.Is(err, context.DeadlineExceeded) || hosterr.KindOf(err) != nil {
		t.Errorf("%s, after its deadline: error %v, want that of the context", m, err)
	}
}

func TestNilRequests(t *testing.T) {
	n := start(t)
	clients := connectAll(t, n.option())
	for _, m := range methods(clients) {
		out, err := m.call(t.Context(), m.client, reflect.Zero(m.Type.In(1)))
		if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), m.Name+": the request is nil") || !reflect.ValueOf(out).IsNil() {
			t.Errorf("%s(nil): response %v, error %v, want ErrInvalid", m, out, err)
		}
		if called, _ := n.last(); called != "" {
			t.Errorf("%s(nil): the service was called", m)
		}
	}
}

func TestPathValidIsUnsupported(t *testing.T) {
	n := start(t)
	f, err := remote.NewFilesystem(t.Context(), n.option())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := f.PathValid(t.Context(), &filesystem.PathValidRequest{Path: `C:\a`})
	var e *remote.Error
	if !errors.Is(err, hosterr.ErrUnimplemented) || !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &e) || e.Hint == "" || e.Hint != hosterr.HintOf(err) ||
		!strings.Contains(err.Error(), "no published version of the filesystem API has this method") {
		t.Errorf("error %v, want ErrUnsupported with the reason", err)
	}
	if out == nil || out.Valid {
		t.Errorf("response %v, want one that is not valid and not nil", out)
	}
	if out, err := f.PathValid(t.Context(), nil); out == nil || !errors.Is(err, hosterr.ErrInvalid) {
		t.Errorf("PathValid(nil) = %v, %v, want ErrInvalid", out, err)
	}
}

func TestNotRunning(t *testing.T) {
	n := start(t)
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	clients, err := tryAll(t.Context(), n.option())
	for _, g := range clients {
		if !reflect.ValueOf(g.client).IsNil() {
			t.Errorf("%s: a client was returned", g.name)
		}
	}
	all := err.(interface{ Unwrap() []error }).Unwrap()
	if len(all) != len(clients) {
		t.Fatalf("%d errors, want %d", len(all), len(clients))
	}
	for i, err := range all {
		group := clients[i].name
		want := "CSI Proxy: " + group + " v" // the versions
		name := `\\.\pipe\` + n.prefix + "csi-proxy-" + group + "-v"
		if !errors.Is(err, hosterr.ErrUnavailable) || !errors.Is(err, fs.ErrNotExist) ||
			!strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %q, want ErrUnavailable with %s", group, err, name)
		}
	}
}

func TestSocketAccessDenied(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("file permissions are not enforced here: run the test on Linux, not as root")
	}
	n := start(t)
	if err := os.Chmod(os.Getenv(pipe.DirVariable), 0); err != nil {
		t.Fatal(err)
	}
	_, err := remote.NewDisk(t.Context(), n.option())
	if !errors.Is(err, hosterr.ErrPermissionDenied) || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "may not open") {
		t.Errorf("error %v, want permission denied", err)
	}
}

func TestInvalidPipePath(t *testing.T) {
	_, err := remote.NewDisk(t.Context(), remote.WithPipePath(func(string, apiversion.Version) string { return `disk\v1` }))
	if err == nil || hosterr.KindOf(err) == hosterr.ErrPermissionDenied || !strings.Contains(err.Error(), `disk\v1`) {
		t.Errorf("error %v, want one with the path", err)
	}
}

func TestConstructorContext(t *testing.T) {
	n := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := remote.NewDisk(ctx, n.option()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	d, err := remote.NewDisk(ctx, n.option())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	cancel()
	if _, err := d.Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
		t.Errorf("a call after the end of the constructor's context: %v", err)
	}
}

func TestStoppedProxy(t *testing.T) {
	n := start(t)
	clients := connectAll(t, n.option())
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	for _, m := range methods(clients) {
		_, err := m.call(t.Context(), m.client, m.request())
		name := `\\.\pipe\` + n.prefix + "csi-proxy-" + m.group + "-v"
		if !errors.Is(err, hosterr.ErrUnavailable) || !strings.Contains(err.Error(), "no response from "+name) {
			t.Errorf("%s: error %v, want ErrUnavailable with %s", m, err, name)
		}
	}
}

func TestCloseInterruptsCall(t *testing.T) {
	n := start(t)
	for _, g := range connectAll(t, n.option()) {
		began := make(chan struct{})
		n.set(nil, nil, func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		})
		go func() { <-began; g.client.Close() }()
		m := methods([]groupOf{g})[0]
		if _, err := m.call(t.Context(), m.client, m.request()); !errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want net.ErrClosed and no context error", m, err)
		}
	}
}

func TestRequestsWithInvalidUTF8(t *testing.T) {
	n := start(t)
	const bad = "secret\xff"
	clients := connectAll(t, n.option())
	for _, c := range []struct {
		call  func() error
		field string
	}{
		{func() error {
			_, err := clients[1].client.(filesystem.Interface).Mkdir(t.Context(), &filesystem.MkdirRequest{Path: bad})
			return err
		}, "path"},
		{func() error {
			_, err := clients[2].client.(iscsi.Interface).AddTargetPortal(t.Context(),
				&iscsi.AddTargetPortalRequest{TargetPortal: &iscsi.TargetPortal{TargetAddress: bad}})
			return err
		}, "target_address"},
		{func() error {
			_, err := clients[3].client.(smb.Interface).NewSMBGlobalMapping(t.Context(),
				&smb.NewSMBGlobalMappingRequest{RemotePath: `\\s\s`, Username: "me", Password: bad})
			return err
		}, "password"},
		{func() error {
			_, err := clients[0].client.(disk.Interface).PartitionDisk(t.Context(), &disk.PartitionDiskRequest{Identity: &disk.DiskIdentity{Identifiers: []string{"a", bad}}})
			return err
		}, "identifiers"},
	} {
		err := c.call()
		if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), "field "+c.field+" of the request is not valid UTF-8") || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want ErrInvalid with the name of field %s, but not its value", err, c.field)
		}
	}
}

// A request that is larger than the proxy's limit is an invalid argument.
func TestRequestTooLarge(t *testing.T) {
	n := start(t)
	c, err := remote.NewFilesystem(t.Context(), n.option())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Mkdir(t.Context(), &filesystem.MkdirRequest{Path: strings.Repeat("a", 100_000)})
	if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), "the request has 100004 bytes") {
		t.Errorf("Mkdir of a path of 100000 bytes: %v, want an invalid argument with its size", err)
	}
}

func TestWithConnStaysOpen(t *testing.T) {
	r := &recorder{}
	conn := wiretest.Serve(t, func(s *grpc.Server) { wiretest.Register(s, r.groups()) })
	for range 2 {
		for _, m := range methods(connectAll(t, remote.WithConn(conn))) {
			if _, err := m.call(t.Context(), m.client, m.request()); err != nil {
				t.Errorf("%s: %v", m, err)
			}
			if err := m.client.Close(); err != nil {
				t.Errorf("%s: Close: %v", m, err)
			}
		}
	}
}

func TestWithDialOptions(t *testing.T) {
	n := start(t)
	var seen []string
	clients := connectAll(t, n.option(), remote.WithDialOptions(grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			seen = append(seen, method)
			return invoke(ctx, method, in, out, cc, opts...)
		})))
	if _, err := clients[0].client.(disk.Interface).Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"/" + newest(t, "disk").Desc.ServiceName + "/Rescan"}; !slices.Equal(seen, want) {
		t.Errorf("the interceptor saw %q, want %q", seen, want)
	}
}

// oldDisk is a proxy with one method, whose errors have no details.
type oldDisk struct{ err error }

func (o oldDisk) rescan() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{ServiceName: "v1.Disk", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Rescan",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			if err := decode(new(diskv1.RescanRequest)); err != nil {
				return nil, err
			}
			return nil, o.err
		},
	}}}
}

func TestProxyWithoutDetails(t *testing.T) {
	for _, c := range []struct {
		about string
		err   error
		text  string
		kind  error
	}{
		{"an error of a published version", errors.New("could not find disk"), "could not find disk", nil},
		{"a policy's refusal", status.Error(codes.PermissionDenied, "not here"), "not here", hosterr.ErrPermissionDenied},
		{"a status without details", status.Error(codes.NotFound, "no such disk"), "no such disk", hosterr.ErrNotFound},
		{"a deadline of gRPC", status.Error(codes.DeadlineExceeded, "too late"), "disk/v1 Rescan: too late", nil},
		{"gRPC itself", status.Error(codes.ResourceExhausted, "message too large"),
			"disk/v1 Rescan: the call through the connection of WithConn failed: message too large", nil},
	} {
		conn := wiretest.Serve(t, func(s *grpc.Server) { s.RegisterService(oldDisk{c.err}.rescan(), nil) })
		d, err := remote.NewDisk(t.Context(), remote.WithConn(conn), remote.WithVersions(apiversion.NewVersionOrPanic("v1")))
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Rescan(t.Context(), &disk.RescanRequest{})
		var e *remote.Error
		if !errors.As(err, &e) || err.Error() != c.text || hosterr.KindOf(err) != c.kind || e.Reason != "" || hosterr.HintOf(err) != "" {
			t.Errorf("%s: error %q of kind %v, want %q of kind %v", c.about, err, hosterr.KindOf(err), c.text, c.kind)
		}
	}
}

func TestProxyTooOld(t *testing.T) {
	conn := wiretest.Serve(t, func(s *grpc.Server) { s.RegisterService(oldDisk{}.rescan(), nil) })
	for _, m := range methods(connectAll(t, remote.WithConn(conn))) {
		if m.String() == "disk.Rescan" {
			continue
		}
		_, err := m.call(t.Context(), m.client, m.request())
		if !errors.Is(err, hosterr.ErrUnimplemented) || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "does not have this method") {
			t.Errorf("%s: error %v, want ErrUnimplemented with the reason", m, err)
		}
	}
}
