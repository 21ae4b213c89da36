package emulated

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// cloneDir copies a state directory in the form that a killed process leaves.
func cloneDir(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	es, err := os.ReadDir(from)
	ok(t, err)
	for _, e := range es {
		info, err := e.Info()
		ok(t, err)
		f, err := os.Create(filepath.Join(to, e.Name()))
		ok(t, err)
		err = errors.Join(kernel.CopyImage(f, filepath.Join(from, e.Name())), f.Truncate(info.Size()), f.Close())
		ok(t, err)
	}
	return to
}

func journalOf(t testing.TB, dir string) (path string, b []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "journal.*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("journals %q, %v, want one", names, err)
	}
	if b, err = os.ReadFile(names[0]); err != nil {
		t.Fatal(err)
	}
	return names[0], b
}

// describe returns the whole state of a node.
func describe(t testing.TB, n *Node) string {
	t.Helper()
	var b strings.Builder
	for _, k := range n.Store.Keys("") {
		b.WriteString(k + " " + stored(n, k) + "\n")
	}
	return b.String()
}

// stored returns the stored value of a key.
func stored(n *Node, key string) string {
	v, _ := n.Store.Get(key)
	return string(v)
}

// TestKilledWhileWriting: if a process is killed while it writes the journal, or
// before it has changed the images, the call has either been made or not.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	n := start(t, nodespec.Config{StateDir: dir, Disks: []nodespec.Disk{{Size: 16 * mib}, {Size: 16 * mib}}})
	h := drive(t, n, readWrite)
	l := win32.Layout{}
	vol := ""
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"create", func() error {
			_, err := n.DeviceIoControl(h, win32.IOCTL_DISK_CREATE_DISK, win32.CreateDisk{DiskID: guid(1)}.Encode(), nil)
			return err
		}},
		{"layout", func() error {
			l = layout(t, n, h)
			l.Partitions = append(l.Partitions, data(1, mib, 8*mib))
			_, err := n.DeviceIoControl(h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, l.Encode(), nil)
			return err
		}},
		{"volume online", func() error { vol = one(t, n, 1); return nil }},
		{"format", func() error { return n.Format(vol, quick) }},
		{"directory", func() error {
			newDir(t, n, vol+"new")
			return nil
		}},
		{"grow", func() error {
			_, err := n.DeviceIoControl(h, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{Number: 1, Delta: mib}.Encode(), nil)
			return err
		}},
		{"offline", func() error {
			_, err := n.DeviceIoControl(h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.SetDiskAttributes{Persist: true, Attributes: 1, Mask: 1}.Encode(), nil)
			return err
		}},
	} {
		before := cloneDir(t, dir)
		wasState := describe(t, n)
		_, old := journalOf(t, dir)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		_, whole := journalOf(t, dir)
		if !bytes.HasPrefix(whole, old) || len(whole) == len(old) {
			t.Fatalf("%s: the journal grew from %d to %d bytes", step.name, len(old), len(whole))
		}
		for at := len(old); at <= len(whole); at++ {
			// At some of the positions: package journal tests that each other one is like its
			// neighbors.
			if from, to := at-len(old), len(whole)-at; from > 9 && to > 2 && from%4999 != 0 {
				continue
			}
			// Images as before the call: the worst case, because they are written
			// second.
			killed := cloneDir(t, before)
			path, _ := journalOf(t, killed)
			ok(t, os.WriteFile(path, whole[:at], 0o600))
			m, err := Open(nodespec.Config{StateDir: killed}, kernel.Machine{})
			if err != nil {
				t.Fatalf("%s: killed after %d of %d bytes: %v", step.name, at-len(old), len(whole)-len(old), err)
			}
			t.Cleanup(func() { m.Close() }) // without sgdisk, the test ends before the Close below
			checkNode(t, m)
			state := describe(t, m)
			if at == len(whole) {
				if want := describe(t, n); state != want {
					t.Errorf("%s: the call returned, but its effect is lost:\n%s\nwant\n%s", step.name, state, want)
				}
				if got, want := tableOf(m), tableOf(n); got != want {
					t.Errorf("%s: table %s, want %s", step.name, got, want)
				}
				if m.ByNumber(1).Table.Style == win32.PARTITION_STYLE_GPT {
					sgdisk(t, image(t, m, 1))
				}
			} else if state != wasState {
				t.Fatalf("%s: killed after %d of %d bytes: part of the call took effect:\n%s", step.name, at-len(old), len(whole)-len(old), state)
			}
			ok(t, m.Close())
			os.RemoveAll(killed)
		}
	}
}

func tableOf(n *Node) string { return string(n.ByNumber(1).Table.Encode()) }

// TestKilledWhileCreating: a directory with an incomplete node gets a new node.
func TestKilledWhileCreating(t *testing.T) {
	dir := t.TempDir()
	start(t, nodespec.Config{StateDir: dir})
	path, b := journalOf(t, dir)
	for _, at := range []int{0, 1, len(b) / 3, len(b) / 2, len(b) - 1} {
		killed := t.TempDir()
		ok(t, os.WriteFile(filepath.Join(killed, filepath.Base(path)), b[:at], 0o600))
		ok(t, os.WriteFile(filepath.Join(killed, "disk-of-the-dead.img"), nil, 0o600))
		m, err := Open(nodespec.Config{StateDir: killed}, kernel.Machine{})
		if err != nil {
			t.Fatalf("killed after %d bytes: %v", at, err)
		}
		checkNode(t, m)
		if len(m.Disks.List) != 3 || len(m.Volumes.List) != 2 {
			t.Errorf("killed after %d bytes: %d disks and %d volumes", at, len(m.Disks.List), len(m.Volumes.List))
		}
		if _, err := os.Stat(filepath.Join(killed, "disk-of-the-dead.img")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("an image without a disk is left: %v", err)
		}
		ok(t, m.Close())
	}
}

// TestStateLockedByAnotherProcess holds the state in a separate process.
func TestStateLockedByAnotherProcess(t *testing.T) {
	if dir := os.Getenv("EMULATED_STATE_DIR"); dir != "" {
		if _, err := Open(nodespec.Config{StateDir: dir}, kernel.Machine{}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("Open = %v, want that another process uses it", err)
		}
		return
	}
	dir := t.TempDir()
	start(t, nodespec.Config{StateDir: dir})
	cmd := exec.Command(os.Args[0], "-test.run", "^TestStateLockedByAnotherProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "EMULATED_STATE_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestUnknownStateFormat(t *testing.T) {
	for name, text := range map[string]string{"newer": `{"format":99}`, "not JSON": `{`} {
		dir := t.TempDir()
		ok(t, os.WriteFile(filepath.Join(dir, "state.json"), []byte(text), 0o600))
		if _, err := Open(nodespec.Config{StateDir: dir}, kernel.Machine{}); err == nil || !strings.Contains(err.Error(), "state.json") {
			t.Errorf("%s: Open = %v, want an error naming state.json", name, err)
		}
	}
}

// TestCompaction: snapshots change nothing, at whatever time they are written,
// and the files of a process that ended while writing one do no harm.
func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	n := start(t, nodespec.Config{StateDir: dir})
	before := describe(t, n)
	n.Store.CompactAt = 1 // with the next change
	h := openPath(t, n, `\\.\PhysicalDrive1`, readWrite)
	initialize(t, n, h)
	if path, _ := journalOf(t, dir); n.Store.Size() != 0 || filepath.Base(path) == "journal.0" {
		t.Errorf("no snapshot was written: %d bytes in %s", n.Store.Size(), path)
	}
	if got := describe(t, n); got != before { // an empty table adds no keys
		t.Errorf("state\n%s\nwant\n%s", got, before)
	}
	killed := cloneDir(t, dir)
	for _, name := range []string{"state.json.new", "journal.77"} {
		ok(t, os.WriteFile(filepath.Join(killed, name), []byte("half"), 0o600))
	}
	m := start(t, nodespec.Config{StateDir: killed})
	if got := describe(t, m); got != before {
		t.Errorf("state\n%s\nwant\n%s", got, before)
	}
	journalOf(t, killed) // one
	if _, err := os.Stat(filepath.Join(killed, "state.json.new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the incomplete snapshot is left: %v", err)
	}
}

// TestJournalWriteFailure: all later calls fail, and the state opens again
// with the last successful call.
func TestJournalWriteFailure(t *testing.T) {
	dir := t.TempDir()
	n, err := Open(nodespec.Config{StateDir: dir, Log: quiet}, kernel.Machine{})
	ok(t, err)
	defer n.Close() // fails: the journal is already closed
	h, err := n.CreateFile(`\\.\PhysicalDrive1`, readWrite, shareBoth, win32.OPEN_EXISTING, 0)
	ok(t, err)
	before := describe(t, n)
	ok(t, n.Store.Close())
	in := win32.SetDiskAttributes{Attributes: 2, Mask: 2}.Encode()
	for range 2 {
		if _, err := n.DeviceIoControl(h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, nil); !errors.Is(err, win32.ERROR_IO_DEVICE) {
			t.Errorf("DeviceIoControl = %v, want ERROR_IO_DEVICE", err)
		}
	}
	if _, err := n.VolumeNames(); !errors.Is(err, win32.ERROR_IO_DEVICE) {
		t.Errorf("VolumeNames = %v, want ERROR_IO_DEVICE", err)
	}
	if _, err := n.Show(); err == nil || !strings.Contains(err.Error(), "journal") {
		t.Errorf("Show = %v, want the reason", err)
	}
	if _, err := n.Attach(nodespec.Disk{}); err == nil || !strings.Contains(err.Error(), "journal") {
		t.Errorf("Attach = %v, want the reason", err)
	}
	killed := cloneDir(t, dir)
	if got := describe(t, start(t, nodespec.Config{StateDir: killed})); got != before {
		t.Errorf("state\n%s\nwant\n%s", got, before)
	}
}

func TestCallsAfterClose(t *testing.T) {
	n, err := Open(nodespec.Config{}, kernel.Machine{})
	ok(t, err)
	dir := n.Store.Dir()
	for range 2 {
		if err := n.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary directory is left: %v", err)
	}
	if _, err := n.VolumeNames(); !errors.Is(err, win32.ERROR_IO_DEVICE) {
		t.Errorf("VolumeNames = %v, want ERROR_IO_DEVICE", err)
	}
	if _, err := n.Show(); err == nil {
		t.Error("Show of a closed node succeeded")
	}
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// TestFailedCallChangesNothing: a failed call changes neither the store nor
// memory.
func TestFailedCallChangesNothing(t *testing.T) {
	n := start(t, nodespec.Config{Log: quiet})
	before, size := describe(t, n), n.Store.Size()
	undone := []int{}
	err := n.Do(func(tx *kernel.Tx) error {
		tx.Put("disk/x", 1)
		tx.Delete("node")
		tx.WriteImage(n.Disks.List[1].ID, 0, []byte("abc"))
		tx.OnCommit(func() { t.Error("committed") })
		tx.OnRollback(func() { undone = append(undone, 1) })
		tx.OnRollback(func() { undone = append(undone, 2) })
		return win32.ERROR_BUSY
	})
	if !errors.Is(err, win32.ERROR_BUSY) || describe(t, n) != before || n.Store.Size() != size || len(undone) != 2 || undone[0] != 2 {
		t.Errorf("%v; journal %d bytes, was %d; undone %v", err, n.Store.Size(), size, undone)
	}
	b := make([]byte, 3)
	if _, err := n.Disks.List[1].Image.ReadAt(b, 0); err != nil || b[0] != 0 {
		t.Errorf("image holds %q, %v", b, err)
	}
	// A value that cannot be encoded is detected before anything is written.
	err = n.Do(func(tx *kernel.Tx) error { tx.Put("x", func() {}); return nil })
	if !errors.Is(err, win32.ERROR_IO_DEVICE) || describe(t, n) != before {
		t.Errorf("Put of a function = %v", err)
	}
}

// An image that is missing or was cut off is an error that names the disk.
func TestDamagedImage(t *testing.T) {
	for name, damage := range map[string]func(image string) error{
		"cut off": func(image string) error { return os.Truncate(image, 1<<20) },
		"missing": os.Remove,
	} {
		for _, detached := range []bool{false, true} {
			dir := t.TempDir()
			n, err := Open(nodespec.Config{StateDir: dir, Log: quiet, Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {ID: "data", Size: 64 << 20}}}, kernel.Machine{})
			ok(t, err)
			if detached {
				ok(t, n.Detach(1))
			}
			ok(t, errors.Join(n.Close(), damage(filepath.Join(dir, "disk-data.img"))))
			if _, err := Open(nodespec.Config{StateDir: dir, Log: quiet}, kernel.Machine{}); err == nil || !strings.Contains(err.Error(), "the image of disk data") {
				t.Errorf("%s, detached %t: Open = %v, want an error that names the disk", name, detached, err)
			}
		}
	}
}
