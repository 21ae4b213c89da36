package daemon_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
)

const waiting = "Waiting for another process to close its pipe"

// state returns the status code and the text of /readyz or /healthz of a daemon.
func (p *process) state(t *testing.T, path string) (int, string) {
	t.Helper()
	code, text, err := p.tryState(t, path)
	if err != nil {
		t.Fatal(err)
	}
	return code, text
}

// tryState is state for a daemon that may have ended.
func (p *process) tryState(t *testing.T, path string) (int, string, error) {
	t.Helper()
	const started = `"Started metrics server" url="`
	p.await(t, started)
	output, _ := p.output()
	_, url, _ := strings.Cut(output, started)
	url, _, _ = strings.Cut(url, "/metrics")
	resp, err := http.Get(url + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// A second daemon names the first, serves nothing, and takes over when the first ends, also
// when it was killed.
func TestSecondDaemonWaits(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			dir := sockets(t)
			first := start(t, "-enable-api=disk")
			first.await(t, "Serving ")
			second := start(t, "-metrics-bind-address=127.0.0.1:0")
			second.await(t, waiting)
			output, _ := second.output()
			if want := fmt.Sprintf("another CSI Proxy (process %d, ", first.cmd.Process.Pid); !strings.Contains(output, want) {
				t.Errorf("the log lacks %q:\n%s", want, output)
			}
			if code, text := second.state(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.HasPrefix(text, "waiting: csi-proxy-disk-") {
				t.Errorf("/readyz = %d %q, want 503 and what it waits for", code, text)
			}
			if code, _ := second.state(t, "/healthz"); code != http.StatusOK {
				t.Errorf("/healthz = %d, want 200: a restart would not help", code)
			}
			for _, group := range []string{"volume", "smb", "filesystem"} {
				if served, _ := filepath.Glob(filepath.Join(dir, "csi-proxy-"+group+"-*.sock")); len(served) > 0 {
					t.Errorf("the waiting daemon has %q", served)
				}
			}
			if _, err := diskClient(t).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
				t.Errorf("the first daemon: %v", err)
			}

			first.cmd.Process.Signal(signal)
			second.await(t, "Serving ")
			if _, err := diskClient(t).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
				t.Errorf("the second daemon: %v", err)
			}
			if served, _ := filepath.Glob(filepath.Join(dir, "csi-proxy-volume-v1.sock")); len(served) != 1 {
				t.Error("the second daemon does not serve volume/v1")
			}
			if code, text := second.state(t, "/readyz"); code != http.StatusOK || text != "serving\n" {
				t.Errorf("/readyz = %d %q, want 200", code, text)
			}
		})
	}
}

// A daemon that waits stops as usual, and disturbs nothing.
func TestWaitingDaemonStops(t *testing.T) {
	sockets(t)
	start(t).await(t, "Serving ")
	second := start(t)
	second.await(t, waiting)
	if err := second.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := second.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if _, err := diskClient(t).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
		t.Errorf("the first daemon: %v", err)
	}
}

// A daemon whose metrics address is taken serves volumes, and metrics as soon as it can. An
// earlier daemon has closed its pipes while it finishes calls, and still has the address.
func TestMetricsAddressIsFreeLater(t *testing.T) {
	sockets(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := start(t, "-metrics-bind-address="+taken.Addr().String())
	p.await(t, "Serving ")
	p.await(t, "Cannot serve metrics yet, retrying")
	if _, err := diskClient(t).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
		t.Errorf("without metrics: %v", err)
	}
	taken.Close()
	if code, text := p.state(t, "/readyz"); code != http.StatusOK || text != "serving\n" {
		t.Errorf("/readyz = %d %q, want 200", code, text)
	}
}

// A daemon that waits names each process in its way, also those that appear later.
func TestWaitingDaemonNamesEveryProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, where sockets know the process that listens")
	}
	dir := sockets(t)
	first := start(t, "-enable-api=disk")
	first.await(t, "Serving ")
	for _, name := range []string{"csi-proxy-volume-v1", "csi-proxy-volume-v1beta3"} {
		other, err := net.Listen("unix", filepath.Join(dir, name+".sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
	}
	second := start(t, "-metrics-bind-address=127.0.0.1:0")
	second.await(t, waiting)
	_, text := second.state(t, "/readyz")
	for _, want := range []string{
		fmt.Sprintf("another CSI Proxy (process %d, ", first.cmd.Process.Pid),
		fmt.Sprintf("csi-proxy-volume-v1beta3 and 1 more: served by process %d (", os.Getpid()),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/readyz lacks %q: %s", want, text)
		}
	}
}
