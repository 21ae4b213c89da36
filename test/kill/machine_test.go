package kill_test

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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
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
	clock  *nodetest.Clock
	volume string // ID of the scenario's volume
	users  bool   // nodespec.Config.UsersModify
}

// end closes the machine and removes its state directory.
func (m *machine) end(t testing.TB) {
	t.Helper()
	if err := errors.Join(m.Close(), os.RemoveAll(m.dir)); err != nil {
		t.Error(err)
	}
}

// boot opens the node in dir. life selects its random numbers, so that each start
// makes other identifiers.
func boot(dir string, life byte, config func(*nodespec.Config), during func()) (*machine, error) {
	m := &machine{dir: dir, clock: nodetest.NewClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	c := nodespec.Config{
		StateDir: dir, Log: quiet,
		Disks: []nodespec.Disk{{Content: nodespec.ContentSystem, Size: gib}, {ID: "data", Size: gib}},
	}
	if config != nil {
		config(&c)
	}
	c.Windows, m.users = c.Windows.Or(worlds.Chosen()), c.UsersModify
	// A request that is repeated after a restart names the same disk. Finding its new number
	// is what a driver does before.
	c.DiskNumbers = nodespec.DiskNumbersKept
	// The node is compared at each death with the one that its state directory has, where all
	// volumes have arrived. VolumeArrivalDelay is for requests that wait.
	c.NewVolumes = nodespec.NewVolumesAtOnce
	var err error
	m.Node, err = emulated.Open(c, emulated.Machine{Now: m.clock.Now, Rand: random(life), Sleep: func(d time.Duration) {
		if during != nil {
			during()
		}
		m.clock.Advance(d)
	}})
	return m, err
}

// groups are the services of a node, or clients of them.
type groups struct {
	disk       disk.Interface
	volume     volume.Interface
	filesystem filesystem.Interface
	smb        smb.Interface
	iscsi      iscsi.Interface
	system     system.Interface
}

// process is what dies when CSI Proxy is killed: its services and their state. Their
// Win32 calls go through a hook.
type process struct {
	groups
	m *machine
}

func (m *machine) start(life byte, hook func(*win32.Call) error) (*process, error) {
	n := node.New(win32.Observe(m.Node, hook))
	n.Log, n.Clock, n.Rand, n.WorkingDirs = quiet, m.clock, random(life+100), []string{kubelet}
	n.UsersModify = m.users
	s, err := services.Open(n)
	if err != nil {
		return nil, err
	}
	return &process{groups{s.Disk, s.Volume, s.Filesystem, s.SMB, s.ISCSI, s.System}, m}, nil
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
	n.Log, n.Clock = quiet, m.clock
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

// seekData is SEEK_DATA of lseek(2). Without support for it, everything is data.
const seekData = 3

// eachBlock calls do for the blocks of a file that are not zero, in order.
func eachBlock(path string, do func(off int64, b []byte) error) (size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf, zero := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); off < info.Size(); {
		if at, err := f.Seek(off, seekData); err == nil {
			off = at &^ int64(len(buf)-1)
		} else if off > 0 || info.Size() > gib {
			break // no data after off
		}
		n, err := f.ReadAt(buf, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if n == 0 {
			break
		}
		if !slices.Equal(buf[:n], zero[:n]) {
			if err := do(off, buf[:n]); err != nil {
				return 0, err
			}
		}
		off += int64(n)
	}
	return info.Size(), nil
}

// tempDir makes a directory, in memory if possible, because thousands are made.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "kill")
	if err != nil {
		dir, err = os.MkdirTemp("", "kill")
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
		size, err := eachBlock(filepath.Join(from, e.Name()), func(off int64, b []byte) error {
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
		size, err := eachBlock(filepath.Join(dir, e.Name()), func(off int64, p []byte) error {
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
