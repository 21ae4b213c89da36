package emulated

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Bytes replace what was written before them, and Windows sees a disk with them only:
// here without its GPT, at arrival and after the node was opened again.
func TestBytesOfADisk(t *testing.T) {
	for name, c := range map[string]nodespec.Config{"seen at once": {}, "seen after a rescan": {Windows: nodespec.Windows{Attach: "rescan"}}} {
		t.Run(name, func(t *testing.T) {
			c.StateDir = t.TempDir()
			n := start(t, c)
			number, err := n.Attach(nodespec.Disk{Size: gib, ID: "d", Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}},
				Bytes: []nodespec.Bytes{{At: 0, Data: make([]byte, 34*512)}, {At: gib - 33*512, Data: make([]byte, 33*512)}, {At: 4096, Data: []byte("left over")}}})
			if err == nil {
				err = n.AwaitDisk(number)
			}
			ok(t, err)
			online(t, n, number)
			check := func(n *Node) {
				t.Helper()
				state, err := n.Show()
				if err != nil || len(state.Disks) <= int(number) || state.Disks[number].Style != "RAW" || state.Disks[number].Waiting {
					t.Errorf("disks %+v, %v, want disk %d without a table", state.Disks, err, number)
				}
				h := openPath(t, n, fmt.Sprintf(`\\.\PhysicalDrive%d`, number), win32.GENERIC_READ)
				b := make([]byte, 512)
				if _, err := n.ReadAt(h, b, 4096); err != nil || !strings.HasPrefix(string(b), "left over") {
					t.Errorf("ReadAt = %q, %v", b, err)
				}
				ok(t, n.CloseHandle(h))
			}
			check(n)
			c.StateDir = cloneDir(t, c.StateDir)
			check(start(t, c))
		})
	}
}

func TestAttachRefusals(t *testing.T) {
	n := start(t, nodespec.Config{})
	one := uint32(1)
	before := describe(t, n)
	files := mustList(t, n.Store.Dir())
	for _, c := range []struct {
		name string
		c    nodespec.Disk
		want string
	}{
		{"number in use", nodespec.Disk{Number: &one}, "disk number 1 is already in use"},
		{"identity in use", nodespec.Disk{ID: strings.ToUpper(n.Disks.List[0].ID)}, "already attached"},
		{"too small", nodespec.Disk{Size: 1000}, "1000 bytes"},
		{"too large", nodespec.Disk{Size: 1 << 60}, "1152921504606846976"},
		{"sector size", nodespec.Disk{SectorSize: 520}, "520"},
		{"bus", nodespec.Disk{Bus: "usb"}, `"usb"`},
		{"content", nodespec.Disk{Content: "ext4"}, `"ext4"`},
		{"identity", nodespec.Disk{ID: "../x"}, `"../x"`},
		{"image without file", nodespec.Disk{Content: nodespec.ContentImage}, "without an image"},
		{"image and content", nodespec.Disk{Content: nodespec.ContentGPT, Image: "x"}, "one of them"},
		{"missing image", nodespec.Disk{Image: filepath.Join(t.TempDir(), "none")}, "none"},
		{"bytes beyond the end", nodespec.Disk{Size: gib, Bytes: []nodespec.Bytes{{At: gib - 1, Data: []byte{1, 2}}}}, "2 bytes at 1073741823"},
		{"bytes far beyond the end", nodespec.Disk{Size: gib, Bytes: []nodespec.Bytes{{At: 1<<64 - 1, Data: []byte{1, 2}}}}, "do not fit"},
		{"partitions on a blank disk", nodespec.Disk{Partitions: []nodespec.Partition{{}}}, "partitions"},
		{"identifier", nodespec.Disk{Identifiers: []nodespec.Identifier{{CodeSet: "ebcdic", Text: "x"}}}, `"ebcdic"`},
		{"empty identifier", nodespec.Disk{Identifiers: []nodespec.Identifier{{CodeSet: "ascii"}}}, "text or hex"},
		{"identifier that is not hex", nodespec.Disk{Identifiers: []nodespec.Identifier{{CodeSet: "binary", Hex: "xy"}}}, `"xy"`},
		{"association", nodespec.Disk{Identifiers: []nodespec.Identifier{{CodeSet: "ascii", Text: "x", Association: "cable"}}}, `"cable"`},
		{"partition type", nodespec.Disk{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Type: "swap"}}}, `"swap"`},
		{"type on an MBR", nodespec.Disk{Content: nodespec.ContentMBR, Partitions: []nodespec.Partition{{Type: "esp"}}}, `"esp"`},
		{"file system", nodespec.Disk{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "xfs"}}}, `file system "xfs"`},
		{"too much", nodespec.Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []nodespec.Partition{{Size: 2 * gib}}}, "do not fit"},
		{"full", nodespec.Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []nodespec.Partition{{}, {}}}, "full"},
		{"letter in use", nodespec.Disk{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Letter: "c"}}}, `"c" is already in use`},
		{"letter twice", nodespec.Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []nodespec.Partition{{Size: mib, Letter: "e"}, {Letter: "E"}}}, `"E" is already in use`},
		{"no letter", nodespec.Disk{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Letter: "EE"}}}, `"EE"`},
		{"letter without a volume", nodespec.Disk{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Type: "ldmData", Letter: "E"}}}, "no volume"},
	} {
		if _, err := n.Attach(c.c); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Attach = %v, want an error with %q", c.name, err, c.want)
		}
	}
	if got := describe(t, n); got != before {
		t.Errorf("state after the errors\n%s\nwant\n%s", got, before)
	}
	if got := mustList(t, n.Store.Dir()); !reflect.DeepEqual(got, files) {
		t.Errorf("files after the errors %q, want %q", got, files)
	}
}

func mustList(t testing.TB, dir string) []string {
	t.Helper()
	es, err := os.ReadDir(dir)
	ok(t, err)
	var names []string
	for _, e := range es {
		names = append(names, e.Name())
	}
	return names
}

func TestImageContent(t *testing.T) {
	n := start(t, nodespec.Config{})
	one2(t, n)
	file := filepath.Join(t.TempDir(), "golden.img")
	f, err := os.Create(file)
	ok(t, err)
	ok(t, errors.Join(kernel.CopyImage(f, image(t, n, 2)), f.Truncate(10*gib), f.Close()))
	number := attach(t, n, nodespec.Disk{Image: file})
	online(t, n, number)
	if vs := volumesOn(t, n, number); len(vs) != 1 || vs[16*mib] == one(t, n, 2) {
		t.Errorf("volumes of the copy %v, want one with its own name", vs)
	}
	larger := attach(t, n, nodespec.Disk{Image: file, Size: 11 * gib})
	if d := n.ByNumber(larger); d.Size != 11*gib || d.Table.UsableOffset+d.Table.UsableLength > 10*gib {
		t.Errorf("disk of %d bytes with the table %+v", d.Size, d.Table)
	}
	if _, err := n.Attach(nodespec.Disk{Image: file, Size: gib}); err == nil {
		t.Error("an image larger than its disk was attached")
	}
}

func TestAttachNeedsRescan(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1e9, 0)
	clock := kernel.Machine{Now: func() time.Time { return now }}
	n := startOn(t, nodespec.Config{StateDir: dir, Windows: nodespec.Windows{Attach: "rescan"}}, clock)
	number, err := n.Attach(nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}})
	if err != nil || number != 3 {
		t.Fatalf("Attach = %d, %v", number, err)
	}
	missing := func(n *Node, path string) {
		t.Helper()
		if _, err := n.CreateFile(path, 0, shareBoth, win32.OPEN_EXISTING, 0); !errors.Is(err, win32.ERROR_FILE_NOT_FOUND) {
			t.Errorf("CreateFile(%s) before a rescan = %v, want ERROR_FILE_NOT_FOUND", path, err)
		}
	}
	missing(n, `\\.\PhysicalDrive3`)
	if is, err := n.Interfaces(); err != nil || len(is) != 3 {
		t.Errorf("Interfaces = %v, %v", is, err)
	}
	if next, err := n.Attach(nodespec.Disk{Size: gib}); err != nil || next != 4 {
		t.Errorf("second Attach = %d, %v, want 4: numbers of waiting disks are taken", next, err)
	}
	ok(t, n.Close())
	n = startOn(t, nodespec.Config{StateDir: dir}, clock)
	now = now.Add(time.Hour)
	missing(n, `\\.\PhysicalDrive3`)
	if err := n.Detach(4); err != nil { // an invisible disk can be detached
		t.Fatal(err)
	}
	ok(t, rescan(n))
	missing(n, `\\.\PhysicalDrive3`)
	now = now.Add(kernel.ArrivalDelay)
	online(t, n, 3)
	one(t, n, 3)
	missing(n, `\\.\PhysicalDrive4`)
	if err := rescan(n); err != nil {
		t.Errorf("second Reenumerate = %v", err)
	}
}

// With plug and play a disk needs no rescan. It arrives although the process ends meanwhile.
func TestAttachPlugAndPlay(t *testing.T) {
	now := time.Unix(1e9, 0)
	clock := kernel.Machine{Now: func() time.Time { return now }}
	cfg := nodespec.Config{StateDir: t.TempDir(), Windows: nodespec.Windows{Attach: "plugAndPlay"}}
	n := startOn(t, cfg, clock)
	letter := nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}, ID: "d"}
	if number, err := n.Attach(letter); err != nil || number != 3 {
		t.Fatalf("Attach = %d, %v", number, err)
	}
	if state, err := n.Show(); err != nil || !state.Disks[3].Waiting || n.ByNumber(3) != nil {
		t.Errorf("the disk is seen at once: %+v, %v", state.Disks[3], err)
	}
	killed := cloneDir(t, cfg.StateDir)
	now = now.Add(kernel.ArrivalDelay)
	cfg.StateDir = killed
	for _, n := range []*Node{n, startOn(t, cfg, clock)} {
		online(t, n, 3)
		if _, err := n.Attributes(`E:\`); err != nil {
			t.Errorf("the volume with its letter: %v", err)
		}
	}
}

// rescan makes the node see attached disks, a moment later.
func rescan(n win32.API) error {
	return n.WithPrivilege(win32.SE_LOAD_DRIVER_NAME, win32.API.Reenumerate)
}

func TestReenumerateNeedsPrivilege(t *testing.T) {
	n := start(t, nodespec.Config{})
	wantErrno(t, "no privilege", n.Reenumerate(), win32.ERROR_ACCESS_DENIED)
	wantErrno(t, "another privilege", n.WithPrivilege(win32.SE_CREATE_SYMBOLIC_LINK_NAME, win32.API.Reenumerate), win32.ERROR_ACCESS_DENIED)
	wantErrno(t, "with the privilege", rescan(n), 0)
}

func TestDetachInvalidatesHandles(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}})
	disk, vol := drive(t, n, readWrite), openPath(t, n, `\\.\E:`, win32.GENERIC_READ)
	ok(t, n.Detach(1))
	// docs/develop/contract/calls.md#transient-errors.
	failIoctl(t, n, disk, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, 12, win32.ERROR_DEVICE_NOT_CONNECTED)
	failIoctl(t, n, vol, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, 12, win32.ERROR_NO_SUCH_DEVICE)
	if err := n.FlushFileBuffers(disk); !errors.Is(err, win32.ERROR_DEVICE_NOT_CONNECTED) {
		t.Errorf("FlushFileBuffers = %v, want ERROR_DEVICE_NOT_CONNECTED", err)
	}
	for _, h := range []win32.Handle{disk, vol} {
		if err := n.CloseHandle(h); err != nil {
			t.Errorf("CloseHandle of a handle of a removed disk = %v", err)
		}
	}
	if _, err := n.VolumeNameForMountPoint(`E:\`); !errors.Is(err, win32.ERROR_FILE_NOT_FOUND) {
		t.Errorf("VolumeNameForMountPoint of the letter of a removed volume = %v, want ERROR_FILE_NOT_FOUND", err)
	}
}

func wantReason(t *testing.T, n *Node, disk uint32, want uint16) {
	t.Helper()
	reasons, err := n.OfflineReasons()
	if got, ok := reasons[disk]; err != nil || !ok || got != want {
		t.Errorf("the reason of disk %d: %v, %v, want %d", disk, reasons, err, want)
	}
}

// A clone whose original was detached meanwhile is offline for the same reason until the node
// restarts, and then for the one by which it was offline before.
func TestOfflineReason(t *testing.T) {
	off := true
	n := blank(t, nodespec.Config{Windows: nodespec.Windows{SANPolicy: nodespec.SANOfflineAll}}, nodespec.Disk{Size: gib, Content: nodespec.ContentGPT})
	wantReason(t, n, 1, win32.VDSDiskOfflineReasonNone)
	arrived := attach(t, n, nodespec.Disk{Size: gib})
	wantReason(t, n, arrived, win32.VDSDiskOfflineReasonPolicy)
	asked := attach(t, n, nodespec.Disk{Size: gib, Offline: &off})
	wantReason(t, n, asked, win32.VDSDiskOfflineReasonPolicy)
	clone := attach(t, n, nodespec.Disk{Image: copyOf(t, n, 1)})
	wantReason(t, n, clone, win32.VDSDiskOfflineReasonCollision)
	ok(t, n.Detach(1))
	wantReason(t, n, clone, win32.VDSDiskOfflineReasonCollision)
	ok(t, n.Reboot())
	wantReason(t, n, clone, win32.VDSDiskOfflineReasonPolicy)
	if reasons, err := n.OfflineReasons(); err != nil || len(reasons) != 3 {
		t.Errorf("the reasons: %v, %v, want those of the 3 disks that are there", reasons, err)
	}
}

// A storage provider that lists nothing knows no disk either.
func TestOfflineReasonWithoutProvider(t *testing.T) {
	n := blank(t, nodespec.Config{World: behavior.In("", behavior.Windows{FormatKnows: behavior.FormatNever})}, nodespec.Disk{Size: gib})
	if reasons, err := n.OfflineReasons(); err != nil || len(reasons) != 0 {
		t.Errorf("%v, %v, want no disks", reasons, err)
	}
}

// copyOf returns the file of a copy of a disk of 1 GiB.
func copyOf(t *testing.T, n *Node, disk uint32) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clone")
	f, err := os.Create(file)
	ok(t, err)
	ok(t, errors.Join(kernel.CopyImage(f, image(t, n, disk)), f.Truncate(gib), f.Close()))
	return file
}

// Other programs hold a disk that arrives, but none that the node was made with.
func TestNewDisksAreHeld(t *testing.T) {
	for value, want := range map[string]error{behavior.NewDisksHeld: win32.ERROR_SHARING_VIOLATION, behavior.NewDisksFree: nil} {
		now := time.Unix(1e9, 0)
		n := startOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{Attach: nodespec.AttachSeen, NewDisks: value})}, kernel.Machine{Now: func() time.Time { return now }})
		if _, err := n.Attach(nodespec.Disk{Size: gib}); err != nil {
			t.Fatal(err)
		}
		openPath(t, n, `\\.\PhysicalDrive3`, 0) // without access to data
		openPath(t, n, `\\.\PhysicalDrive1`, readWrite)
		h, err := n.CreateFile(`\\.\PhysicalDrive3`, win32.GENERIC_READ, shareBoth, win32.OPEN_EXISTING, 0)
		if err != want {
			t.Errorf("%s: the new disk: %v, want %v", value, err, want)
		}
		if err == nil {
			ok(t, n.CloseHandle(h))
		}
		now = now.Add(kernel.ArrivalDelay)
		openPath(t, n, `\\.\PhysicalDrive3`, readWrite)
	}
}
