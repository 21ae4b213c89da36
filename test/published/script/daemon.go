package script

import (
	"bytes"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

//go:embed node.yaml
var nodeConfig []byte

// Daemon is a csi-proxy-sim that serves a fresh simulated node until the test ends.
type Daemon struct {
	dir string // with its sockets
	ctl string
}

// Start starts the daemon that CSI_PROXY_SIM_BINARY names, with csi-proxyctl beside
// it. Without one the test is skipped.
func Start(t *testing.T) *Daemon {
	t.Helper()
	binary := os.Getenv("CSI_PROXY_SIM_BINARY")
	if binary == "" {
		t.Skip("CSI_PROXY_SIM_BINARY names no daemon to call; make test builds one and sets it")
	}
	dir, err := os.MkdirTemp("", "csi") // short: the path of a socket has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(config, nodeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Daemon{dir: dir, ctl: filepath.Join(filepath.Dir(binary), "csi-proxyctl"+filepath.Ext(binary))}
	cmd := exec.Command(binary, "-node-config", config,
		"-service-allow=Store", "-service-allow=Replica", "-service-allow=Broken", "-service-allow=Unused")
	cmd.Env = append(os.Environ(), "CSI_PROXY_DIR="+dir)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if runtime.GOOS == "windows" {
			// Only whoever shares a console with a process can interrupt it. How
			// it ends by itself is shown where it runs as a service.
			if err := cmd.Process.Kill(); err != nil {
				t.Errorf("the daemon had ended by itself: %v", err)
			}
			_ = cmd.Wait() // tells that it was killed
		} else {
			// An error means that it has ended, which Wait tells.
			_ = cmd.Process.Signal(os.Interrupt)
			if err := cmd.Wait(); err != nil {
				t.Errorf("the daemon ended with %v", err)
			}
		}
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", log.String())
		}
	})
	d.await(t)
	return d
}

// await waits for an answer of the node's own socket. All sockets are made
// before one answers.
func (d *Daemon) await(t *testing.T) {
	t.Helper()
	limit := time.Now().Add(2 * time.Minute)
	for {
		out, err := d.try("node", "show")
		if err == nil {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the daemon does not serve: %v\n%s", err, out)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Socket is the socket that stands in for the pipe that drivers connect to.
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
