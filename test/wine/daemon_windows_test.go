package wine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire/wiretest"
)

// program is a program under test, by the environment variable with its path.
type program string

const (
	csiProxy    program = "CSI_PROXY_BINARY"     // csi-proxy.exe, over the local Windows
	csiProxySim program = "CSI_PROXY_SIM_BINARY" // csi-proxy-sim.exe, over a simulated node
)

// path returns the path of the program. Without one it skips the test.
func (p program) path(t *testing.T) string {
	t.Helper()
	path := os.Getenv(string(p))
	if path == "" {
		t.Skipf("needs %s, the path of a program; make test builds one and sets it", p)
	}
	return path
}

// measured shows a number in the summary of make test, even if the test passes.
func measured(t *testing.T, format string, args ...any) {
	t.Attr("measured", strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
}

// timeout limits every wait. Only a hang takes this long.
const timeout = 2 * time.Minute

// process is a program under test that runs in the background.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	pipes int // the number in the log line that it serves

	mu  sync.Mutex
	log bytes.Buffer
}

// Write receives the process's stderr.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

var serving = regexp.MustCompile(`Serving API" pipes=(\d+)`)

// launch starts a program without waiting until it serves. The end of the test
// kills it.
func launch(t *testing.T, what program, args ...string) *process {
	t.Helper()
	return launchCommand(t, what.path(t), args...)
}

func launchCommand(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(path, args...)}
	p.cmd.Stderr = p
	p.cmd.WaitDelay = timeout // a child that outlives it, as that of cmd.exe, has its stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", p.cmd.Path, p.output())
		}
	})
	return p
}

// start starts a program and waits until it serves.
func start(t *testing.T, what program, args ...string) *process {
	t.Helper()
	p := launch(t, what, args...)
	p.pipes, _ = strconv.Atoi(p.awaitOutput(serving)[1])
	return p
}

// awaitOutput waits for output that matches. The log line of a call may come
// after the call has returned.
func (p *process) awaitOutput(what *regexp.Regexp) (match []string) {
	p.t.Helper()
	err := nodetest.Eventually(timeout, func() error {
		if match = what.FindStringSubmatch(p.output()); match == nil {
			return fmt.Errorf("csi-proxy did not log %s", what)
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return match
}

// kill kills the process. A process without its own console cannot be interrupted
// on Windows; the tests of the service cover an orderly end.
func (p *process) kill() {
	// Errors mean that the process has ended, and how.
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// apiPipes returns the names of the pipes of every published version.
func apiPipes() []string {
	var names []string
	for _, s := range wire.Services(wiretest.Groups(nil)) {
		names = append(names, "csi-proxy-"+s.Group+"-"+s.Version.String())
	}
	return names
}

// apiMethods is the number of methods of all versions.
func apiMethods() int {
	n := 0
	for _, s := range wire.Services(wiretest.Groups(nil)) {
		n += len(s.Desc.Methods)
	}
	return n
}

// answering counts the pipes on which a server answers that it is healthy. Each
// gets one try, with a connection of its own.
func answering(t *testing.T, names []string) int {
	t.Helper()
	n := 0
	for _, name := range names {
		conn, err := transport.Connect(pipe.Path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		out, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		cancel()
		conn.Close()
		if err != nil || out.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%s: health %v, %v", name, out, err)
			continue
		}
		n++
	}
	return n
}
