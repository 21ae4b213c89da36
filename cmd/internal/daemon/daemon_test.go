package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/dynamicpb"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	olddisk "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	oldfilesystem "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	smbv1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	diskv1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta2"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	oldfs "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta1"
	smb "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/simhost"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
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

func control(t *testing.T) *simcontrol.Client {
	t.Helper()
	conn, err := transport.Connect(pipe.Path(simcontrol.Pipe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return simcontrol.NewClient(conn)
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

// The call must run from before the stop until new clients are rejected. If a busy
// machine is too slow for that, the test repeats with a longer call.
func TestStopFinishesRunningCall(t *testing.T) {
	sockets(t)
	for name, stop := range map[string]func(*testing.T, *process) <-chan error{
		"SIGTERM": func(t *testing.T, p *process) <-chan error {
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			done <- nil
			return done
		},
		"Stop": func(t *testing.T, p *process) <-chan error {
			conn, err := transport.Connect(pipe.Path(admin.Pipe))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			done := make(chan error, 1)
			go func() {
				_, err := admin.NewAdminClient(conn).Stop(context.Background(), &admin.StopRequest{})
				done <- err
			}()
			return done
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, long := range []time.Duration{time.Second, 10 * time.Second, 45 * time.Second} { // the server's grace is a minute
				ran := false
				t.Run(long.String(), func(t *testing.T) { ran = stopDuringCall(t, long, stop) })
				if ran || t.Failed() {
					return
				}
			}
			t.Error("new clients were rejected only after the running call had ended")
		})
	}
}

// stopDuringCall stops the daemon during a call of that length, and reports whether the
// call was still running when the daemon rejected new connections.
func stopDuringCall(t *testing.T, long time.Duration, stop func(*testing.T, *process) <-chan error) (ran bool) {
	p := start(t, "-metrics-bind-address=127.0.0.1:0")
	p.await(t, "Serving ")
	node := control(t)
	if err := node.Fail(t.Context(), nodespec.Fault{Call: "Reenumerate", Times: 1, Delay: long}); err != nil {
		t.Fatal(err)
	}
	c := diskClient(t)
	answer := make(chan error, 1)
	go func() {
		_, err := c.Rescan(context.Background(), &diskv1.RescanRequest{})
		answer <- err
	}()
	err := nodetest.Eventually(longLimit, func() error { // until the call is running
		state, err := node.Show(t.Context())
		if err == nil && (len(state.Faults) != 1 || state.Faults[0].Hits != 1) {
			err = fmt.Errorf("the call is not running: %+v", state.Faults)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	stopped := stop(t, p)
	err = nodetest.Eventually(longLimit, func() error {
		other, err := disk.NewClient()
		if err != nil {
			return nil
		}
		other.Close()
		return errors.New("the daemon still takes connections")
	})
	if err != nil {
		t.Fatal(err)
	}
	status, text, stateErr := p.tryState(t, "/readyz")
	ran = len(answer) == 0
	if ran && (status != http.StatusServiceUnavailable || text != "stopping\n") {
		t.Errorf("/readyz = %d %q (%v) while a call finishes, want 503", status, text, stateErr)
	}
	if err := <-answer; err != nil {
		t.Errorf("the running call = %v, want success", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("the stop = %v", err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if output, _ := p.output(); ran && !strings.Contains(output, "Waiting for running calls to finish") {
		t.Errorf("the log does not mention the running call:\n%s", output)
	}
	return ran
}

func TestStateDirSurvivesKill(t *testing.T) {
	sockets(t)
	state := "-state-dir=" + t.TempDir()
	p := start(t, state)
	p.await(t, "Serving ")
	attached, err := control(t).AttachDisk(t.Context(), nodespec.Disk{Size: 1 << 30, Serial: "KEPT", Identifiers: []nodespec.Identifier{{CodeSet: "ascii", Text: "kept-id"}}})
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Process.Kill()
	p.exit(t)

	start(t, state).await(t, "Serving ")
	var got *diskv1.DiskIDs
	for start := time.Now(); got == nil && time.Since(start) < longLimit; {
		_, rescan := diskClient(t).Rescan(t.Context(), &diskv1.RescanRequest{})
		ids, err := diskClient(t).ListDiskIDs(t.Context(), &diskv1.ListDiskIDsRequest{})
		if err := errors.Join(rescan, err); err != nil {
			t.Fatal(err)
		}
		got = ids.DiskIDs[attached.Number]
	}
	if got.GetSerialNumber() != "KEPT" || got.GetPage83() != "kept-id" {
		t.Errorf("after a kill disk %d has the identifiers %v", attached.Number, got)
	}
}

// The daemon applies both checks of paths: of the text and of the location.
func TestPathsOutsideAreRefused(t *testing.T) {
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
			t.Errorf("error %v, want PermissionDenied with %q", err, text)
		}
	}
	const link = `C:\var\lib\kubelet\link`

	// While C:\data is allowed, create a link to it in the other directory.
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
		t.Errorf("through the link while that is allowed: %v", err)
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

func TestErrorsAreLogged(t *testing.T) {
	sockets(t)
	log := filepath.Join(t.TempDir(), "csi-proxy.log")
	p := start(t, "-log_file="+log, "-logtostderr=false", "-working-dir=kubelet")
	if code := p.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	text, err := os.ReadFile(log)
	if err != nil || !bytes.Contains(text, []byte("Starting CSI-Proxy Server")) || !bytes.Contains(text, []byte("working directories")) {
		t.Errorf("log file: %v\n%s", err, text)
	}
}

// A service logs what is wrong with its flags, or with a configuration file that changed
// since it was installed. Its standard error goes nowhere.
func TestWrongSettingsAreLogged(t *testing.T) {
	sockets(t)
	for name, c := range map[string]struct{ arg, want string }{
		"file": {"-config=" + configFile(t, "v: 0\nunknown-key: 1\n"), "csi-proxy.yaml:2: key unknown-key"},
		"flag": {"-unknown-flag", "unknown-flag"},
	} {
		log := filepath.Join(t.TempDir(), "csi-proxy.log")
		if code := start(t, "-log_file="+log, "-logtostderr=false", c.arg).exit(t); code != 2 {
			t.Errorf("%s: exit code %d, want 2", name, code)
		}
		if text, err := os.ReadFile(log); err != nil || !bytes.Contains(text, []byte(c.want)) {
			t.Errorf("%s: the log lacks %q: %v\n%s", name, c.want, err, text)
		}
	}
}

// Every version of the served groups has a pipe.
func TestEveryVersionHasPipe(t *testing.T) {
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

// The daemon logs mappings of earlier processes with the first request that lists mappings.
func TestOrphanedMappingsAreLogged(t *testing.T) {
	sockets(t)
	state := t.TempDir()
	share := func() *process {
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
		return p
	}
	p := share()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.cmd.Wait()
	share().await(t, `"Found SMB mappings" mappings=1 links=0 withoutLinks=1`)
}

// A driver meets a daemon that serves some versions as it meets an older daemon: it falls
// back to a version that is served, or finds none.
func TestEnabledAPIs(t *testing.T) {
	sockets(t)
	p := start(t, "-enable-api=disk/v1beta2,disk/v1beta3,filesystem", "-enable-api=volume/v1")
	p.await(t, "Serving ")
	output, _ := p.output()
	if !strings.Contains(output, `"Serving API" pipes=`) {
		t.Fatal(output)
	}
	find := func(group string, names ...string) (negotiate.Found, error) {
		var wanted []apiversion.Version
		for _, name := range names {
			wanted = append(wanted, apiversion.NewVersionOrPanic(name))
		}
		return negotiate.Find(t.Context(), group, wanted)
	}
	if found, err := find("disk", "v1", "v1beta3", "v1beta1"); err != nil || found.Version.String() != "v1beta3" {
		t.Errorf("negotiate disk: %v, %v, want v1beta3", found, err)
	}
	var e *negotiate.Error
	if _, err := find("disk", "v1"); !errors.Is(err, negotiate.ErrTooOld) || !errors.As(err, &e) || len(e.Serves) != 2 {
		t.Errorf("negotiate disk/v1: %v, want ErrTooOld with two versions", err)
	}
	if _, err := find("smb", "v1"); !errors.Is(err, negotiate.ErrNotServed) {
		t.Errorf("negotiate smb: %v, want ErrNotServed", err)
	}
	// Published drivers call NewClient of each version, newest first, and take the first
	// that does not fail.
	if _, err := disk.NewClient(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("NewClient of disk/v1: %v, want fs.ErrNotExist", err)
	}
	old, err := diskv1beta2.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if _, err := old.ListDiskIDs(t.Context(), &olddisk.ListDiskIDsRequest{}); err != nil {
		t.Errorf("ListDiskIDs of disk/v1beta2: %v", err)
	}
	if _, err := smb.NewClient(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("NewClient of smb/v1: %v, want fs.ErrNotExist", err)
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
