package hunt_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/test/sparse"
	"github.com/kubernetes-csi/csi-proxy/v2/test/worlds"
)

const (
	mib     = 1 << 20
	kubelet = `C:\var\lib\kubelet`
	base    = kubelet + `\plugins\hunt`
)

var quiet = slog.New(slog.DiscardHandler)

// ext4 is what a file system of another operating system has in its first block.
var ext4 = nodespec.Bytes{At: 1080, Data: []byte{0x53, 0xEF}}

// foreignVolume is the disk whose volume has a file system of another operating system.
const foreignVolume = "foreign6"

// arrival is the time from a login to a target until its disk arrives.
const arrival = time.Second

// random returns a source of identifiers that are the same in every run.
func random(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

// world is a node, the processes on it, and the objects that requests are about.
type world struct {
	s       *sim
	m       *emulated.Node
	dir     string
	proc    *process
	lives   byte
	objects []object
	seen    map[string]string    // the last observation of each object
	foreign map[string]uint64    // image → digest
	used    map[string]uint64    // the same of disks with a mounted volume
	written map[string]time.Time // when the images were written
	info    *nodespec.State      // or nil
	infoAt  time.Time            // when info was taken
	rest    bool                 // nothing has run for some minutes
	named   *uint32              // the number of a disk that the request names which is being prepared, or nil
	landing bool                 // disks of iSCSI sessions may arrive
	numbers map[string][]byte    // what a planted fault remembers of disks
	tally   tally
}

// process is what dies when CSI Proxy is killed.
type process struct {
	*services.Services
	node   *node.Node
	rules  policy.Rules
	killed chan struct{} // closed when it dies
	paused atomic.Int32  // goroutines that pause
}

// died reports whether the process was killed.
func (p *process) died() bool {
	select {
	case <-p.killed:
		return true
	default:
		return false
	}
}

// object is what requests are about, and a model of it.
type object interface {
	name() string
	// requests and events are the names of what drivers ask for, and of what else happens.
	requests() []string
	events() []string
	// learn notes what a driver knows of the object from now on.
	learn()
	// useful are the requests and events that go on from what the node has. It changes nothing.
	useful() []string
	// prepare returns what makes a request, or nil if it makes no sense now.
	prepare(op string) call
	// happen makes an event, and returns what to note in the history. It returns false if
	// the event cannot happen now.
	happen(what string) ([]operation, bool)
	// restarted returns what a restart of CSI Proxy did, or one of Windows.
	restarted(reboot bool) []operation
	// observe returns what the node has, as operations that read it.
	observe() []operation
	// parts are what the model has states of. about returns whether an operation is about a
	// part, first the state before the history, and step those after an operation.
	parts() []string
	about(part string, op operation) bool
	first(part string) any
	// halves returns what an operation does to a part, which may be more than one thing, each at
	// a moment of its own.
	halves(part string, op operation) []operation
	step(part string, state any, op operation) []any
}

// worldOf returns a world of the simulated node by its number.
func worldOf(i int) behavior.Windows {
	all := allWorlds()
	return all[i%len(all)]
}

var allWorlds = sync.OnceValue(func() []behavior.Windows {
	all, _ := worlds.Pairs()
	return all
})

func newWorld(t *testing.T, s *sim) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "hunt")
	if err != nil {
		dir, err = os.MkdirTemp("", "hunt")
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &world{s: s, dir: dir, seen: map[string]string{}, foreign: map[string]uint64{}, used: map[string]uint64{}, written: map[string]time.Time{}, numbers: map[string][]byte{}}
	s.world = w
	// Disk 1 is blank, and disk 2 has a volume. Disk 3 has a file system of another operating system, disk 4 is a dynamic one,
	// and disk 5 has a volume with a file system of another operating system.
	c := nodespec.Config{
		StateDir: dir, Log: quiet, World: behavior.In("", worldOf(s.spec.world)), FormatDuration: nodespec.Duration(time.Second),
		Directories: []string{base, kubelet + `\pods`, iscsiMount, shareDir("files", "0"), shareDir("files", "1"), shareDir("files", "2"), shareDir("backup", "0"), shareDir("backup", "1"), shareDir("backup", "2")},
		SMBServers:  []nodespec.SMBServer{{Name: "files", Shares: shareNames[:], Accounts: shareUsers}, {Name: "backup", Shares: shareNames[:], Accounts: shareUsers}},
		Disks: []nodespec.Disk{
			{Content: nodespec.ContentSystem, Size: 1 << 30},
			{ID: "disk1", Serial: serial("disk1"), Size: 128 * mib},
			{ID: "disk2", Serial: serial("disk2"), Size: 128 * mib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}},
			{ID: "foreign3", Size: 64 * mib, Bytes: []nodespec.Bytes{ext4}},
			{ID: "foreign4", Size: 128 * mib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: mib, Type: "ldmMetadata"}, {Type: "ldmData"}}},
			{ID: foreignVolume, Size: 64 * mib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{}}, Bytes: []nodespec.Bytes{{At: 8*mib + ext4.At, Data: ext4.Data}}},
		},
		ISCSI:    nodespec.ISCSI{Targets: []nodespec.ISCSITarget{iscsiTarget(0), iscsiTarget(1)}},
		Services: []nodespec.Service{{Name: iscsiService, StartType: "auto", StartDelay: nodespec.Duration(time.Second)}, {Name: "Base", StartDelay: nodespec.Duration(time.Second)}, {Name: "Top", DependsOn: []string{"Base"}, StartDelay: nodespec.Duration(time.Second)}},
	}
	if w.m, err = emulated.Open(c, emulated.Machine{Now: time.Now, Rand: random(1), Sleep: w.sleep}); err != nil {
		t.Fatal(err)
	}
	initiator := &iscsiObject{w: w, numbers: [2]int{-1, -1}}
	if err := errors.Join(w.m.AddIScsiSendTargetPortal(iscsiPortal(1)), initiator.login(1, 1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(arrival)
	w.objects = []object{
		&diskObject{w: w, id: "disk1"}, &diskObject{w: w, id: "disk2"},
		&treeObject{w: w, dir: base + `\tree`},
		initiator, &shareObject{w: w, server: "files"}, &shareObject{w: w, server: "backup"},
		&foreignObject{w: w, id: "foreign3"}, &foreignObject{w: w, id: "foreign4"}, &foreignObject{w: w, id: foreignVolume},
		&serviceObject{w: w},
	}
	info, err := w.m.Show()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range info.Disks {
		if strings.HasPrefix(d.ID, "foreign") {
			w.foreign[d.Image] = digest(d.Image)
		}
	}
	if len(w.foreign) != 4 {
		t.Fatalf("%d foreign disks, want 4", len(w.foreign))
	}
	own := diskObject{w: w, id: foreignVolume}
	if _, v := own.find(info); v == nil || v.Offset != 8*mib || v.FileSystem != "" {
		t.Fatalf("the volume of %s is %+v, want one at 8 MiB that Windows does not recognize", foreignVolume, v)
	}
	initiator.land()
	w.info = nil // the first look learns what drivers know
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// sleep is how Windows takes its time in a call. It does not return to a process that was
// killed.
func (w *world) sleep(d time.Duration) {
	p := w.proc
	if p == nil {
		time.Sleep(d)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.killed:
		runtime.Goexit()
	}
}

// mortal is the clock of a process. The timers of a dead process still fire, but nothing pauses
// any more: a goroutine that does when the run ends would be a deadlock of its bubble.
type mortal struct {
	node.SystemClock
	p *process
}

func (m mortal) Sleep(ctx context.Context, d time.Duration) error {
	if m.p.died() {
		return errDead
	}
	m.p.paused.Add(1)
	defer m.p.paused.Add(-1)
	return m.SystemClock.Sleep(ctx, d)
}

// start starts CSI Proxy.
func (w *world) start() (err error) {
	w.proc, err = w.process(make(chan struct{}))
	return err
}

// fork returns a process that dies with CSI Proxy and shares nothing else with it.
func (w *world) fork() (*process, error) { return w.process(w.proc.killed) }

func (w *world) process(killed chan struct{}) (*process, error) {
	w.lives++
	p := &process{killed: killed}
	planted := plants[w.s.spec.plant]
	var api win32.API = w.m
	if planted.api != nil {
		api = planted.api(w, api)
	}
	p.node = node.New(api)
	p.node.Log = quiet
	p.node.API = win32.Observe(api, func(c *win32.Call) error { return w.s.hook(p, c) })
	p.node.Clock = mortal{p: p}
	p.node.Log, p.node.Rand, p.node.WorkingDirs = quiet, random(w.lives+100), []string{kubelet}
	p.node.AllowedServices = []string{"Base", "Top", iscsiService}
	dirs, err := policy.ParseDirs(p.node.WorkingDirs)
	if err != nil {
		return nil, err
	}
	p.rules = policy.Rules{Dirs: dirs, Services: p.node.AllowedServices}
	if planted.node != nil {
		planted.node(p.node)
	}
	p.Services, err = services.Open(p.node)
	return p, err
}

// restart ends the process, restarts Windows if reboot is set, and starts another process.
func (w *world) restart(reboot bool) string {
	err := w.m.EndProcess()
	if reboot {
		err = errors.Join(err, w.m.Reboot())
	}
	if err = errors.Join(err, w.start()); err != nil {
		return err.Error()
	}
	return ""
}

// end closes the node.
func (w *world) end(t *testing.T) {
	if err := errors.Join(w.m.Close(), os.RemoveAll(w.dir)); err != nil {
		t.Error(err)
	}
}

func (w *world) object(name string) object {
	i := slices.IndexFunc(w.objects, func(o object) bool { return o.name() == name })
	if i < 0 {
		return nil
	}
	return w.objects[i]
}

// show returns the state of the node, as it was since the last step.
func (w *world) show() nodespec.State {
	if w.info == nil {
		info, err := w.m.Show()
		if err != nil {
			w.s.fail(err.Error())
		}
		w.info, w.infoAt = &info, time.Now()
	}
	return *w.info
}

// look returns what is wrong with the node at any moment. It reads foreign disks only if they
// were written, or if all is set, because a file system's clock is coarse.
func (w *world) look(all bool) string {
	if w.landing {
		w.object("iscsi").(*iscsiObject).land()
	}
	for image, want := range w.foreign {
		info, err := os.Stat(image)
		if err != nil {
			return err.Error()
		}
		if !all && w.written[image].Equal(info.ModTime()) {
			continue
		}
		w.written[image] = info.ModTime()
		if digest(image) != want {
			return fmt.Sprintf("the bytes of the foreign disk %s were changed", image[strings.LastIndex(image, "/")+1:])
		}
	}
	return w.lookUsed(all)
}

// lookUsed returns what changed in the table and data of a disk whose volume is mounted, if no
// request may have changed it, or "".
func (w *world) lookUsed(all bool) string {
	info := w.show()
	for _, id := range []string{"disk1", "disk2", iscsiTargets[0].disk} {
		own := diskObject{w: w, id: id}
		d, v := own.find(info)
		if d == nil {
			continue
		}
		mayChange := slices.ContainsFunc(w.s.running(), func(r *request) bool {
			return slices.Contains([]string{"Format", "Resize"}, r.op) && r.object.name() == id
		})
		if mayChange || !d.Online || v == nil || v.FileSystem == "" || len(v.MountedAt) == 0 {
			delete(w.used, d.Image)
			continue
		}
		file, err := os.Stat(d.Image)
		if err != nil {
			return err.Error()
		}
		before, known := w.used[d.Image]
		if known && !all && w.written[d.Image].Equal(file.ModTime()) {
			continue
		}
		w.written[d.Image] = file.ModTime()
		w.used[d.Image] = digest(d.Image)
		if known && w.used[d.Image] != before {
			return fmt.Sprintf("the bytes of the used disk %s were changed", id)
		}
	}
	return ""
}

// leaks returns what is left while nothing runs.
func (w *world) leaks() string {
	if n := w.proc.paused.Load(); n > 0 && w.rest {
		return fmt.Sprintf("%d goroutines pause while nothing happens", n)
	} else if n > 0 {
		return "" // something is done in the background
	}
	open := w.m.OpenHandles()
	if !w.s.spec.library {
		open = slices.DeleteFunc(open, func(h string) bool { return h == `\??\C:\` })
	}
	if len(open) > 0 {
		return fmt.Sprintf("handles left open: %q", open)
	}
	l := &w.proc.node.Locks
	for _, set := range []*keymutex.Set{&l.Paths, &l.Shares, &l.Volumes, &l.Disks, &l.Services, &l.Portals, &l.Targets} {
		if set.Len() > 0 {
			return fmt.Sprintf("%d locks of kind %s left", set.Len(), set.Kind)
		}
	}
	return ""
}

// digest returns a hash of the blocks of an image that are not zero.
func digest(image string) uint64 {
	sum := fnv.New64a()
	if _, err := sparse.Blocks(image, 64<<10, func(at int64, b []byte) error {
		fmt.Fprintf(sum, "%d ", at)
		sum.Write(b)
		return nil
	}); err != nil {
		return 0
	}
	return sum.Sum64()
}

// setOffline takes a disk offline as another program does.
func setOffline(api win32.API, number uint32) error {
	h, err := api.CreateFile(fmt.Sprintf(`\\.\PhysicalDrive%d`, number), win32.GENERIC_READ|win32.GENERIC_WRITE, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
	if err != nil {
		return err
	}
	in := win32.SetDiskAttributes{Persist: true, Attributes: win32.DISK_ATTRIBUTE_OFFLINE, Mask: win32.DISK_ATTRIBUTE_OFFLINE}.Encode()
	_, err = api.DeviceIoControl(h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, nil)
	return errors.Join(err, api.CloseHandle(h))
}
