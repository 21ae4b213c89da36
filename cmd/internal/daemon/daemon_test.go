package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/dynamicpb"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	oldfilesystem "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	oldfs "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/simhost"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/control"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// asDaemon makes this test's binary run as csi-proxy-sim, in a separate process, to test
// signals and exit codes.
const asDaemon = "CSI_PROXY_TEST_AS_DAEMON"

func TestMain(m *testing.M) {
	if as := os.Getenv(asDaemon); as != "" {
		program := simhost.Program("v0.0.0-test")
		if as == crashing {
			program.Host = crashingHost{program.Host}
		}
		os.Exit(daemon.Run(context.Background(), program, os.Args[1:], os.Stderr))
	}
	os.Exit(m.Run())
}

// process is a running daemon.
type process struct {
	cmd *exec.Cmd

	mu     sync.Mutex
	stderr bytes.Buffer
	grown  chan struct{} // closed and replaced when stderr grows
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.grown)
	p.grown = make(chan struct{})
	return p.stderr.Write(b)
}

// output returns the stderr of the daemon so far, and a channel that is closed when there
// is more.
func (p *process) output() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String(), p.grown
}

// start starts a daemon, which is stopped at the end of the test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startProgram(t, os.Args[0], "1", args...)
}

// startProgram starts a daemon with a value of [asDaemon].
func startProgram(t *testing.T, program, as string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), grown: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asDaemon+"="+as)
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// SIGTERM lets it remove its temporary files. Errors mean that it has ended.
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.cmd.Wait()
	})
	return p
}

// longLimit is the time limit for things that should happen soon. A busy machine may need
// seconds instead of milliseconds.
const longLimit = 2 * time.Minute

// await waits until the stderr of the daemon contains text.
func (p *process) await(t *testing.T, text string) {
	t.Helper()
	limit := time.After(longLimit)
	for {
		output, grown := p.output()
		if strings.Contains(output, text) {
			return
		}
		select {
		case <-grown:
		case <-limit:
			t.Fatalf("the output does not contain %q:\n%s", text, output)
		}
	}
}

// exit waits until the daemon ends, and returns its exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	err := p.cmd.Wait()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// sockets sets a socket directory for the daemons and clients of this test.
func sockets(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("all tests of a machine share named pipes: run it on Linux, where each has its own sockets")
	}
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(pipe.DirVariable, dir)
	return dir
}

func diskClient(t *testing.T) *disk.Client {
	t.Helper()
	c, err := disk.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestDaemonServesAndLogsConfiguration(t *testing.T) {
	dir := sockets(t)
	p := start(t, `-working-dir=C:\csi`)
	p.await(t, "Serving ")
	output, _ := p.output()
	for _, want := range []string{
		`"Starting CSI-Proxy Server" host="simulated" version="v0.0.0-test"`,
		`"Opened node" workingDirs=["C:\\csi","C:\\var\\lib\\kubelet"] allowedServices=["MSiSCSI"] requirePrivacy=true readOnly=false`,
	} {
		if !strings.Contains(output, want) {
			t.Errorf("the log does not contain %q:\n%s", want, output)
		}
	}
	if first, _, _ := strings.Cut(output, "\n"); !strings.Contains(first, "simulated") {
		t.Errorf("the first line is %q, want the host in it", first)
	}

	ids, err := diskClient(t).ListDiskIDs(t.Context(), &diskv1.ListDiskIDsRequest{})
	if err != nil || len(ids.DiskIDs) != 3 {
		t.Errorf("ListDiskIDs = %v, %v, want the three disks of the default node", ids, err)
	}
	// An old version, and the rules of the daemon.
	fs, err := oldfs.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	for path, want := range map[string]codes.Code{`C:\csi\a`: codes.OK, `C:\Windows\a`: codes.PermissionDenied} {
		_, err := fs.Mkdir(t.Context(), &oldfilesystem.MkdirRequest{Path: path})
		if status.Code(err) != want || err != nil && !strings.Contains(err.Error(), `path: C:\Windows\a is not within the working directories: [C:\csi C:\var\lib\kubelet]`) {
			t.Errorf("Mkdir %s = %v, want %v", path, err, want)
		}
	}
	p.await(t, `"Audit"`)

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code after SIGTERM: %d, want 0", code)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.sock")); len(left) > 0 {
		t.Errorf("sockets left: %q", left)
	}
}

// A daemon that an administrator stops waits for a call that hangs, shows it, and says that it stops.
func TestStopWaitsForCall(t *testing.T) {
	sockets(t)
	p := start(t, "-metrics-bind-address=127.0.0.1:0")
	p.await(t, "Serving ")
	connect := func(name string) *grpc.ClientConn {
		conn, err := transport.Connect(pipe.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	if err := controlled(t).Fail(nodespec.Fault{Call: "Reenumerate", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	admins := admin.NewAdminClient(connect(admin.Pipe))
	c := diskClient(t)
	go c.Rescan(context.Background(), &diskv1.RescanRequest{})
	err := nodetest.Eventually(longLimit, func() error {
		out, err := admins.ListCalls(t.Context(), &admin.ListCallsRequest{})
		if err == nil && (len(out.Calls) != 1 || out.Calls[0].Win32 != "Reenumerate") {
			err = fmt.Errorf("the calls are %v", out.Calls)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	go admins.Stop(context.Background(), &admin.StopRequest{}) // returns when the call has ended
	p.await(t, "Waiting for running calls to finish")
	if code, text := p.state(t, "/readyz"); code != http.StatusServiceUnavailable || text != "stopping\n" {
		t.Errorf("/readyz = %d %q, want 503", code, text)
	}
	p.cmd.Process.Kill()
	p.exit(t)
}

func TestStartFailureIsReported(t *testing.T) {
	sockets(t)
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte("diks: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"misspelt field of the node", []string{"-node-config=" + file}, `unknown field "diks"`},
		{"service on this system", []string{"-windows-service"}, "run as the service csiproxy: this needs Windows"},
		{"rights of pipes on this system", []string{"-pipe-sddl=D:P(A;;GA;;;SY)"}, `flag -pipe-sddl: security descriptor "D:P(A;;GA;;;SY)": this system has no named pipes`},
		{"unknown API", []string{"-enable-api=disk,volumes"}, `flag -enable-api: there is no API "volumes": want a group (disk, filesystem, iscsi, smb, system, volume) or one of its versions (disk/v1alpha1, `},
		{"invalid working directory", []string{"-working-dir=kubelet"}, "kubelet"},
	} {
		p := start(t, c.args...)
		if code := p.exit(t); code != 1 {
			t.Errorf("%s: exit code %d, want 1", c.name, code)
		}
		output, _ := p.output()
		lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(output), "\n"), func(l string) bool { return !strings.HasPrefix(l, "csi-proxy-sim: ") })
		if len(lines) != 1 || !strings.Contains(lines[0], c.want) {
			t.Errorf("%s: output %q, want one line of csi-proxy-sim with %q", c.name, output, c.want)
		}
	}
}

// A service logs why it does not start: what is wrong with its flags, or with a configuration file
// that changed since it was installed. Its standard error goes nowhere.
func TestWrongSettingsAreLogged(t *testing.T) {
	sockets(t)
	for name, c := range map[string]struct {
		arg, want string
		code      int
	}{
		"file":  {"-config=" + configFile(t, "v: 0\nunknown-key: 1\n"), "csi-proxy.yaml:2: key unknown-key", 2},
		"flag":  {"-unknown-flag", "unknown-flag", 2},
		"value": {"-working-dir=kubelet", "working directories", 1},
	} {
		log := filepath.Join(t.TempDir(), "csi-proxy.log")
		if code := start(t, "-log_file="+log, "-logtostderr=false", c.arg).exit(t); code != c.code {
			t.Errorf("%s: exit code %d, want %d", name, code, c.code)
		}
		if text, err := os.ReadFile(log); err != nil || !bytes.Contains(text, []byte(c.want)) {
			t.Errorf("%s: the log lacks %q: %v\n%s", name, c.want, err, text)
		}
	}
}

// A read-only daemon answers what reads, and refuses what changes the node, in every version.
func TestReadOnlyAPI(t *testing.T) {
	sockets(t)
	p := start(t, "-read-only-api")
	p.await(t, "Serving ")
	refused := 0
	for _, s := range publishedServices(t) {
		conn := connectTo(t, s)
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			err := conn.Invoke(t.Context(), fmt.Sprintf("/%s/%s", s.FullName(), m.Name()), dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output()))
			byFlag := status.Code(err) == codes.PermissionDenied && strings.Contains(err.Error(), "-read-only-api")
			if byFlag {
				refused++
			}
			if byFlag != calls.Changes(string(m.Name())) {
				t.Errorf("%s: %v", m.FullName(), err)
			}
		}
		conn.Close()
	}
	t.Logf("%d of %d methods were refused", refused, len(publishedMethods(t)))
	if refused == 0 || refused == len(publishedMethods(t)) {
		t.Errorf("%d of %d methods were refused, want some", refused, len(publishedMethods(t)))
	}
}

// controlled returns the simulated node of the daemon.
func controlled(t *testing.T) *control.Node {
	t.Helper()
	n, err := control.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}
