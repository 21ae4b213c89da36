package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	oldfilesystem "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	smbv1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	oldfs "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta1"
	smb "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/simhost"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
)

// asDaemon makes this test's binary run as csi-proxy-sim: signals and exit codes
// are those of a process.
const asDaemon = "CSI_PROXY_TEST_AS_DAEMON"

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		os.Exit(daemon.Run(context.Background(), simhost.Program("v0.0.0-test"), os.Args[1:], os.Stderr))
	}
	os.Exit(m.Run())
}

// process is a daemon that runs.
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

// said returns what the daemon has said, and a channel that is closed when it
// says more.
func (p *process) said() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String(), p.grown
}

// start starts a daemon; the test ends it if nobody else does.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startProgram(t, os.Args[0], args...)
}

func startProgram(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), grown: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asDaemon+"=1")
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A killed one could not remove its temporary files. Errors mean that
		// it has ended.
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.cmd.Wait()
	})
	return p
}

// hung is how long something takes that will never be: a busy machine takes
// seconds for what takes milliseconds, and these tests are not about that.
const hung = 2 * time.Minute

// await waits until the daemon has said text.
func (p *process) await(t *testing.T, text string) {
	t.Helper()
	limit := time.After(hung)
	for {
		said, grown := p.said()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-grown:
		case <-limit:
			t.Fatalf("csi-proxy did not say %q; it said\n%s", text, said)
		}
	}
}

// exit waits for the end of the daemon and returns its exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	err := p.cmd.Wait()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// sockets gives daemons and clients of this test a directory of their own.
func sockets(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("named pipes are one for the whole machine, sockets have a directory each: run it on Linux")
	}
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(pipe.DirVariable, dir)
	return dir
}

func control(t *testing.T) simcontrol.NodeClient {
	t.Helper()
	conn, err := transport.Connect(pipe.Path(simcontrol.Pipe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return simcontrol.NewNodeClient(conn)
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

func TestDaemonServesAndSaysWhatItIs(t *testing.T) {
	dir := sockets(t)
	p := start(t, `-working-dir=C:\csi`)
	p.await(t, "Serving ")
	said, _ := p.said()
	for _, want := range []string{
		"Starting CSI-Proxy Server ...", "simulated", "Version: v0.0.0-test",
		`Working directories: [C:\csi C:\var\lib\kubelet]`, "Require privacy: true",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the log lacks %q:\n%s", want, said)
		}
	}
	if first, _, _ := strings.Cut(said, "\n"); !strings.Contains(first, "simulated") {
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
		if _, err := fs.Mkdir(t.Context(), &oldfilesystem.MkdirRequest{Path: path}); status.Code(err) != want {
			t.Errorf("Mkdir %s = %v, want %v", path, err, want)
		}
	}

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

func TestSecondDaemonSaysWhyItCannotServe(t *testing.T) {
	dir := sockets(t)
	start(t).await(t, "Serving ")
	second := start(t)
	if code := second.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	said, _ := second.said()
	served, err := filepath.Glob(filepath.Join(dir, "*.sock"))
	if err != nil || len(served) == 0 {
		t.Fatalf("sockets of the first daemon: %v, %v", served, err)
	}
	for _, s := range served {
		name := strings.TrimSuffix(filepath.Base(s), ".sock")
		if !strings.Contains(said, "  "+name+": ") {
			t.Errorf("the error does not name %s:\n%s", name, said)
		}
	}
	if strings.Contains(said, "panic") || !strings.Contains(said, "another CSI Proxy is listening on it") {
		t.Errorf("the second daemon said\n%s", said)
	}
	if _, err := diskClient(t).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
		t.Errorf("the first daemon now answers %v", err)
	}
}

// The call has to run from before the signal until new clients are turned away.
// A busy machine may need longer for that than the call runs; then a call that
// runs longer tells.
func TestSIGTERMLetsARunningCallFinish(t *testing.T) {
	sockets(t)
	for _, long := range []time.Duration{time.Second, 10 * time.Second, 45 * time.Second} { // the server's grace is a minute
		told := false
		t.Run(long.String(), func(t *testing.T) { told = stopWhileACallRuns(t, long) })
		if told || t.Failed() {
			return
		}
	}
	t.Error("new clients were turned away only when the running call had ended")
}

// stopWhileACallRuns tells the daemon to stop while a call of that length runs,
// and whether the call still ran when the daemon took no more connections.
func stopWhileACallRuns(t *testing.T, long time.Duration) (ran bool) {
	p := start(t)
	p.await(t, "Serving ")
	node := control(t)
	slow := &simcontrol.Fault{Call: "Reenumerate", Times: 1, DelayMilliseconds: long.Milliseconds()}
	if _, err := node.Fail(t.Context(), &simcontrol.FailRequest{Fault: slow}); err != nil {
		t.Fatal(err)
	}
	c := diskClient(t)
	answer := make(chan error, 1)
	go func() {
		_, err := c.Rescan(context.Background(), &diskv1.RescanRequest{})
		answer <- err
	}()
	for { // until the call is in the middle of its work
		state, err := node.Show(t.Context(), &simcontrol.ShowRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if len(state.Faults) == 1 && state.Faults[0].Hits == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for { // it takes no new connections, in a moment
		other, err := disk.NewClient()
		if err != nil {
			break
		}
		other.Close()
		time.Sleep(time.Millisecond)
	}
	ran = len(answer) == 0
	if err := <-answer; err != nil {
		t.Errorf("the running call = %v, want its answer", err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if said, _ := p.said(); ran && !strings.Contains(said, "Waiting for running calls to finish") {
		t.Errorf("the log does not tell that a call still ran:\n%s", said)
	}
	return ran
}

func TestStateDirOutlivesTheDaemon(t *testing.T) {
	sockets(t)
	state := "-state-dir=" + t.TempDir()
	p := start(t, state)
	p.await(t, "Serving ")
	attached, err := control(t).AttachDisk(t.Context(), &simcontrol.AttachDiskRequest{SizeBytes: 1 << 30, SerialNumber: "KEPT", Page83: "kept-id"})
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Process.Kill()
	p.exit(t)

	start(t, state).await(t, "Serving ")
	ids, err := diskClient(t).ListDiskIDs(t.Context(), &diskv1.ListDiskIDsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := ids.DiskIDs[attached.Disk.Number]
	if got.GetSerialNumber() != "KEPT" || got.GetPage83() != "kept-id" {
		t.Errorf("after a kill disk %d has the identifiers %v", attached.Disk.Number, got)
	}
}

// The daemon puts both checks of paths before its services: that of the text, and
// that of where the path leads.
func TestPathsAreConfined(t *testing.T) {
	sockets(t)
	state := "-state-dir=" + t.TempDir()
	mkdir := func(path string) error {
		c, err := filesystem.NewClient()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Mkdir(t.Context(), &filesystemv1.MkdirRequest{Path: path})
		return err
	}
	denied := func(err error, text string) {
		t.Helper()
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want PermissionDenied that says %q", err, text)
		}
	}
	const link = `C:\var\lib\kubelet\link`

	// While C:\data is allowed, a link to it is made below the other directory.
	p := start(t, state, `-working-dir=C:\data`)
	p.await(t, "Serving ")
	if err := mkdir(`C:\data`); err != nil {
		t.Fatal(err)
	}
	c, err := filesystem.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CreateSymlink(t.Context(), &filesystemv1.CreateSymlinkRequest{SourcePath: `C:\data`, TargetPath: link}); err != nil {
		t.Fatal(err)
	}
	if err := mkdir(link + `\allowed`); err != nil {
		t.Errorf("through the link while it may: %v", err)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}

	start(t, state).await(t, "Serving ")
	denied(mkdir(`C:\data\a`), `path: C:\data\a is not within the working directories: [C:\var\lib\kubelet]`)
	denied(mkdir(link+`\a`), "leads to")
	v, err := volume.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	_, err = v.GetVolumeIDFromTargetPath(t.Context(), &volumev1.GetVolumeIDFromTargetPathRequest{TargetPath: `C:\data`})
	denied(err, `path: C:\data is not within the working directories`)
}

func TestDaemonThatCannotStartSaysWhy(t *testing.T) {
	sockets(t)
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte("diks: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"a port that is taken", []string{"-metrics-bind-address=" + taken.Addr().String()}, "-metrics-bind-address=" + taken.Addr().String() + ": listen tcp"},
		{"metrics at no address", []string{"-metrics-bind-address=9100"}, "-metrics-bind-address=9100: "},
		{"misspelt field of the node", []string{"-node-config=" + file}, `unknown field "diks"`},
		{"no services here", []string{"-windows-service"}, "csiproxy needs Windows"},
		{"a working directory that is no path", []string{"-working-dir=kubelet"}, "kubelet"},
	} {
		p := start(t, c.args...)
		if code := p.exit(t); code != 1 {
			t.Errorf("%s: exit code %d, want 1", c.name, code)
		}
		said, _ := p.said()
		lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(said), "\n"), func(l string) bool { return !strings.HasPrefix(l, "csi-proxy-sim: ") })
		if len(lines) != 1 || !strings.Contains(lines[0], c.want) {
			t.Errorf("%s: said %q, want one line of csi-proxy-sim with %q", c.name, said, c.want)
		}
	}
}

func TestErrorsGoToTheLogFileToo(t *testing.T) {
	sockets(t)
	log := filepath.Join(t.TempDir(), "csi-proxy.log")
	p := start(t, "-log_file="+log, "-logtostderr=false", "-metrics-bind-address=nowhere")
	if code := p.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	text, err := os.ReadFile(log)
	if err != nil || !bytes.Contains(text, []byte("Starting CSI-Proxy Server ...")) || !bytes.Contains(text, []byte("metrics-bind-address")) {
		t.Errorf("log file: %v\n%s", err, text)
	}
}

// Every version that the wire has for the served groups has a pipe.
func TestEveryServedVersionHasItsPipe(t *testing.T) {
	dir := sockets(t)
	start(t).await(t, "Serving ")
	for _, group := range []string{"disk", "volume", "filesystem", "system", "smb", "iscsi"} {
		protos, err := filepath.Glob("../../../client/api/" + group + "/*/api.proto")
		if err != nil || len(protos) == 0 {
			t.Fatalf("no versions of %s found: %v", group, err)
		}
		for _, p := range protos {
			version := apiversion.NewVersionOrPanic(filepath.Base(filepath.Dir(p)))
			if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("csi-proxy-%s-%s.sock", group, version))); err != nil {
				t.Error(err)
			}
		}
	}
}

// A mapping that an earlier process left behind is told of at start, before
// anybody asks.
func TestOrphanedMappingsAreToldAtStart(t *testing.T) {
	sockets(t)
	state := t.TempDir()
	p := start(t, "-state-dir="+state)
	p.await(t, "Serving ")
	c, err := smb.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.NewSmbGlobalMapping(t.Context(), &smbv1.NewSmbGlobalMappingRequest{
		RemotePath: `\\files.example.com\data`, Username: "csi", Password: "csi",
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.cmd.Wait()

	p = start(t, "-state-dir="+state)
	p.await(t, `"SMB mappings found" mappings=1 links=0 without links=1`)
}
