package operations_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/test/sparse"
	"github.com/kubernetes-csi/csi-proxy/v2/test/worlds"
)

const (
	mib     = 1 << 20
	gib     = 1 << 30
	kubelet = `C:\var\lib\kubelet`
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// random returns a source of identifiers that are the same in every run.
func random(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

// machine is an emulated node and its state directory.
type machine struct {
	*emulated.Node
	dir    string
	clock  *nodetest.Clock // nil for the clock of a testing/synctest bubble
	number uint32          // of the disk that operations are about
	volume string          // ID of its volume
	users  bool            // nodespec.Config.UsersModify
	api    win32.API       // that programs use, Node if it is nil
}

// end closes the machine and removes its state directory.
func (m *machine) end(t testing.TB) {
	t.Helper()
	if err := errors.Join(m.Close(), os.RemoveAll(m.dir)); err != nil {
		t.Error(err)
	}
}

// configured returns the configuration of a node for every operation.
func configured(change func(*nodespec.Config)) nodespec.Config {
	const second = nodespec.Duration(time.Second)
	c := nodespec.Config{
		Log: quiet, Disks: []nodespec.Disk{{Content: nodespec.ContentSystem, Size: gib}}, Directories: []string{kubelet},
		Services: []nodespec.Service{{Name: initiator, StartType: "auto"},
			{Name: "Base", StartDelay: second, StopDelay: second}, {Name: "Top", DependsOn: []string{"Base"}, StartDelay: second, StopDelay: second}},
	}
	if change != nil {
		change(&c)
	}
	c.World = behavior.In(behavior.In("", worlds.Chosen()), behavior.Chosen(c.World))
	// A request that is repeated after a restart names the same disk. Finding its new number
	// is what a driver does before.
	c.DiskNumbers = nodespec.DiskNumbersKept
	// The node is compared at each death with the one that its state directory has, where all
	// volumes have arrived. VolumeArrivalDelay is for requests that wait.
	c.NewVolumes = nodespec.NewVolumesAtOnce
	return c
}

// boot opens the node in dir. life selects its random numbers, so that each start
// makes other identifiers.
func boot(dir string, life byte, config func(*nodespec.Config), during func()) (*machine, error) {
	m := &machine{dir: dir, clock: nodetest.NewClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), number: 1}
	c := configured(config)
	c.StateDir, m.users = dir, c.UsersModify
	var err error
	m.Node, err = emulated.Open(c, emulated.Machine{Now: m.clock.Now, Rand: random(life), Sleep: func(d time.Duration) {
		if during != nil {
			during()
		}
		m.clock.Advance(d)
	}})
	return m, err
}

// inBubble opens a node for a test in a testing/synctest bubble, which fails if handles are
// open at its end.
func inBubble(t *testing.T, config func(*nodespec.Config)) *machine {
	t.Helper()
	c := configured(config)
	m := &machine{number: uint32(len(c.Disks)), users: c.UsersModify}
	m.Node = nodetest.Open(t, c, emulated.Machine{Rand: random(lifeSetup)})
	return m
}

// wait lets time pass on the machine.
func (m *machine) wait(d time.Duration) {
	if m.clock == nil {
		time.Sleep(d) // in a bubble
		return
	}
	m.clock.Advance(d)
}

// groups are the services of a node, or clients of them.
type groups struct {
	disk       disk.Interface
	volume     volume.Service
	filesystem filesystem.Interface
	smb        smb.Service
	iscsi      iscsi.Interface
	system     system.Interface
}

// caller is a program that makes requests: its services, with their state. Their Win32 calls
// go through a hook.
type caller struct {
	groups
	m    *machine
	ctx  context.Context
	node *node.Node
	said string // the last answer of a method that looks
}

// start starts a program, whose random numbers life selects.
func (m *machine) start(ctx context.Context, life byte, hook func(*win32.Call) error) (*caller, error) {
	api := m.api
	if api == nil {
		api = m.Node
	}
	n := node.New(win32.Observe(api, hook))
	n.Log, n.Rand, n.WorkingDirs = quiet, random(life+100), []string{kubelet}
	n.UsersModify = m.users
	if m.clock != nil {
		n.Clock = m.clock
	}
	c := &caller{m: m, ctx: ctx, node: n}
	return c, c.restart()
}

// restart replaces the program by a new process without state.
func (c *caller) restart() error {
	s, err := services.Open(c.node)
	if err == nil {
		c.groups = groups{s.Disk, s.Volume, s.Filesystem, s.SMB, s.ISCSI, s.System}
	}
	return err
}

// pass is a hook that forwards every call.
func pass(c *win32.Call) error { return c.Do() }

// file makes an empty file.
func (m *machine) file(path string, attributes uint32) error {
	h, err := m.NtCreateFile(0, `\??\`+path, win32.FILE_WRITE_ATTRIBUTES|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, 0,
		win32.FILE_CREATE, win32.FILE_NON_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
	if err != nil {
		return err
	}
	if attributes != 0 {
		b := make([]byte, 40) // FILE_BASIC_INFORMATION
		b[32] = byte(attributes)
		err = m.SetInformation(h, win32.FileBasicInformation, b)
	}
	return errors.Join(err, m.CloseHandle(h))
}

// describe returns everything on the node that requests can change, without random
// identifiers.
func (m *machine) describe() (string, error) {
	info, err := m.Show()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, d := range info.Disks {
		fmt.Fprintf(&b, "disk %d %s: %d bytes, %d seen, %s, online %t, read-only %t, waiting %t\n", d.Number, d.ID, d.Size, d.SeenSize, d.Style, d.Online, d.ReadOnly, d.Waiting)
		for _, p := range d.Partitions {
			fmt.Fprintf(&b, "\tpartition %d %s %q: %d bytes at %d\n", p.Number, p.Type, p.Name, p.Length, p.Offset)
		}
	}
	names := []string{}
	for _, v := range info.Volumes {
		name := fmt.Sprintf("volume at %d of disk %d", v.Offset, v.Disks[0])
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(v.ID, `\\?\`), `\`), name)
		fmt.Fprintf(&b, "%s: %d bytes, arrived %t, %q with %d entries, at %q\n", name, v.Size, v.Arrived, v.FileSystem, v.Entries, v.MountedAt)
	}
	for _, x := range info.Mounts {
		fmt.Fprintf(&b, "mount of %s at %s %s\n", x.Volume, x.Host, x.Path)
	}
	for _, s := range info.Services {
		fmt.Fprintf(&b, "service %s %s\n", s.Name, s.Status)
	}
	for _, s := range info.SMBMappings {
		fmt.Fprintf(&b, "mapping %s of %q, status %s\n", s.Remote, s.User, s.Status)
	}
	for _, t := range info.ISCSITargets {
		fmt.Fprintf(&b, "target %s, session %t through %q, disks %d, %q\n", t.IQN, t.Session != "", t.Through, t.Disks, t.State)
	}
	fmt.Fprintf(&b, "portals %v\n", info.ISCSIPortals)
	n := node.New(m.Node)
	n.Log = quiet
	if err := list(n, kubelet, &b); err != nil {
		return "", err
	}
	if len(m.OpenHandles()) > 0 {
		fmt.Fprintf(&b, "open handles %q\n", m.OpenHandles())
	}
	return strings.NewReplacer(names...).Replace(b.String()), nil
}

// list adds the content of a directory, with the targets of links.
func list(n *node.Node, dir string, b *strings.Builder) error {
	entries, err := winfs.ReadDir(context.Background(), n, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := dir + `\` + e.Name
		link, linked, err := winfs.Readlink(context.Background(), n, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "%s directory %t, link %t %q\n", path, e.IsDir(), linked, link.Substitute)
		if e.IsDir() && !linked {
			if err := list(n, path, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// ends returns the first and the last MiB of a disk, where its partition table is.
func (m *machine) ends(number uint32, size int64) (ends []nodespec.Bytes, err error) {
	h, err := m.CreateFile(fmt.Sprintf(`\\.\PhysicalDrive%d`, number), win32.GENERIC_READ, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
	if err != nil {
		return nil, err
	}
	defer m.CloseHandle(h)
	for _, at := range []int64{0, size - mib} {
		b := make([]byte, mib)
		if _, err := m.ReadAt(h, b, at); err != nil {
			return nil, err
		}
		ends = append(ends, nodespec.Bytes{At: nodespec.Size(at), Data: b})
	}
	return ends, nil
}

// block is the size of the blocks in which images are compared and copied.
const block = 64 << 10

// tempDir makes a directory, in memory if possible, because thousands are made.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "operations")
	if err != nil {
		dir, err = os.MkdirTemp("", "operations")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// clone copies a state directory as it is, which is how kill -9 leaves it.
func clone(t testing.TB, from string) string {
	t.Helper()
	to := tempDir(t)
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		f, err := os.Create(filepath.Join(to, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		size, err := sparse.Blocks(filepath.Join(from, e.Name()), block, func(off int64, b []byte) error {
			_, err := f.WriteAt(b, off)
			return err
		})
		if err := errors.Join(err, f.Truncate(size), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// digest returns the names, sizes and hashes of the files of a state directory.
func digest(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		sum := fnv.New64a()
		size, err := sparse.Blocks(filepath.Join(dir, e.Name()), block, func(off int64, p []byte) error {
			fmt.Fprintf(sum, "%d ", off)
			sum.Write(p)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s: %d bytes, %x\n", e.Name(), size, sum.Sum64())
	}
	return b.String()
}
