package cost

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

var update = flag.Bool("update", false, "write docs/evidence/calls.md")

const page = "../../docs/evidence/calls.md"

// world is a node with a blank disk, 1, besides the disks with a volume each, and its
// services.
type world struct {
	*services.Services
	counter
	emulated *emulated.Node
	node     *node.Node
	last     uint32 // the last disk with a volume
	fresh    string // the volume of disk 1, once there is one
	deep     string // a directory six names deep
}

const blank = 1

func open(t *testing.T, disks int, change func(*nodespec.Config)) *world {
	t.Helper()
	c := nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem, Size: 64 << 30}, {Size: 1 << 30}}, Log: slog.New(slog.DiscardHandler), Seed: 1}
	for range disks {
		c.Disks = append(c.Disks, nodespec.Disk{Size: 1 << 30, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{}}})
	}
	if change != nil {
		change(&c)
	}
	e, err := emulated.Open(c, emulated.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{emulated: e, last: uint32(disks) + blank, deep: `C:\var\lib\kubelet\plugins\example\volume`}
	n := node.New(w.over(e))
	n.Log, w.node = c.Log, n
	n.WorkingDirs = []string{`C:\var\lib\kubelet`}
	t.Cleanup(winfs.KeepSystemRoot(n)) // as the daemon does
	if w.Services, err = services.Open(n); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Filesystem.Mkdir(t.Context(), &filesystem.MkdirRequest{Path: w.deep}); err != nil {
		t.Fatal(err)
	}
	return w
}

// operation is a request, in an order in which each finds what it needs.
type operation struct {
	name    string
	perDisk int64                               // how many calls it may make for each disk of the node
	before  func(context.Context, *world) error // is not counted; may be nil
	run     func(context.Context, *world) error
}

// count returns how many calls the operation makes.
func (o operation) count(ctx context.Context, w *world) (int64, error) {
	if o.before != nil {
		if err := o.before(ctx, w); err != nil {
			return 0, err
		}
	}
	return w.count(func() error { return o.run(ctx, w) })
}

func err2[T any](_ T, err error) error { return err }

func operations() []operation {
	return []operation{
		{name: "PartitionDisk, new", run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: blank}))
		}},
		{name: "PartitionDisk, again", run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: blank}))
		}},
		{name: "GetDiskState", run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.GetDiskState(ctx, &disk.GetDiskStateRequest{DiskNumber: w.last}))
		}},
		{name: "SetDiskState, online, no change", run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: w.last, IsOnline: true}))
		}},
		{name: "SetDiskState, offline", run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: w.last}))
		}},
		{name: "SetDiskState, online", run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: w.last, IsOnline: true}))
		}},
		{name: "SetDiskReadOnly", run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskReadOnly(ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: w.last, IsReadOnly: true}))
		}},
		{name: "SetDiskReadOnly, writable", run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskReadOnly(ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: w.last}))
		}},
		{name: "GetDiskReadOnly", run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.GetDiskReadOnly(ctx, &disk.GetDiskReadOnlyRequest{DiskNumber: w.last}))
		}},
		{name: "GetDiskStats", run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: w.last}))
		}},
		{name: "ListDiskIDs", perDisk: 5, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{}))
		}},
		{name: "ListDiskLocations", perDisk: 4, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{}))
		}},
		{name: "ListVolumesOnDisk", run: func(ctx context.Context, w *world) error {
			out, err := w.Volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: blank})
			if err == nil && len(out.VolumeIDs) != 1 {
				err = fmt.Errorf("%d volumes", len(out.VolumeIDs))
			}
			if err == nil {
				w.fresh = out.VolumeIDs[0]
			}
			return err
		}},
		{name: "IsVolumeFormatted", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: w.fresh}))
		}},
		{name: "FormatVolume", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: w.fresh}))
		}},
		{name: "FormatVolume, again", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: w.fresh}))
		}},
		{name: "Rescan", perDisk: 8, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.Rescan(ctx, &disk.RescanRequest{}))
		}},
		{name: "GetDiskNumberFromVolumeID", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: w.fresh}))
		}},
		{name: "MountVolume", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: w.fresh, TargetPath: w.deep}))
		}},
		{name: "GetVolumeIDFromTargetPath", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: w.deep}))
		}},
		{name: "GetClosestVolumeIDFromTargetPath", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.GetClosestVolumeIDFromTargetPath(ctx, &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: w.deep}))
		}},
		{name: "GetVolumeStats", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeID: w.fresh}))
		}},
		{name: "ResizeVolume, no change", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: w.fresh}))
		}},
		{name: "WriteVolumeCache", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeID: w.fresh}))
		}},
		{name: "UnmountVolume", run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: w.fresh, TargetPath: w.deep}))
		}},
		{name: "Mkdir", run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: w.deep + `\new`}))
		}},
		{name: "PathExists", run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.PathExists(ctx, &filesystem.PathExistsRequest{Path: w.deep}))
		}},
		{name: "CreateSymlink", run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: w.deep + `\new`, TargetPath: w.deep + `\link`}))
		}},
		{name: "IsSymlink", run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: w.deep + `\link`}))
		}},
		{name: "Rmdir", run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: w.deep + `\link`}))
		}},
		{name: "RmdirContents, of one directory", run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.RmdirContents(ctx, &filesystem.RmdirContentsRequest{Path: w.deep}))
		}},
		{name: "Rmdir, with force", run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: w.deep, Force: true}))
		}},
		{name: "GetBIOSSerialNumber", run: func(ctx context.Context, w *world) error {
			return err2(w.System.GetBIOSSerialNumber(ctx, &system.GetBIOSSerialNumberRequest{}))
		}},
		{name: "GetService", run: func(ctx context.Context, w *world) error {
			return err2(w.System.GetService(ctx, &system.GetServiceRequest{Name: initiator}))
		}},
		{name: "StartService", run: func(ctx context.Context, w *world) error {
			return err2(w.System.StartService(ctx, &system.StartServiceRequest{Name: initiator}))
		}},
		{name: "AddTargetPortal", run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal()}))
		}},
		{name: "DiscoverTargetPortal", run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.DiscoverTargetPortal(ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal()}))
		}},
		{name: "ListTargetPortals", run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.ListTargetPortals(ctx, &iscsi.ListTargetPortalsRequest{}))
		}},
		{name: "ConnectTarget", run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.ConnectTarget(ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal(), IQN: iqn}))
		}},
		{name: "GetTargetDisks", run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.GetTargetDisks(ctx, &iscsi.GetTargetDisksRequest{TargetPortal: portal(), IQN: iqn}))
		}},
		{name: "SetMutualChapSecret", run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.SetMutualChapSecret(ctx, &iscsi.SetMutualChapSecretRequest{MutualChapSecret: "for-tests-only"}))
		}},
		{name: "DisconnectTarget", before: partitionTarget, run: disconnect},
		{name: "RemoveTargetPortal", run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.RemoveTargetPortal(ctx, &iscsi.RemoveTargetPortalRequest{TargetPortal: portal()}))
		}},
		{name: "StopService", run: func(ctx context.Context, w *world) error {
			return err2(w.System.StopService(ctx, &system.StopServiceRequest{Name: initiator}))
		}},
	}
}

// The iSCSI target of every simulated node, and the service that it needs.
const (
	initiator = "MSiSCSI"
	iqn       = "iqn.2025-01.com.example:data"
)

func disconnect(ctx context.Context, w *world) error {
	return err2(w.ISCSI.DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: portal(), IQN: iqn}))
}

// partitionTarget partitions the disk of the target.
func partitionTarget(ctx context.Context, w *world) error {
	out, err := w.ISCSI.GetTargetDisks(ctx, &iscsi.GetTargetDisksRequest{TargetPortal: portal(), IQN: iqn})
	if err != nil || len(out.DiskIDs) != 1 {
		return fmt.Errorf("disks of the target: %v, %w", out, err)
	}
	n, err := strconv.ParseUint(out.DiskIDs[0], 10, 32)
	if err != nil {
		return err
	}
	return err2(w.Disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: uint32(n)}))
}

func portal() *iscsi.TargetPortal {
	return &iscsi.TargetPortal{TargetAddress: "192.0.2.10", TargetPort: 3260}
}

// cost is what an operation took.
type cost struct {
	calls  int64
	waited time.Duration // on the node's clock
}

// measure returns the cost of each operation on a node with so many disks. With search, no
// partition has a device of its own.
func measure(t *testing.T, disks int, search bool) []cost {
	t.Helper()
	var all []cost
	synctest.Test(t, func(t *testing.T) {
		w := open(t, disks, func(c *nodespec.Config) {
			if search {
				c.Automount = nodespec.AutomountEnabled // otherwise a new volume is only found by its place
			}
		})
		if search {
			w.before(func(c *win32.Call) error {
				if c.Name == "CreateFile" && strings.HasPrefix(c.Path, `\\?\Harddisk`) {
					return win32.ERROR_FILE_NOT_FOUND
				}
				return c.Do()
			})
		}
		for _, o := range operations() {
			begun := time.Now()
			n, err := o.count(t.Context(), w)
			if err != nil {
				t.Fatalf("%s with %d disks: %v", o.name, disks, err)
			}
			all = append(all, cost{n, time.Since(begun)})
		}
	})
	return all
}

// TestCallsPage fails if an operation on one disk or volume costs more on a larger node, or a
// list more than its perDisk calls for each disk, and compares the counts with the page.
func TestCallsPage(t *testing.T) {
	sizes := []int{1, 8, 64, 256, 1000}
	var costs, searches [][]cost
	for _, n := range sizes {
		costs = append(costs, measure(t, n, false))
		if n <= 256 {
			searches = append(searches, measure(t, n, true))
		}
	}
	var b bytes.Buffer
	b.WriteString(head)
	for i, o := range operations() {
		fmt.Fprintf(&b, "| %s |", o.name)
		for j, n := range sizes {
			one, now := costs[0][i], costs[j][i]
			fmt.Fprintf(&b, " %d |", now.calls)
			if limit := o.perDisk * int64(n-sizes[0]); now.calls-one.calls > limit {
				t.Errorf("%s: %d calls with 1 disk and %d with %d, want at most %d more", o.name, one.calls, now.calls, n, limit)
			}
			if now.waited != one.waited && o.perDisk == 0 {
				t.Errorf("%s waits for %v with 1 disk and %v with %d", o.name, one.waited, now.waited, n)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(headSearch)
	for i, o := range operations() {
		if last := len(searches) - 1; o.perDisk > 0 || searches[last][i].calls == costs[last][i].calls {
			continue
		}
		fmt.Fprintf(&b, "| %s |", o.name)
		for j := range searches {
			fmt.Fprintf(&b, " %d |", searches[j][i].calls)
		}
		b.WriteString("\n")
	}
	for _, table := range []struct {
		head       string
		operations []operation
		measure    func(*testing.T, int) []int64
	}{
		{headBlank, blankOperations(), measureBlank},
		{headClone, cloneOperations(), measureClone},
	} {
		b.WriteString(table.head)
		counts := make([][]int64, len(sizes[:4]))
		for j, n := range sizes[:4] {
			counts[j] = table.measure(t, n)
		}
		for i, o := range table.operations {
			fmt.Fprintf(&b, "| %s |", o.name)
			for j, n := range sizes[:4] {
				fmt.Fprintf(&b, " %d |", counts[j][i])
				if limit := counts[0][i] + o.perDisk*int64(n-sizes[0]); counts[j][i] > limit {
					t.Errorf("%s: %d calls with %d disks, want at most %d", o.name, counts[j][i], n, limit)
				}
			}
			b.WriteString("\n")
		}
	}
	b.WriteString(headSMB)
	mappings := []int{1, 100, 5000}
	var shares [][]int64
	for _, n := range mappings {
		shares = append(shares, measureShare(t, n))
	}
	for i, o := range shareOperations() {
		fmt.Fprintf(&b, "| %s |", o.name)
		for j := range mappings {
			fmt.Fprintf(&b, " %d |", shares[j][i])
			if shares[j][i] != shares[0][i] {
				t.Errorf("%s: %d calls with 1 mapping and %d with %d", o.name, shares[0][i], shares[j][i], mappings[j])
			}
		}
		b.WriteString("\n")
	}
	if *update {
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(page); err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("%s is not current (%v): run make generate", page, err)
	}
}

const headSearch = `
The same on a Windows whose partitions cannot be opened by their place, so that a disk's
volumes are searched for among all volumes of the node, with automatic mounting. Operations
that are not listed cost what they cost above.

| operation | 1 | 8 | 64 | 256 |
|---|---|---|---|---|
`

const headBlank = `
The same for a disk without a partition table, whose volumes are always searched for: a file
system may lie on the whole disk.

| operation | 1 | 8 | 64 | 256 |
|---|---|---|---|---|
`

const headClone = `
The same for a disk that is a read-only clone of another one, so Windows gives it an identity of
its own when it goes online. The disks with the old identity are looked for, among all disks,
for the log. If Windows refuses, because the clone stays read-only, they are looked for, for the
error.

| operation | 1 | 8 | 64 | 256 |
|---|---|---|---|---|
`

const headSMB = `
The same for a request about one share, on nodes with as many mappings of other shares. The
list of mappings is one call of NetUseEnum, whose buffer grows with them. WMI, which is the
default and is not counted here, returns 100 mappings with each call of
IEnumWbemClassObject::Next; each of their three properties is then one more call, within the process.

| operation | 1 | 100 | 5000 |
|---|---|---|---|
`

const head = `<!-- Code generated by make generate from the counts of TestCallsPage in test/cost. DO NOT EDIT. -->

# Calls of Windows

How many calls of Windows an operation makes, on simulated nodes with as many disks
with a volume as the column says, besides the system disk and the blank disk that is partitioned. A method
of win32.API counts as many calls as the native side makes for it. The path is six names
deep, in the working directory. A format counts as one call, however many calls WMI or fmifs.dll make for it.

Waiting is counted too: in the default world of the simulated node a volume arrives a moment
after its partition, and a format is tried until WMI knows the volume; after a Rescan, it knows it
at once. What the figures mean, and what
may block, is in [performance](../performance.md).

| operation | 1 | 8 | 64 | 256 | 1000 |
|---|---|---|---|---|---|
`
