package driver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/control"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"

	"example.com/csi-driver/driver"
	"example.com/csi-driver/simstorage"
)

// program returns the path of csi-proxy-sim: the one that CSI_PROXY_SIM_BINARY names, else one that
// is built here.
func program(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CSI_PROXY_SIM_BINARY"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "csi-proxy-sim")
	build := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace,nethttpomithttp2", "-ldflags", "-s -w", "-o", path, "./csi-proxy-sim")
	build.Dir = filepath.Join("..", "..", "..", "cmd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=") // of the workspace, as the Makefile builds them
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// daemon is csi-proxy-sim with a state directory, and so a node that survives the process.
type daemon struct {
	program, stateDir, config string

	cmd    *exec.Cmd
	output *buffer
	ended  chan struct{}
}

// start starts the process, and returns when it serves.
func (d *daemon) start() error {
	d.cmd = exec.Command(d.program, "-state-dir", d.stateDir, "-node-config", d.config)
	d.output, d.ended = &buffer{}, make(chan struct{})
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	serves := make(chan struct{})
	go func() {
		defer close(d.ended)
		found := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(d.output, lines.Text())
			if !found && strings.Contains(lines.Text(), "Serving API") {
				found = true
				close(serves)
			}
		}
		io.Copy(io.Discard, stderr)
		d.cmd.Wait()
	}()
	select {
	case <-serves:
		return nil
	case <-d.ended:
		return fmt.Errorf("csi-proxy-sim has ended: %s", d.output)
	case <-time.After(time.Minute):
		d.kill()
		return fmt.Errorf("csi-proxy-sim does not serve after a minute: %s", d.output)
	}
}

// kill ends the process without letting it do anything.
func (d *daemon) kill() {
	d.cmd.Process.Kill()
	<-d.ended
}

// startDaemon starts csi-proxy-sim and a driver that uses its standard pipes.
func startDaemon(t *testing.T) (*env, *daemon, *control.Node) {
	t.Helper()
	t.Setenv(pipe.DirVariable, socketDir(t))
	var config simnode.Config
	simstorage.Describe(&config)
	config.FormatDuration = simnode.Duration(10 * time.Millisecond) // some outlive the process
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{program: program(t), stateDir: t.TempDir(), config: filepath.Join(t.TempDir(), "node.yaml")}
	if err := os.WriteFile(d.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.kill() })
	kubelet, err := remote.NewFilesystem(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kubelet.Close() })
	n, err := control.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	e := &env{t: t, show: n.Show, kubelet: kubelet, storage: simstorage.New(simstorage.Config{FindBy: driver.SerialNumber})}
	e.storage.AddNode(nodeID, n)
	e.begin()
	return e, d, n
}

// kinds are the kinds of volumes.
var kinds = []string{driver.KindDisk, driver.KindSMB, driver.KindISCSI}

// callsPerKill is how many calls succeed between two kills, on average.
const callsPerKill = 100

// Many volumes of all kinds live at the same time, while calls of Windows fail and the
// process of CSI Proxy is killed. At the end nothing is left, and nothing blocks another
// volume.
func TestKilledLifecycles(t *testing.T) {
	n := lifecyclesWanted(t)
	e, d, node := startDaemon(t)
	begin := time.Now()
	var calls, failed, succeeded, running atomic.Int64
	living, die := context.WithCancel(t.Context()) // without CSI Proxy, no volume lives on
	defer die()
	c := newCluster(e, e.connect(), func(_ string, call func() error) error {
		return eventually(living, func() error {
			calls.Add(1)
			running.Add(1)
			defer running.Add(-1)
			err := call()
			if err != nil {
				failed.Add(1)
			} else {
				succeeded.Add(1)
			}
			return err
		})
	})
	ctx, stop := context.WithCancel(t.Context())
	var trouble sync.WaitGroup
	kills, interrupted := 0, int64(0)
	trouble.Go(func() {
		for {
			for enough := succeeded.Load() + 1 + rand.Int64N(2*callsPerKill); succeeded.Load() < enough; time.Sleep(time.Millisecond) {
				if ctx.Err() != nil {
					return
				}
			}
			time.Sleep(rand.N(20 * time.Millisecond))
			interrupted += running.Load()
			d.kill()
			kills++
			if err := d.start(); err != nil {
				t.Error(err)
				die()
				return
			}
		}
	})
	faults := 0
	trouble.Go(func() { faults = failAcross(ctx, node) })

	if err := c.lives(living, n, kinds...); err != nil {
		t.Error(err)
	}
	stop()
	trouble.Wait()
	if t.Failed() {
		t.Logf("output of csi-proxy-sim:\n%s", d.output)
		return
	}
	if err := node.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	left := e.left()
	if len(left) > 0 {
		t.Errorf("left on the node: %q", left)
	}
	t.Logf("%d volumes in %.0f s, %d calls of which %d failed, %d faults, %d kills with %d calls running: %d things left",
		n, time.Since(begin).Seconds(), calls.Load(), failed.Load(), faults, kills, interrupted, len(left))
	if kills == 0 || interrupted == 0 || faults == 0 {
		t.Errorf("%d kills interrupted %d calls, and %d calls of Windows failed, want some of each", kills, interrupted, faults)
	}

	once := newCluster(e, c.conn, func(_ string, call func() error) error { return call() })
	for _, kind := range kinds {
		if err := once.life(t.Context(), "last-"+kind, kind); err != nil {
			t.Errorf("a volume without trouble: %v", err)
		}
	}
	if left := e.left(); len(left) > 0 {
		t.Errorf("left on the node by volumes without trouble: %q", left)
	}
}

// failAcross makes a random call of Windows in the other process fail, again and again
// until ctx ends. It returns how many did, except those that a killed process did not live
// to report. While that process is dead, its own calls fail.
func failAcross(ctx context.Context, n *control.Node) (times int) {
	for ctx.Err() == nil {
		n.Fail(simnode.Fault{Call: winapi.AnyCall, Skip: rand.Uint32N(50), Times: 1, Error: failures[rand.IntN(len(failures))]})
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
		if state, err := n.Show(); err == nil {
			for _, f := range state.Faults {
				times += int(f.Hits)
			}
			n.ClearFaults()
		}
	}
	return times
}
