package script

import (
	"bytes"
	_ "embed"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

//go:embed node.yaml
var nodeConfig []byte

// Daemon is a csi-proxy-sim that serves a new simulated node until the test ends.
type Daemon struct {
	dir    string // directory of the sockets
	binary string
	flags  []string
	ctl    string
	*process
}

// process is a process of the daemon.
type process struct {
	cmd *exec.Cmd
	log log
}

// Start starts the daemon that CSI_PROXY_SIM_BINARY names, with these flags in addition to
// those that the script needs. csi-proxyctl must be in the same directory. The test is
// skipped if the variable is not set.
func Start(t *testing.T, flags ...string) *Daemon {
	t.Helper()
	binary := os.Getenv("CSI_PROXY_SIM_BINARY")
	if binary == "" {
		t.Skip("CSI_PROXY_SIM_BINARY is not set; make test builds the daemon and sets it")
	}
	dir, err := os.MkdirTemp("", "csi") // short, because the path of a socket is limited to 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(config, nodeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Daemon{dir: dir, binary: binary, ctl: filepath.Join(filepath.Dir(binary), "csi-proxyctl"+filepath.Ext(binary))}
	d.flags = append([]string{"-node-config", config,
		"-service-allow=Store", "-service-allow=Replica", "-service-allow=Broken", "-service-allow=Unused"}, flags...)
	d.process = d.launch(t)
	d.await(t)
	return d
}

// launch starts a process of the daemon, which ends with the test.
func (d *Daemon) launch(t *testing.T) *process {
	t.Helper()
	cmd := exec.Command(d.binary, d.flags...)
	p := &process{cmd: cmd}
	cmd.Env = append(os.Environ(), "CSI_PROXY_DIR="+d.dir)
	cmd.Stderr = &p.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState != nil {
			return // the test has ended it
		}
		if runtime.GOOS == "windows" {
			// A process can be interrupted only from its own console. The tests of
			// the service show how the daemon stops.
			if err := cmd.Process.Kill(); err != nil {
				t.Errorf("the daemon had already exited: %v", err)
			}
			_ = cmd.Wait() // always fails, because the process was killed
		} else {
			// An error means that the daemon has exited; Wait returns why.
			_ = cmd.Process.Signal(os.Interrupt)
			if err := cmd.Wait(); err != nil {
				t.Errorf("the daemon exited with %v", err)
			}
		}
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", p.log.String())
		}
	})
	return p
}

// awaitLog waits until the log contains text.
func (p *process) awaitLog(t *testing.T, text string) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); !strings.Contains(p.log.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("the daemon's log lacks %q:\n%s", text, p.log.String())
		}
	}
}

// log is what the daemon has written.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

var _ io.Writer = (*log)(nil)

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits until the daemon responds on its control socket. By then all other
// sockets exist.
func (d *Daemon) await(t *testing.T) {
	t.Helper()
	limit := time.Now().Add(2 * time.Minute)
	for {
		out, err := d.try("node", "Show")
		if err == nil {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the daemon did not start serving within 2 minutes: %v\n%s", err, out)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Socket returns the path of the socket that replaces a pipe.
func (d *Daemon) Socket(pipe string) string {
	return filepath.Join(d.dir, pipe[strings.LastIndexByte(pipe, '\\')+1:]+".sock")
}

// Control runs csi-proxyctl and returns what it printed.
func (d *Daemon) Control(t *testing.T, args ...string) string {
	t.Helper()
	out, err := d.try(args...)
	if err != nil {
		t.Fatalf("csi-proxyctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (d *Daemon) try(args ...string) (string, error) {
	cmd := exec.Command(d.ctl, args...)
	cmd.Env = append(os.Environ(), "CSI_PROXY_DIR="+d.dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
