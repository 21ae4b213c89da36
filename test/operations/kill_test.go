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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/control"
)

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

// TestKillUnderLoad kills the daemon, a process of its own, at random moments while drivers live
// volumes through its sockets. After the restart what it had confirmed is there, and each step that
// the kill interrupted succeeds when it is repeated.
func TestKillUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs SIGKILL and sockets in a directory: runs on Linux")
	}
	needSgdisk(t)
	kills, seed := number(t, "CSI_PROXY_KILLS", 15), number(t, "CSI_PROXY_KILL_SEED", uint64(time.Now().UnixNano()))
	t.Logf("CSI_PROXY_KILL_SEED=%d repeats the same choices, but not the exact moments of the kills", seed)
	sockets, err := os.MkdirTemp("", "csi") // short, because the path of a socket is limited to 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	t.Setenv(pipe.DirVariable, sockets)
	h := &killing{T: t, rand: rand.New(rand.NewPCG(seed, 1)), exe: binary(t), state: tempDir(t)}
	for n := range 5 {
		h.volumes = append(h.volumes, &liveVolume{name: fmt.Sprintf("vol-%d", n), share: n == 4})
	}
	begun := time.Now()
	for range kills {
		h.life(true)
		if t.Failed() {
			return
		}
	}
	h.life(false)
	t.Attr("measured", fmt.Sprintf("%d kills in %.0f s: %d steps were confirmed, %d interrupted, %d images checked", kills, time.Since(begun).Seconds(), h.confirmed.Load(), h.interrupted, h.judged))
	if !t.Failed() && h.interrupted < int(kills) {
		t.Errorf("%d kills interrupted %d steps, want at least one each", kills, h.interrupted)
	}
}

// binary is the daemon as it ships: the one that CSI_PROXY_SIM_BINARY names, else one that is built here.
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

// killing is the test's state.
type killing struct {
	*testing.T
	rand       *rand.Rand
	exe, state string
	volumes    []*liveVolume

	confirmed           atomic.Int64
	interrupted, judged int
}

// connection is that of the drivers to one process of the daemon.
type connection struct {
	*mounter.Mounter
	node *control.Node
}

// liveVolume is a volume of a driver, which takes it through the steps again and again.
type liveVolume struct {
	name    string
	share   bool // and no disk
	at      int  // the step that is next
	pending bool // it was begun, and not confirmed
}

// lifeStep is a step of a volume's life. staged and target are what is at its paths afterwards.
type lifeStep struct {
	name           string
	do             func(context.Context, *connection, *liveVolume) error
	staged, target mounter.State
}

const (
	plugins              = kubelet + `\plugins\kubernetes.io\csi`
	pods                 = kubelet + `\pods`
	smallDisk, largeDisk = 128 * mib, 192 * mib
	none, linkedThere    = mounter.Absent, mounter.Linked
)

// lifeSteps are the steps of a volume's life. A share needs no disk.
var lifeSteps = []lifeStep{
	{"attach", func(ctx context.Context, c *connection, v *liveVolume) error {
		for _, dir := range []string{plugins, pods} { // as the kubelet does
			if err := c.MakeDir(ctx, dir); err != nil {
				return err
			}
		}
		d, err := v.disk(c)
		if v.share || err != nil || d != nil {
			return err
		}
		_, err = c.node.AttachDisk(simnode.Disk{ID: v.name, Serial: v.name, Size: smallDisk})
		return err
	}, none, none},
	{"stage", func(ctx context.Context, c *connection, v *liveVolume) error {
		if v.share {
			return c.StageShare(ctx, mounter.Share{Remote: `\\files.example.com\data`, User: "csi", Password: "csi"}, v.staging())
		}
		d, err := c.FindDisk(ctx, mounter.Identity{SerialNumber: v.name})
		if err == nil {
			_, err = c.StageDisk(ctx, d, v.staging(), mounter.StageOptions{})
		}
		return err
	}, linkedThere, none},
	{"publish", func(ctx context.Context, c *connection, v *liveVolume) error {
		return c.Publish(ctx, v.staging(), v.target())
	}, linkedThere, linkedThere},
	{"expand", func(ctx context.Context, c *connection, v *liveVolume) error {
		d, err := v.disk(c)
		if v.share || err != nil {
			return err
		}
		if d.Size < largeDisk {
			err = c.node.GrowDisk(d.Number, largeDisk)
		}
		if err == nil {
			_, err = c.Expand(ctx, v.target(), largeDisk)
		}
		return err
	}, linkedThere, linkedThere},
	{"unpublish", func(ctx context.Context, c *connection, v *liveVolume) error {
		return c.Unpublish(ctx, v.target())
	}, linkedThere, none},
	{"unstage", func(ctx context.Context, c *connection, v *liveVolume) error {
		if v.share {
			return c.UnstageShare(ctx, v.staging(), `\\files.example.com\data`)
		}
		return c.UnstageDisk(ctx, v.staging(), mounter.UnstageOptions{Offline: &mounter.Identity{SerialNumber: v.name}})
	}, none, none},
	{"detach", func(_ context.Context, c *connection, v *liveVolume) error {
		d, err := v.disk(c)
		if err == nil && d != nil {
			err = c.node.DetachDisk(d.Number)
		}
		if v.share || err != nil {
			return err
		}
		state, err := c.node.Show()
		if err == nil && slices.Contains(state.Detached, v.name) {
			err = c.node.DiscardDisk(v.name)
		}
		return err
	}, none, none},
}

func (v *liveVolume) staging() string { return plugins + `\` + v.name }
func (v *liveVolume) target() string  { return pods + `\` + v.name }

// disk returns the attached disk of a volume, or nil.
func (v *liveVolume) disk(c *connection) (*simnode.DiskInfo, error) {
	state, err := c.node.Show()
	for i := range state.Disks {
		if state.Disks[i].ID == v.name {
			return &state.Disks[i], nil
		}
	}
	return nil, err
}

// life starts the daemon, compares the node with what was confirmed, and kills the daemon while the
// volumes live, or at once.
func (h *killing) life(live bool) {
	h.Helper()
	var output bytes.Buffer
	daemon := exec.Command(h.exe, "-state-dir="+h.state)
	log, err := daemon.StderrPipe()
	if err == nil {
		err = daemon.Start()
	}
	if err != nil {
		h.Fatal(err)
	}
	lines := bufio.NewScanner(io.TeeReader(log, &output))
	for lines.Scan() && !strings.Contains(lines.Text(), "Serving ") {
	}
	if err := lines.Err(); err != nil {
		h.Errorf("the daemon's log: %v", err)
	}
	read := make(chan struct{})
	go func() { defer close(read); io.Copy(&output, log) }()
	defer func() {
		daemon.Process.Kill()
		<-read
		daemon.Wait()
		if h.Failed() {
			h.Logf("the end of the daemon's output:\n%s", output.Bytes()[max(0, output.Len()-10_000):])
		}
	}()
	ctx, cancel := context.WithTimeout(h.Context(), 2*time.Minute)
	defer cancel()
	p, err := pipes.Open(ctx, []string{"disk", "volume", "filesystem", "smb"})
	if err != nil {
		h.Errorf("the daemon does not serve the state that a kill has left: %v", err)
		return
	}
	defer p.Close()
	node, err := control.Open(ctx, "")
	if err != nil {
		h.Fatal(err)
	}
	defer node.Close()
	m, err := mounter.New(p.Node, mounter.Options{Log: quiet})
	if err != nil {
		h.Fatal(err)
	}
	c := &connection{m, node}
	for _, v := range h.volumes {
		h.check(ctx, c, v)
	}
	if !live || h.Failed() {
		return
	}
	var killed atomic.Bool
	var wg sync.WaitGroup
	for _, v := range h.volumes {
		wg.Go(func() {
			for !killed.Load() {
				v.pending = true
				if err := lifeSteps[v.at].do(ctx, c, v); killed.Load() && err != nil {
					return
				} else if err != nil {
					h.Errorf("%s %s: %v", lifeSteps[v.at].name, v.name, err)
					return
				}
				v.at, v.pending = (v.at+1)%len(lifeSteps), false
				h.confirmed.Add(1)
			}
		})
	}
	// First some are confirmed, because on a slow machine a fixed time is too short.
	for enough := h.confirmed.Load() + int64(h.rand.IntN(20)); h.confirmed.Load() < enough && !h.Failed(); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Duration(h.rand.IntN(50_000)) * time.Microsecond)
	killed.Store(true)
	daemon.Process.Kill()
	cancel()
	wg.Wait()
	for _, v := range h.volumes {
		if v.pending {
			h.interrupted++
		}
	}
}

// check compares what is at the paths of a volume with what was confirmed, and lets sgdisk look at its
// disk. What an interrupted step changes is as before or after it; an entry that was going to become a
// link, or was one of a removed volume, may be a plain directory.
func (h *killing) check(ctx context.Context, c *connection, v *liveVolume) {
	h.Helper()
	before, after := lifeSteps[(v.at+len(lifeSteps)-1)%len(lifeSteps)], lifeSteps[v.at]
	for _, x := range []struct {
		path          string
		before, after mounter.State
	}{{v.staging(), before.staged, after.staged}, {v.target(), before.target, after.target}} {
		got, err := c.State(ctx, x.path)
		changing := v.pending && x.before != x.after
		if err != nil || got != x.before && !(changing && (got == x.after || got == mounter.Plain)) {
			h.Errorf("%s, after %s was confirmed, and %s was interrupted: %t: %v, %v, want %v", x.path, before.name, after.name, v.pending, got, err, x.before)
		}
	}
	d, err := v.disk(c)
	if err != nil {
		h.Error(err)
	}
	if d == nil || d.Style != "GPT" || after.name == "expand" { // it may have grown since its table was written
		return
	}
	if problem := sgdisk(d.Image); problem != "" {
		h.Errorf("%s: %s", v.name, problem)
	}
	h.judged++
}
