package cost

import (
	"context"
	"fmt"
	"log/slog"
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
	name      string
	calls     int64                               // on a node with one disk with a volume
	reads     int64                               // how many of them read a disk
	perDisk   int64                               // how many more it may make for each further disk
	searches  int64                               // calls where partitions cannot be opened by their place, 0 for the same
	perVolume int64                               // then, how many more for each further volume
	before    func(context.Context, *world) error // is not counted; may be nil
	run       func(context.Context, *world) error
}

// count returns how many calls the operation makes.
func (o operation) count(ctx context.Context, w *world) (int64, error) {
	if o.before != nil {
		if err := o.before(ctx, w); err != nil {
			return 0, err
		}
	}
	w.reads.Store(0)
	return w.count(func() error { return o.run(ctx, w) })
}

func err2[T any](_ T, err error) error { return err }

func operations() []operation {
	return []operation{
		{name: "PartitionDisk, new", calls: 362, reads: 230, searches: 368, perVolume: 4, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: blank}))
		}},
		{name: "PartitionDisk, again", calls: 34, searches: 59, perVolume: 8, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: blank}))
		}},
		{name: "GetDiskState", calls: 3, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.GetDiskState(ctx, &disk.GetDiskStateRequest{DiskNumber: w.last}))
		}},
		{name: "SetDiskState, online, no change", calls: 19, searches: 31, perVolume: 4, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: w.last, IsOnline: true}))
		}},
		{name: "SetDiskState, offline", calls: 47, searches: 60, perVolume: 4, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: w.last}))
		}},
		{name: "SetDiskState, online", calls: 31, searches: 57, perVolume: 8, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: w.last, IsOnline: true}))
		}},
		{name: "SetDiskReadOnly", calls: 37, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskReadOnly(ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: w.last, IsReadOnly: true}))
		}},
		{name: "SetDiskReadOnly, writable", calls: 13, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.SetDiskReadOnly(ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: w.last}))
		}},
		{name: "GetDiskReadOnly", calls: 4, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.GetDiskReadOnly(ctx, &disk.GetDiskReadOnlyRequest{DiskNumber: w.last}))
		}},
		{name: "GetDiskStats", calls: 3, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: w.last}))
		}},
		{name: "ListDiskIDs", calls: 17, perDisk: 5, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{}))
		}},
		// 7 for each, and 4 more from 256 disks on, some of which have one LUN.
		{name: "ListDiskLocations", calls: 48, perDisk: 20, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{}))
		}},
		{name: "ListVolumesOnDisk", calls: 10, searches: 24, perVolume: 4, run: func(ctx context.Context, w *world) error {
			out, err := w.Volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: blank})
			if err == nil && len(out.VolumeIDs) != 1 {
				err = fmt.Errorf("%d volumes", len(out.VolumeIDs))
			}
			if err == nil {
				w.fresh = out.VolumeIDs[0]
			}
			return err
		}},
		{name: "IsVolumeFormatted", calls: 126, reads: 109, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: w.fresh}))
		}},
		{name: "FormatVolume", calls: 595, reads: 436, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: w.fresh}))
		}},
		{name: "FormatVolume, again", calls: 10, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: w.fresh}))
		}},
		{name: "Rescan", calls: 35, perDisk: 8, run: func(ctx context.Context, w *world) error {
			return err2(w.Disk.Rescan(ctx, &disk.RescanRequest{}))
		}},
		{name: "GetDiskNumberFromVolumeID", calls: 3, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: w.fresh}))
		}},
		{name: "MountVolume", calls: 50, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: w.fresh, TargetPath: w.deep}))
		}},
		{name: "GetVolumeIDFromTargetPath", calls: 9, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: w.deep}))
		}},
		{name: "GetClosestVolumeIDFromTargetPath", calls: 9, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.GetClosestVolumeIDFromTargetPath(ctx, &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: w.deep}))
		}},
		{name: "GetVolumeStats", calls: 4, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeID: w.fresh}))
		}},
		{name: "ResizeVolume, no change", calls: 23, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: w.fresh}))
		}},
		{name: "WriteVolumeCache", calls: 6, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeID: w.fresh}))
		}},
		{name: "UnmountVolume", calls: 18, run: func(ctx context.Context, w *world) error {
			return err2(w.Volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: w.fresh, TargetPath: w.deep}))
		}},
		{name: "Mkdir", calls: 7, run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: w.deep + `\new`}))
		}},
		{name: "PathExists", calls: 2, run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.PathExists(ctx, &filesystem.PathExistsRequest{Path: w.deep}))
		}},
		{name: "CreateSymlink", calls: 16, run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: w.deep + `\new`, TargetPath: w.deep + `\link`}))
		}},
		{name: "IsSymlink", calls: 6, run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: w.deep + `\link`}))
		}},
		{name: "Rmdir", calls: 14, run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: w.deep + `\link`}))
		}},
		{name: "RmdirContents, of one directory", calls: 28, run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.RmdirContents(ctx, &filesystem.RmdirContentsRequest{Path: w.deep}))
		}},
		{name: "Rmdir, with force", calls: 17, run: func(ctx context.Context, w *world) error {
			return err2(w.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: w.deep, Force: true}))
		}},
		{name: "GetBIOSSerialNumber", calls: 2, run: func(ctx context.Context, w *world) error {
			return err2(w.System.GetBIOSSerialNumber(ctx, &system.GetBIOSSerialNumberRequest{}))
		}},
		{name: "GetService", calls: 10, run: func(ctx context.Context, w *world) error {
			return err2(w.System.GetService(ctx, &system.GetServiceRequest{Name: initiator}))
		}},
		{name: "StartService", calls: 15, run: func(ctx context.Context, w *world) error {
			return err2(w.System.StartService(ctx, &system.StartServiceRequest{Name: initiator}))
		}},
		{name: "AddTargetPortal", calls: 2, run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal()}))
		}},
		{name: "DiscoverTargetPortal", calls: 5, run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.DiscoverTargetPortal(ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal()}))
		}},
		{name: "ListTargetPortals", calls: 1, run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.ListTargetPortals(ctx, &iscsi.ListTargetPortalsRequest{}))
		}},
		{name: "ConnectTarget", calls: 8, run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.ConnectTarget(ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal(), IQN: iqn}))
		}},
		{name: "GetTargetDisks", calls: 2, run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.GetTargetDisks(ctx, &iscsi.GetTargetDisksRequest{TargetPortal: portal(), IQN: iqn}))
		}},
		{name: "SetMutualChapSecret", calls: 1, run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.SetMutualChapSecret(ctx, &iscsi.SetMutualChapSecretRequest{MutualChapSecret: "for-tests-only"}))
		}},
		{name: "DisconnectTarget", calls: 44, searches: 61, perVolume: 4, before: partitionTarget, run: disconnect},
		{name: "RemoveTargetPortal", calls: 2, run: func(ctx context.Context, w *world) error {
			return err2(w.ISCSI.RemoveTargetPortal(ctx, &iscsi.RemoveTargetPortalRequest{TargetPortal: portal()}))
		}},
		{name: "StopService", calls: 15, run: func(ctx context.Context, w *world) error {
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
	reads  int64
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
			all = append(all, cost{n, w.reads.Load(), time.Since(begun)})
		}
	})
	return all
}

// Each operation makes as many calls as its table says. One on one disk, volume or share costs
// as much on a larger node, and a list at most its perDisk calls for each disk more.
func TestCalls(t *testing.T) {
	sizes := []int{1, 8, 64, 256, 1000}
	var first []cost
	for _, disks := range sizes {
		costs := measure(t, disks, false)
		if first == nil {
			first = costs
		}
		for i, o := range operations() {
			hold(t, o.name, costs[i].calls, o.calls, o.perDisk, disks)
			if costs[i].reads != o.reads {
				t.Errorf("%s: %d reads of a disk with %d, want %d", o.name, costs[i].reads, disks, o.reads)
			}
			if costs[i].waited != first[i].waited && o.perDisk == 0 {
				t.Errorf("%s waits for %v with 1 disk and %v with %d", o.name, first[i].waited, costs[i].waited, disks)
			}
		}
	}
	for _, disks := range sizes[:4] {
		for i, c := range measure(t, disks, true) {
			if o := operations()[i]; o.searches > 0 {
				hold(t, o.name+", by a search", c.calls, o.searches, o.perVolume, disks)
			}
		}
		for i, calls := range measureBlank(t, disks) {
			o := blankOperations()[i]
			hold(t, o.name+" of a blank disk", calls, o.calls, o.perDisk, disks)
		}
		for i, calls := range measureClone(t, disks) {
			o := cloneOperations()[i]
			hold(t, o.name+" of a clone", calls, o.calls, o.perDisk, disks)
		}
	}
	for _, mappings := range []int{1, 100, 5000} {
		for i, calls := range measureShare(t, mappings) {
			o := shareOperations()[i]
			hold(t, o.name, calls, o.calls, 0, mappings)
		}
	}
}

// hold compares the calls of an operation on a node with so many disks or mappings with those
// on a node with one, and what each more may cost.
func hold(t *testing.T, name string, calls, withOne, each int64, disks int) {
	t.Helper()
	if most := withOne + each*int64(disks-1); calls > most || disks == 1 && calls != withOne {
		t.Errorf("%s: %d calls with %d, want %d with 1 and at most %d for each more", name, calls, disks, withOne, each)
	}
}
