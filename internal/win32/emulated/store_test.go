package emulated

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	path = filepath.Join(dir, "journal")
	b, err := os.ReadFile(path)
	ok(t, err)
	return path, b
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

// A process that is killed while it writes the journal has written to the images. The call was
// made if its whole line is there. Otherwise it can be repeated.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	n := start(t, nodespec.Config{StateDir: dir, Disks: []nodespec.Disk{{Size: 16 * mib}, {Size: 16 * mib}}})
	control := func(n *Node, code uint32, in []byte) {
		h := openPath(t, n, `\\.\PhysicalDrive1`, readWrite)
		ioctl(t, n, h, code, in, 0)
		ok(t, n.CloseHandle(h))
	}
	for _, step := range []struct {
		name string
		do   func(n *Node)
	}{
		{"create", func(n *Node) { control(n, win32.IOCTL_DISK_CREATE_DISK, win32.CreateDisk{DiskID: guid(1)}.Encode()) }},
		{"layout", func(n *Node) {
			control(n, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, win32.Layout{Style: win32.PARTITION_STYLE_GPT, DiskID: guid(1), Partitions: []win32.Partition{data(1, mib, 8*mib)}}.Encode())
		}},
		{"volume online", func(n *Node) { one(t, n, 1) }},
		{"format", func(n *Node) { ok(t, n.Format(one(t, n, 1), quick)) }},
		{"directory", func(n *Node) { newDir(t, n, one(t, n, 1)+"new") }},
		{"grow", func(n *Node) {
			control(n, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{Number: 1, Delta: mib}.Encode())
		}},
		{"offline", func(n *Node) {
			control(n, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.SetDiskAttributes{Persist: true, Attributes: 1, Mask: 1}.Encode())
		}},
	} {
		_, old := journalOf(t, dir)
		step.do(n)
		_, whole := journalOf(t, dir)
		if !bytes.HasPrefix(whole, old) {
			t.Fatalf("%s: the journal of %d bytes does not begin as that of %d", step.name, len(whole), len(old))
		}
		for _, end := range slices.Compact([]int{len(old), (len(old) + len(whole)) / 2, max(len(old), len(whole)-1), len(whole)}) {
			killed := cloneDir(t, dir)
			path, _ := journalOf(t, killed)
			ok(t, os.WriteFile(path, whole[:end], 0o600))
			m := start(t, nodespec.Config{StateDir: killed})
			if got, want := describe(t, m), describe(t, n); end == len(whole) && got != want {
				t.Errorf("%s: the call returned, but its effect is lost:\n%s\nwant\n%s", step.name, got, want)
			}
			if got, want := tableOf(m), tableOf(n); got != want {
				t.Errorf("%s: killed after %d bytes: table %s, want %s", step.name, end-len(old), got, want)
			}
			if end < len(whole) {
				step.do(m)
			}
			checkNode(t, m)
			if m.ByNumber(1).Table.Style == win32.PARTITION_STYLE_GPT {
				sgdisk(t, image(t, m, 1))
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

// What this program cannot read is left as it is.
func TestUnknownState(t *testing.T) {
	for name, file := range map[string]string{"of an earlier version": "journal.0", "no JSON": "journal", "without its journal": ""} {
		dir := t.TempDir()
		img := filepath.Join(dir, "disk-d.img")
		ok(t, os.WriteFile(img, nil, 0o600))
		if file != "" {
			ok(t, os.WriteFile(filepath.Join(dir, file), []byte("{\n"), 0o600))
		}
		if _, err := Open(nodespec.Config{StateDir: dir}, kernel.Machine{}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, cmp.Or(file, "journal is missing"))) {
			t.Errorf("%s: Open = %v, want an error that names the file", name, err)
		}
		if _, err := os.Stat(img); err != nil {
			t.Errorf("%s: %v", name, err)
		}
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
