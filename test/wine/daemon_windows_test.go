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

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// program is a program under test: the variable of the environment with its path.
type program string

const (
	csiProxy    program = "CSI_PROXY_BINARY"     // csi-proxy.exe, over the Windows that it runs on
	csiProxySim program = "CSI_PROXY_SIM_BINARY" // csi-proxy-sim.exe, over a simulated node
)

// path is where the program is. Without one the test is skipped.
func (p program) path(t *testing.T) string {
	t.Helper()
	path := os.Getenv(string(p))
	if path == "" {
		t.Skipf("%s names no program; make test builds one and sets it", p)
	}
	return path
}

// measured shows a number in the summary of make test, though the test passes.
func measured(t *testing.T, format string, args ...any) {
	t.Attr("measured", strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
}

// patience is how long is waited for what is to come. Only what hangs takes so long.
const patience = 2 * time.Minute

// process is a program under test that runs in the background.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	started time.Time
	ready   time.Duration // from its start to its word that it serves
	pipes   int           // as many as it says that it serves

	mu  sync.Mutex
	log bytes.Buffer
}

// Write is for the process's stderr.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

var serving = regexp.MustCompile(`Serving (\d+) pipes`)

// launch starts a program and does not wait for it. The end of the test ends it.
func launch(t *testing.T, what program, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(what.path(t), args...), started: time.Now()}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", p.cmd.Path, p.said())
		}
	})
	return p
}

// start starts a program and waits until it says that it serves.
func start(t *testing.T, what program, args ...string) *process {
	t.Helper()
	p := launch(t, what, args...)
	p.pipes, _ = strconv.Atoi(p.awaitSaid(serving)[1])
	p.ready = time.Since(p.started)
	return p
}

// awaitSaid waits until the process has said what matches. What it says before it
// answers a call may be heard after the answer.
func (p *process) awaitSaid(what *regexp.Regexp) (match []string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if m := what.FindStringSubmatch(p.said()); m != nil {
			return m
		}
		if time.Now().After(end) {
			p.t.Fatalf("csi-proxy did not say %s", what)
		}
	}
}

// kill ends the process at once. A process without a console of its own cannot
// be interrupted on Windows; an orderly end is what the service is tested for.
func (p *process) kill() {
	// Errors mean that it has ended, and that it did not end by itself.
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// control is the pipe of a simulated node's own service.
const control = simcontrol.Pipe

// apiPipes are the names of the pipes of every published version.
func apiPipes() []string {
	var names []string
	for _, services := range [][]wire.Service{wire.Disk(nil, nil), wire.Filesystem(nil, nil), wire.ISCSI(nil, nil), wire.SMB(nil, nil), wire.System(nil, nil), wire.Volume(nil, nil)} {
		for _, s := range services {
			names = append(names, "csi-proxy-"+s.Group+"-"+s.Version.String())
		}
	}
	return names
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
		ctx, cancel := context.WithTimeout(t.Context(), patience)
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
