package operations_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

const (
	diskWorkers  = 4
	treeWorkers  = 3
	shareWorkers = 2
	iscsiWorkers = 2
	// nodeLives is the number of kills that one state directory is used for.
	nodeLives = 40
)

// binary is the daemon as it ships: the one that CSI_PROXY_SIM_BINARY names, else one
// that is built here.
func binary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CSI_PROXY_SIM_BINARY"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "csi-proxy-sim")
	build := exec.Command("go", "build", "-o", path, "./csi-proxy-sim")
	build.Dir = filepath.Join("..", "..", "cmd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// number returns the number in an environment variable, or a default.
func number(t *testing.T, name string, byDefault uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestKillUnderLoad kills the daemon at random moments while many callers use its
// sockets. After the restart every request that got a response must be done. One
// that got none is done, not done, or partly done, and repeating it completes it.
func TestKillUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs SIGKILL and sockets in a directory: runs on Linux")
	}
	needSgdisk(t)
	seed := number(t, "CSI_PROXY_KILL_SEED", uint64(time.Now().UnixNano()))
	kills := int(number(t, "CSI_PROXY_KILLS", 15))
	t.Logf("seed %d: CSI_PROXY_KILL_SEED=%d repeats the same choices, but not the exact moments of the kills", seed, seed)

	sockets, err := os.MkdirTemp("", "csi") // short, because the path of a socket is limited to 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	t.Setenv(pipe.DirVariable, sockets)
	h := &harness{T: t, rand: rand.New(rand.NewPCG(seed, 1)), binary: binary(t), config: filepath.Join(sockets, "node.yaml"), seed: seed, ops: map[string]*fate{}}
	if err := os.WriteFile(h.config, []byte(nodeYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for h.kills < kills && !t.Failed() {
		h.node(min(nodeLives, kills-h.kills))
	}
	h.report(time.Since(begin))
}

// nodeYAML returns the configuration of a node for all workers.
func nodeYAML() string {
	var b strings.Builder
	b.WriteString("volumeArrivalDelay: 2ms\nformatDuration: 3ms\ndisks: [{content: system, size: 2GiB}]\n")
	b.WriteString("services:\n- {name: MSiSCSI, startType: auto}\n- {name: Worker, startDelay: 2ms, stopDelay: 2ms}\nsmbServers:\n")
	for i := range shareWorkers {
		fmt.Fprintf(&b, "- {name: files%d.example.com, shares: [data], accounts: [{user: csi, password: csi}]}\n", i)
	}
	b.WriteString("iscsi:\n  targets:\n")
	for i := range iscsiWorkers {
		fmt.Fprintf(&b, "  - {iqn: 'iqn.2003-01.org.example:%d', portals: [{address: 10.0.0.%d}], luns: [{disk: {size: 64MiB}}, {disk: {size: 64MiB}}]}\n", i, i+1)
	}
	return b.String()
}

// fate counts the requests of one kind: those that got a response, and what became
// of those that a kill interrupted. either counts requests that change nothing.
type fate struct{ answered, done, notDone, partly, either int }

// harness is the test's state.
type harness struct {
	*testing.T
	rand   *rand.Rand
	binary string
	config string
	seed   uint64
	state  string // state directory

	kills, idle, early, judged int
	answered                   atomic.Int64
	mu                         sync.Mutex
	ops                        map[string]*fate
}

func (h *harness) fate(name string) *fate {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ops[name] == nil {
		h.ops[name] = &fate{}
	}
	return h.ops[name]
}

// daemon is a running daemon.
type daemon struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	ready  chan struct{} // closed when it serves
	ended  chan struct{} // closed when it has ended
}

func (h *harness) start() *daemon {
	h.Helper()
	d := &daemon{cmd: exec.Command(h.binary, "-state-dir="+h.state, "-node-config="+h.config, "-service-allow=Worker"),
		stderr: &bytes.Buffer{}, ready: make(chan struct{}), ended: make(chan struct{})}
	out, err := d.cmd.StderrPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		h.Fatal(err)
	}
	go func() {
		defer close(d.ended)
		lines := bufio.NewScanner(out)
		serves := false
		for lines.Scan() {
			d.stderr.Write(append(lines.Bytes(), '\n'))
			if !serves && strings.Contains(lines.Text(), "Serving ") {
				serves = true
				close(d.ready)
			}
		}
		io.Copy(io.Discard, out)
		d.cmd.Wait()
	}()
	h.Cleanup(d.kill)
	return d
}

func (d *daemon) kill() {
	d.cmd.Process.Kill()
	<-d.ended
}

// await waits until the daemon serves.
func (h *harness) await(d *daemon) {
	h.Helper()
	select {
	case <-d.ready:
	case <-d.ended:
		h.Fatalf("the daemon does not start from the state that a kill left behind:\n%s", d.stderr)
	case <-time.After(2 * time.Minute):
		d.kill()
		h.Fatalf("the daemon did not start serving within 2 minutes:\n%s", d.stderr)
	}
}

// clients are the connections to one daemon.
type clients struct {
	groups
	control *simcontrol.Client
	closers []func() error
}

func (h *harness) connect() *clients {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 2*time.Minute)
	defer cancel()
	c := &clients{}
	keep := func(close func() error, err error) {
		h.Helper()
		if err != nil {
			h.Fatal(err)
		}
		c.closers = append(c.closers, close)
	}
	d, err := remote.NewDisk(ctx)
	keep(d.Close, err)
	v, err := remote.NewVolume(ctx)
	keep(v.Close, err)
	f, err := remote.NewFilesystem(ctx)
	keep(f.Close, err)
	s, err := remote.NewSMB(ctx)
	keep(s.Close, err)
	i, err := remote.NewISCSI(ctx)
	keep(i.Close, err)
	y, err := remote.NewSystem(ctx)
	keep(y.Close, err)
	conn, err := transport.Connect(pipe.Path(simcontrol.Pipe))
	keep(conn.Close, err)
	c.disk, c.volume, c.filesystem, c.smb, c.iscsi, c.system, c.control = d, v, f, s, i, y, simcontrol.NewClient(conn)
	return c
}

func (c *clients) close() {
	for _, f := range c.closers {
		f()
	}
}

// node makes a new node and kills the daemon on it again and again.
func (h *harness) node(kills int) {
	h.state = tempDir(h)
	// Some kills while the node is being made.
	for range 3 {
		d := h.start()
		time.Sleep(time.Duration(h.rand.IntN(30)) * time.Millisecond)
		select {
		case <-d.ready:
		default:
			h.early++
		}
		d.kill()
	}
	all := workers()
	for range kills {
		h.life(all, h.rand)
		if h.Failed() {
			return
		}
	}
	d := h.start()
	h.await(d)
	c := h.connect()
	h.check(c, all)
	c.close()
	d.kill()
	os.RemoveAll(h.state)
}

// life starts the daemon, compares the node with what the callers know, and kills
// the daemon during their calls.
func (h *harness) life(all []*worker, r *rand.Rand) {
	d := h.start()
	h.await(d)
	c := h.connect()
	defer c.close()
	if h.check(c, all); h.Failed() {
		d.kill() // its output is complete now
		h.Logf("output of the daemon:\n%s", d.stderr)
		return
	}
	h.slowDown(c)
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	var killed atomic.Bool
	var wg sync.WaitGroup
	for _, w := range all {
		wg.Go(func() { h.work(ctx, c, w, &killed) })
	}
	for range 2 {
		seed := r.Uint64()
		wg.Go(func() { read(ctx, c, rand.New(rand.NewPCG(seed, 2)), &killed) })
	}
	// Waits for some responses first, because on a slow machine a fixed time is too short.
	for enough := h.answered.Load() + int64(r.IntN(30)); h.answered.Load() < enough && !h.Failed(); {
		time.Sleep(time.Millisecond)
	}
	pause := time.Duration(r.IntN(120_000)) * time.Microsecond
	if r.IntN(12) == 0 {
		pause += 600 * time.Millisecond // long enough for requests that wait for disks
	}
	time.Sleep(pause)
	killed.Store(true)
	if r.IntN(8) == 0 { // kill it while it stops and writes a snapshot
		d.cmd.Process.Signal(syscall.SIGTERM)
		time.Sleep(time.Duration(r.IntN(8000)) * time.Microsecond)
	}
	d.kill()
	cancel() // ends calls whose connection does not notice the kill
	wg.Wait()
	h.kills++
	inFlight := 0
	for _, w := range all {
		if w.pending {
			inFlight++
		}
	}
	if inFlight == 0 {
		h.idle++
	}
}

// slowDown delays some calls that are not the first step of their operation, so
// that more kills happen between two steps.
func (h *harness) slowDown(c *clients) {
	h.Helper()
	for _, code := range []uint32{win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, win32.FSCTL_EXTEND_VOLUME, win32.FSCTL_SET_REPARSE_POINT} {
		f := nodespec.Fault{Call: "DeviceIoControl", Code: code, Delay: 3 * time.Millisecond}
		if err := c.control.Fail(h.Context(), f); err != nil {
			h.Fatal(err)
		}
	}
}

// work makes requests, one after the other, until the daemon is killed.
func (h *harness) work(ctx context.Context, c *clients, w *worker, killed *atomic.Bool) {
	for !killed.Load() {
		step := w.steps[w.at]
		w.pending = true
		err := step.do(ctx, c)
		if err == nil {
			w.done()
			f := h.fate(step.name)
			h.mu.Lock()
			f.answered++
			h.mu.Unlock()
			h.answered.Add(1)
			continue
		}
		if !killed.Load() {
			h.Errorf("%s: %v", step.name, err)
		}
		return
	}
}

// read makes random requests that change nothing.
func read(ctx context.Context, c *clients, r *rand.Rand, killed *atomic.Bool) {
	for !killed.Load() {
		switch r.IntN(4) {
		case 0:
			c.disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
		case 1:
			c.disk.Rescan(ctx, &disk.RescanRequest{})
		case 2:
			c.volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: uint32(r.IntN(6))})
		case 3:
			c.iscsi.ListTargetPortals(ctx, &iscsi.ListTargetPortalsRequest{})
		}
		time.Sleep(time.Millisecond)
	}
}

// check compares the node with what the callers know, and finds out what became of
// the requests that got no response.
func (h *harness) check(c *clients, all []*worker) {
	h.Helper()
	v := &view{ctx: h.Context(), clients: c}
	var err error
	if v.node, err = c.control.Show(v.ctx); err != nil {
		h.Fatal(err)
	}
	for _, w := range all {
		h.settle(v, w)
		if w.image == nil {
			continue
		}
		if image := w.image(v); image != "" {
			if problem := sgdisk(image); problem != "" {
				h.Errorf("%s: %s", image, problem)
			}
			h.judged++
		}
	}
}

func (h *harness) settle(v *view, w *worker) {
	h.Helper()
	found, err := w.look(v)
	if err != nil {
		h.Errorf("after kill %d: look at the node: %v", h.kills, err)
		return
	}
	step := w.steps[w.at]
	if !w.pending {
		if found != w.have {
			h.Errorf("after kill %d, with no request in flight before %s: there is %q, want %q", h.kills, step.name, found, w.have)
		}
		return
	}
	f := h.fate(step.name)
	switch {
	case found == w.have && found == step.after:
		f.either++
	case found == step.after:
		if f.done++; step.once {
			w.done()
		}
	case found == w.have:
		f.notDone++
	case w.partlyDone(found):
		f.partly++
	default:
		h.Errorf("after kill %d: the interrupted %s is neither done nor not done: there is %q, before %q, after %q", h.kills, step.name, found, w.have, step.after)
	}
}

// report prints the results. It fails if the kills interrupted too few requests for
// the results to mean anything.
func (h *harness) report(took time.Duration) {
	var total fate
	for name, f := range h.ops {
		h.Logf("%-22s %5d with a response; interrupted: %4d done, %4d not done, %3d partly done, %3d that change nothing", name, f.answered, f.done, f.notDone, f.partly, f.either)
		total.done += f.done
		total.notDone += f.notDone
		total.partly += f.partly
		total.either += f.either
	}
	inFlight := total.done + total.notDone + total.partly + total.either
	h.Attr("measured", fmt.Sprintf("%d kills in %.0f s, seed %d, %d of them while the node was made: %d requests with a response, all done; %d in flight at a kill (%.1f on average, none %d times): %d done, %d not done, %d partly done, %d that change nothing; %d images checked",
		h.kills+h.early, took.Seconds(), h.seed, h.early, h.answered.Load(), inFlight, float64(inFlight)/float64(max(h.kills, 1)), h.idle, total.done, total.notDone, total.partly, total.either, h.judged))
	if h.Failed() {
		return
	}
	switch {
	case inFlight < 3*h.kills:
		h.Errorf("%d kills interrupted only %d requests, want at least 3 each", h.kills, inFlight)
	case h.idle > h.kills/5:
		h.Errorf("%d of %d kills interrupted nothing", h.idle, h.kills)
	case h.kills >= 100 && (total.done < h.kills/4 || total.notDone < h.kills/4 || total.partly == 0 || h.early == 0):
		h.Errorf("too few interrupted requests of each kind: %+v", total)
	case h.kills >= 100 && h.answered.Load() < int64(10*h.kills):
		h.Errorf("only %d requests got a response between %d kills", h.answered.Load(), h.kills)
	}
}
