package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	systemv1 "github.com/kubernetes-csi/csi-proxy/client/api/system/v1alpha1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/control"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// The size of the flood of TestFlood, and the memory limit of the daemon.
const (
	floodCallers     = 64
	floodConnections = 1000 // of misbehaving clients, in addition to the callers
	floodMemory      = 256 << 20
)

// floodFor returns the duration of the flood: CSI_PROXY_FLOOD, which make test sets to a
// minute, or three seconds.
func floodFor(t *testing.T) time.Duration {
	text := os.Getenv("CSI_PROXY_FLOOD")
	if text == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("CSI_PROXY_FLOOD: %v", err)
	}
	return d
}

// floodProgram returns the daemon under test: CSI_PROXY_SIM_BINARY or this test's binary.
func floodProgram() string {
	if b := os.Getenv("CSI_PROXY_SIM_BINARY"); b != "" {
		return b
	}
	return os.Args[0]
}

// startFlooded starts the daemon for the flood.
func startFlooded(t *testing.T) *process {
	t.Helper()
	p := startProgram(t, floodProgram(), "1", "-node-config="+targetsConfig(t), "-metrics-bind-address=127.0.0.1:0")
	p.await(t, "Serving ")
	return p
}

// proc returns a number from the daemon's /proc status, such as "VmHWM" or "Threads".
func (p *process) proc(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+)`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("/proc has no %s", name)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// files returns the number of the daemon's open files, including connections, but without
// disk images, whose number depends on connected targets.
func (p *process) files(t *testing.T) int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(list, func(f os.DirEntry) bool {
		name, err := os.Readlink(filepath.Join(dir, f.Name()))
		return err != nil || strings.HasSuffix(name, ".img") // an error means that the file is closed
	}))
}

// holding are the resources of a daemon.
type holding struct{ files, goroutines, handles int }

// resources counts the resources of the daemon. Each scrape has some goroutines of its own.
func (p *process) resources(t *testing.T, node *control.Node) holding {
	t.Helper()
	state, err := node.Show()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^go_goroutines (\d+)$`).FindStringSubmatch(scrape(t, p))
	if m == nil {
		t.Fatal("the metrics have no go_goroutines")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return holding{p.files(t), n, len(state.OpenHandles)}
}

// settle waits until the daemon has no more resources than an idle one.
func (p *process) settle(t *testing.T, node *control.Node, idle holding) {
	t.Helper()
	var now holding
	err := nodetest.Eventually(longLimit, func() error {
		if now = p.resources(t, node); now.files > idle.files || now.goroutines > idle.goroutines || now.handles != 0 {
			return errors.New("too many")
		}
		return nil
	})
	if err != nil {
		state, _ := node.Show()
		p.cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines
		p.exit(t)
		output, _ := p.output()
		t.Fatalf("%v after the flood the daemon has %+v, want no more than %+v; handles: %q\n%s", longLimit, now, idle, state.OpenHandles, output)
	}
}

// For a minute, callers call all methods, other clients misbehave, and the node fails now
// and then. Every call must return, the daemon's memory must stay within its limit, and
// afterwards all resources must be released.
func TestFlood(t *testing.T) {
	sockets(t)
	var idle holding
	t.Run("idle", func(t *testing.T) {
		p, node := startFlooded(t), controlled(t)
		for range 20 {
			now := p.resources(t, node)
			idle.files, idle.goroutines = max(idle.files, now.files), max(idle.goroutines, now.goroutines)
		}
	})

	p, node := startFlooded(t), controlled(t)
	var calls []floodCall
	t.Run("flood", func(t *testing.T) {
		calls = floodCalls(t, newTestNode(t))
		p.flood(t, calls)
	})

	// All resources are released.
	if err := node.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	p.settle(t, node, idle)
	for _, m := range calls {
		conn, err := transport.Connect(pipe.Path("csi-proxy-" + m.group + "-" + m.version))
		if err != nil {
			t.Fatal(err)
		}
		if c := m.call(t.Context(), conn, 0); !slices.Contains(answers, c) {
			t.Errorf("%s after the flood: %v", m.name, c)
		}
		conn.Close()
	}
	p.settle(t, node, idle)
	if output, _ := p.output(); strings.Contains(output, "DATA RACE") || strings.Contains(output, "panic:") {
		t.Errorf("the daemon's log contains a race or a panic:\n%s", output)
	}
}

// flood runs the flood for its duration, and until all methods were called.
func (p *process) flood(t *testing.T, calls []floodCall) {
	ctx, cancel := context.WithCancel(t.Context()) // no deadline, because it would apply to all calls
	defer cancel()
	var flood sync.WaitGroup
	flood.Go(func() { trouble(ctx, t) })
	var dropped, begun atomic.Int64
	for i := range floodConnections {
		flood.Go(func() { misbehave(ctx, rand.New(rand.NewPCG(2, uint64(i))), &dropped) })
	}
	var mu sync.Mutex
	got, called := map[codes.Code]int{}, map[string]bool{}
	for i := range floodCallers {
		flood.Go(func() {
			mine, names := callFlood(ctx, t, i, calls, &begun)
			mu.Lock()
			defer mu.Unlock()
			for c, n := range mine {
				got[c] += n
			}
			maps.Copy(called, names)
		})
	}
	most := 0
	end := time.Now().Add(floodFor(t))
	for complete := false; time.Now().Before(end) || !complete && time.Now().Before(end.Add(longLimit)); time.Sleep(200 * time.Millisecond) {
		most = max(most, p.proc(t, "Threads"))
		complete = begun.Load() == floodCallers && dropped.Load() > 0
	}
	cancel()
	flood.Wait()
	peak := p.proc(t, "VmHWM") << 10
	total := 0
	for _, n := range got {
		total += n
	}
	t.Attr("measured", fmt.Sprintf("%d calls of %d methods by %d callers: %v; %d connections dropped by the daemon; %d MiB resident at most, %d threads",
		total, len(called), floodCallers, got, dropped.Load(), peak>>20, most))
	if want := len(publishedMethods(t)); len(called) != want {
		t.Errorf("%d methods were called, want %d", len(called), want)
	}
	if got[codes.OK] < total/10 {
		t.Errorf("only %d of %d calls succeeded", got[codes.OK], total)
	}
	if peak > floodMemory && !underRace {
		t.Errorf("the daemon had %d MiB, want %d at most", peak>>20, floodMemory>>20)
	}
	if dropped.Load() == 0 {
		t.Error("the daemon dropped no connection")
	}
}

// floodCall is a method with a valid request.
type floodCall struct {
	name, group, version string
	request              func(caller int) []byte
}

// floodCalls returns all methods.
func floodCalls(t *testing.T, node *testNode) []floodCall {
	var calls []floodCall
	for _, s := range publishedServices(t) {
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			if i == 0 {
				node.prepare(t, m)
			}
			calls = append(calls, floodCall{
				name: fmt.Sprintf("/%s/%s", s.FullName(), m.Name()), group: strings.ToLower(string(s.Name())), version: string(s.ParentFile().Package()),
				request: floodRequest(node.prepare(t, m), m),
			})
		}
	}
	return calls
}

// floodRequest returns the requests of m. Each caller has its own directory; all share the
// disks and targets.
func floodRequest(ids map[string]string, m protoreflect.MethodDescriptor) func(caller int) []byte {
	return func(caller int) []byte {
		ids := maps.Clone(ids)
		for _, field := range []string{"path", "target_path", "mount", "local_path"} {
			ids[field] = fmt.Sprintf(`C:\var\lib\kubelet\pods\%d`, caller)
		}
		in := dynamicpb.NewMessage(m.Input())
		base(in, ids)
		b, err := proto.Marshal(in)
		if err != nil {
			panic(err)
		}
		return b
	}
}

// call makes the call and returns its status code.
func (m floodCall) call(ctx context.Context, conn *grpc.ClientConn, caller int) codes.Code {
	var out []byte
	return status.Code(conn.Invoke(ctx, m.name, m.request(caller), &out, grpc.ForceCodec(rawCodec{})))
}

// callFlood calls methods until ctx ends, some with a short deadline, and returns the
// status codes and the called methods. It starts with its share of all methods, so that
// all callers together call each method, and then calls methods at random. begun counts
// the callers that have finished their share.
func callFlood(ctx context.Context, t *testing.T, caller int, calls []floodCall, begun *atomic.Int64) (map[codes.Code]int, map[string]bool) {
	random := rand.New(rand.NewPCG(1, uint64(caller)))
	got, called := map[codes.Code]int{}, map[string]bool{}
	conns := map[string]*grpc.ClientConn{}
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	order := random.Perm(len(calls))
	share := 0
	for i := 0; i < len(calls); i += floodCallers {
		order = slices.Insert(order, 0, (caller+i)%len(calls))
		share++
	}
	for ctx.Err() == nil {
		for _, i := range order {
			m := calls[i]
			name := m.group + m.version
			for conns[name] == nil && ctx.Err() == nil {
				c, err := transport.Connect(pipe.Path("csi-proxy-" + m.group + "-" + m.version))
				switch {
				case err == nil:
					conns[name] = c
				case !errors.Is(err, context.DeadlineExceeded): // the test process may be too busy
					t.Errorf("connect to %s: %v", name, err)
					return got, called
				}
			}
			if ctx.Err() != nil {
				break
			}
			timeout := time.Duration(1+random.IntN(30)) * time.Second
			if random.IntN(8) == 0 {
				timeout = time.Duration(random.IntN(20)) * time.Millisecond
			}
			begin := time.Now()
			called[m.name] = true
			one, cancel := context.WithTimeout(ctx, timeout)
			code := m.call(one, conns[name], caller)
			if ctx.Err() != nil {
				cancel()
				break
			}
			got[code]++
			if share--; share == 0 {
				begun.Add(1)
			}
			switch {
			case slices.Contains(answers, code), code == codes.ResourceExhausted:
			case code == codes.DeadlineExceeded && time.Since(begin) > timeout-100*time.Millisecond:
			default:
				t.Errorf("%s: %v", m.name, code)
			}
			cancel()
		}
		order = random.Perm(len(calls))
	}
	return got, called
}

// trouble repeatedly makes calls of the node fail or take longer.
func trouble(ctx context.Context, t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	node, err := control.Open(ctx, "")
	if err != nil {
		t.Error(err)
		return
	}
	defer node.Close()
	errs := map[string][]string{
		"ERROR": {"CreateFile", "DeviceIoControl", "ReadAt", "WriteAt", "FlushFileBuffers", "Interfaces", "Reenumerate", "VolumeNames", "VolumeInformation",
			"FreeSpace", "VolumePathName", "VolumeNameForMountPoint", "VolumePathNames", "SetMountPoint", "DeleteMountPoint", "Format", "NtCreateFile",
			"QueryDirectory", "QueryInformation", "SetInformation", "FinalPath", "UseAdd", "UseEnum", "UseDel", "ServiceStatus", "StartService", "ControlService"},
		"ISDSC": {"AddIScsiSendTargetPortal", "ReportIScsiSendTargetPortals", "RefreshIScsiSendTargetPortal", "LoginIScsiTarget", "LogoutIScsiTarget", "GetIScsiSessionList"},
	}
	for ctx.Err() == nil {
		kind, texts := "ERROR", []string{"ERROR_SHARING_VIOLATION", "ERROR_NOT_READY", "ERROR_BUSY", "ERROR_DEVICE_NOT_CONNECTED"}
		if random.IntN(5) == 0 {
			kind, texts = "ISDSC", []string{"ISDSC_SESSION_BUSY"}
		}
		f := nodespec.Fault{Call: errs[kind][random.IntN(len(errs[kind]))], Times: uint32(1 + random.IntN(3)), Delay: time.Duration(random.IntN(100)) * time.Millisecond}
		if random.IntN(2) == 0 || f.Delay == 0 {
			f.Error = texts[random.IntN(len(texts))]
		}
		if err := node.Fail(f); err != nil && ctx.Err() == nil {
			t.Errorf("inject %v: %v", f, err)
			return
		}
		if random.IntN(50) == 0 {
			node.ClearFaults()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// misbehave repeatedly connects to a random pipe, sends invalid data or nothing, and waits
// until the daemon closes the connection.
func misbehave(ctx context.Context, random *rand.Rand, dropped *atomic.Int64) {
	const preface, settings = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	sockets, err := filepath.Glob(filepath.Join(os.Getenv(pipe.DirVariable), "*.sock"))
	if err != nil || len(sockets) == 0 {
		return
	}
	garbage := make([]byte, 4096)
	for i := range garbage {
		garbage[i] = byte(random.Uint32())
	}
	for ctx.Err() == nil {
		c, err := new(net.Dialer).DialContext(ctx, "unix", sockets[random.IntN(len(sockets))])
		if err != nil {
			return // the daemon has stopped
		}
		words := []string{
			"", preface[:10], preface, preface + settings, preface + settings + "\x00\x00\x64", string(garbage), preface + string(garbage),
			preface + settings + string(garbage), "GET / HTTP/1.1\r\n\r\n",
			preface + settings + "\x00\xff\xff\x01\x00\x00\x00\x00\x01", // headers that are never sent
		}
		data := words[random.IntN(len(words))]
		stop := context.AfterFunc(ctx, func() { c.Close() })
		io.WriteString(c, data)
		if random.IntN(4) == 0 {
			time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond) // disconnect
		} else if _, err := io.Copy(io.Discard, c); err == nil && ctx.Err() == nil {
			dropped.Add(1)
		}
		stop()
		c.Close()
	}
}

// While one pipe has reached its limits and all its calls hang in Windows, the other pipes
// respond as usual.
func TestFloodOfOnePipeDoesNotBlockOthers(t *testing.T) {
	sockets(t)
	startFlooded(t)
	node := newTestNode(t)
	if err := controlled(t).Fail(nodespec.Fault{Call: "Interfaces", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // otherwise the server's deadline would apply
	defer cancel()
	var refused atomic.Int64
	for range 68 { // connections, of 32 calls each: 32 run, 2048 wait, and 96 are too many
		disks := diskv1.NewDiskClient(node.connect(t, "disk", "v1"))
		for range 32 {
			callers.Go(func() {
				if _, err := disks.ListDiskIDs(ctx, &diskv1.ListDiskIDsRequest{}); status.Code(err) == codes.ResourceExhausted {
					refused.Add(1)
				}
			})
		}
	}
	for refused.Load() < 96 {
		time.Sleep(time.Millisecond)
	}
	for range 500 {
		_, err := node.files.PathExists(t.Context(), &filesystemv1.PathExistsRequest{Path: `C:\var\lib\kubelet`})
		if err == nil {
			_, err = node.system.GetService(t.Context(), &systemv1.GetServiceRequest{Name: "MSiSCSI"})
		}
		if err != nil {
			t.Fatalf("another pipe, while one hangs: %v", err)
		}
	}
	// One more call is rejected at once, or takes the place of another one.
	further, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	_, err := node.disks.GetDiskState(further, &diskv1.GetDiskStateRequest{})
	if n := refused.Load(); err == nil || n < 96 || n > 97 || n == 96 && status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%d calls were rejected, and the last one returned %v; want 97 rejected calls", n, err)
	}
	cancel()
	if err := controlled(t).ClearFaults(); err != nil {
		t.Fatal(err)
	}
	callers.Wait()
}
