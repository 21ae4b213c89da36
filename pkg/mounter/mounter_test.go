package mounter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

func options() mounter.Options { return mounter.Options{} }

// refused checks the kind of an error, and that it says a text.
func refused(t *testing.T, what string, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("%s: %v, want %v that says %q", what, err, kind, text)
	}
}

func number(n uint32) *uint32 { return &n }

// fakeClock passes without waiting.
type fakeClock struct {
	now    time.Time
	sleeps int
	each   func(sleeps int)
}

func (c *fakeClock) Now() time.Time { return c.now }

func (c *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.now = c.now.Add(d)
	c.sleeps++
	if c.each != nil {
		c.each(c.sleeps)
	}
	return ctx.Err()
}

func TestIdentities(t *testing.T) {
	x := newWorld(t, allPipes)
	attach := func(d simnode.Disk) uint32 {
		t.Helper()
		d.Size = gib
		info, err := x.node.AttachDisk(d)
		if err != nil {
			t.Fatal(err)
		}
		return info.Number
	}
	ebs := attach(simnode.Disk{Bus: "nvme", Serial: "vol02190fee5da4d75e3_00000001."})
	attach(simnode.Disk{Bus: "nvme", Serial: "vol02190fee5da4d75e3f_00000001."})
	gce := attach(simnode.Disk{Identifiers: []simnode.Identifier{{CodeSet: "ascii", Type: 1, Text: "Google  pvc-1"}}})
	attach(simnode.Disk{Identifiers: []simnode.Identifier{{CodeSet: "ascii", Type: 1, Text: "Google  pvc-10"}}})
	eui := attach(simnode.Disk{Bus: "nvme", Serial: "1122_3344_5566_7788_0000_0000_0000_0000."})
	vsphere := attach(simnode.Disk{Identifiers: []simnode.Identifier{{CodeSet: "binary", Type: 3, Hex: "6000c29a98d05e384a43f0ef189aaf5a"}}})
	lun := attach(simnode.Disk{Serial: "a", Address: &simnode.Address{Port: 5, Lun: 7}})
	attach(simnode.Disk{Serial: "b", Address: &simnode.Address{Port: 6, Lun: 7}})
	alone := attach(simnode.Disk{Serial: "c", Address: &simnode.Address{Port: 6, Lun: 9}})
	attach(simnode.Disk{Serial: "twin"})
	attach(simnode.Disk{Serial: "twin"})

	for _, c := range []struct {
		name string
		id   mounter.Identity
		want uint32
	}{
		{"EBS", mounter.EBS("vol-02190fee5da4d75e3"), ebs},
		{"GCE", mounter.GCE("pvc-1"), gce},
		{"GCE, NVMe", mounter.Identity{EUI64: 0x1122334455667788}, eui},
		{"vSphere", mounter.VSphere("6000C29a-98d0-5e38-4a43-f0ef189aaf5a"), vsphere},
		{"LUN and adapter", mounter.Identity{LUN: number(7), Adapter: number(5)}, lun},
		{"LUN and another adapter", mounter.Identity{LUN: number(7), NotAdapter: []uint32{6, 0}}, lun},
		{"LUN and serial number", mounter.Identity{LUN: number(7), SerialNumber: "a"}, lun},
		{"LUN alone", mounter.AzureLUN(9), alone},
	} {
		d, err := x.m.FindDisk(x.soon(), c.id)
		if err != nil || d.Number != c.want || d.Bytes != gib {
			t.Errorf("%s: disk %v of %d bytes, %v, want %d", c.name, d, d.Bytes, err, c.want)
		}
	}
	// A disk that was detached may be listed with the LUN of another one, until Windows looks.
	for id, want := range map[string]int{"c": 0, "": 1} {
		before := x.countOf("Rescan")
		if _, err := x.m.FindDisk(x.soon(), mounter.Identity{SerialNumber: id, LUN: number(9)}); err != nil || x.countOf("Rescan") != before+want {
			t.Errorf("serial number %q: %d rescans, %v, want %d", id, x.countOf("Rescan")-before, err, want)
		}
	}
	for _, c := range []struct {
		name string
		id   mounter.Identity
		kind error
		text string
	}{
		{"two that fit", mounter.Identity{SerialNumber: "twin"}, hosterr.ErrFailedPrecondition, "2 disks fit"},
		{"two with a LUN", mounter.AzureLUN(7), hosterr.ErrFailedPrecondition, "2 disks fit"},
		{"nothing", mounter.Identity{}, hosterr.ErrInvalid, "is empty"},
		{"an adapter alone", mounter.Identity{Adapter: number(5)}, hosterr.ErrInvalid, "is empty"},
	} {
		_, err := x.m.FindDisk(x.soon(), c.id)
		refused(t, c.name, err, c.kind, c.text)
	}
}

// A LUN alone is refused where the proxy lists the disks of Windows, too. The disk with the
// kubelet's directory is never found by its place.
func TestDisksOfWindowsAreNotFound(t *testing.T) {
	osDisk := func(c *simnode.Config) {
		c.Disks = []simnode.Disk{{Size: 40 * gib, Content: nodespec.ContentGPTNoMSR, Partitions: []simnode.Partition{{FileSystem: "NTFS", Letter: "C"}}, Address: &simnode.Address{}}}
	}
	for _, w := range []way{inProcess, allPipes, v1Pipes, existing} {
		x := newWorld(t, w, osDisk)
		ctx, cancel := context.WithCancel(t.Context())
		m := x.mounter(x.open(), mounter.Options{Clock: &fakeClock{each: func(n int) {
			if n == 100 {
				cancel()
			}
		}}})
		_, err := m.FindDisk(ctx, mounter.AzureLUN(0))
		if w.apis != nil {
			text := "kubelet's directory"
			if w.existing {
				text = "a LUN alone may find one of them"
			}
			refused(t, w.name, err, hosterr.ErrUnimplemented, text)
			if hint := hosterr.HintOf(err); !strings.Contains(hint, "NotAdapter") {
				t.Errorf("hint %q", hint)
			}
		} else {
			refused(t, w.name, err, hosterr.ErrUnavailable, "none of")
		}
		cancel()
	}
}

// FindDisk waits for a disk. It rescans once, and then every 5 seconds.
func TestFindDiskWaits(t *testing.T) {
	x := newWorld(t, allPipes)
	clock := &fakeClock{}
	clock.each = func(n int) {
		if n == 50 { // 12.5 s
			x.attach()
		}
	}
	m := x.mounter(x.open(), mounter.Options{Clock: clock})
	d, err := m.FindDisk(t.Context(), mounter.EBS("vol-02190fee5da4d75e3"))
	if err != nil || d.Bytes != gib {
		t.Fatalf("disk %v, %v", d, err)
	}
	if n := x.countOf("Rescan"); n < 3 || n > 4 { // at 0, 5 and 10 s, and at 15 s if the disk needs one
		t.Errorf("%d rescans in %d looks, want one every 5 s", n, clock.sleeps)
	}
	m = x.mounter(x.conn, mounter.Options{Clock: clock, Arrival: 7 * time.Second})
	began := clock.Now()
	_, err = m.FindDisk(t.Context(), mounter.EBS("vol-1"))
	refused(t, "no disk arrives", err, hosterr.ErrUnavailable, "none of")
	if waited := clock.Now().Sub(began); waited != 7*time.Second {
		t.Errorf("FindDisk waits %s for a disk, want Arrival", waited)
	}
}

// The number of a disk is that of another one when it is used.
func TestDiskIsLookedAtAgain(t *testing.T) {
	for _, w := range ways() {
		x := newWorld(t, w)
		first := x.attach()
		d, err := x.m.FindDisk(x.soon(), mounter.EBS("vol-02190fee5da4d75e3"))
		if err != nil {
			t.Fatal(err)
		}
		if err := x.node.DetachDisk(first.Number); err != nil {
			t.Fatal(err)
		}
		_, err = x.m.StageDisk(x.soon(), d, staging, mounter.StageOptions{Format: mounter.IfProxySaysUnformatted})
		refused(t, w.name+": no disk", err, hosterr.ErrUnavailable, "not attached")
		if _, err := x.node.AttachDisk(simnode.Disk{Number: &first.Number, Size: gib, Serial: "other"}); err != nil {
			t.Fatal(err)
		}
		if err := x.node.AwaitDisk(first.Number); err != nil {
			t.Fatal(err)
		}
		_, err = x.m.StageDisk(x.soon(), d, staging, mounter.StageOptions{Format: mounter.IfProxySaysUnformatted})
		refused(t, w.name+": another disk", err, hosterr.ErrUnavailable, "another disk now")
		if s := x.state().Disks[first.Number]; s.Style != "RAW" {
			t.Errorf("%s: the other disk is %s", w.name, s.Style)
		}
	}
	x := newWorld(t, inProcess)
	_, err := x.m.StageDisk(x.soon(), mounter.Disk{Number: 1}, staging, mounter.StageOptions{})
	refused(t, "a disk that was not found", err, hosterr.ErrInvalid, "FindDisk")
}

// The number of a disk is that of another one when its volumes are listed, so they are the other one's.
func TestVolumesOfAnotherDisk(t *testing.T) {
	id := mounter.Identity{SerialNumber: "mine"}
	stage := func(x *world, d mounter.Disk) error {
		_, err := x.m.StageDisk(x.soon(), d, staging, mounter.StageOptions{Format: mounter.IfProxySaysUnformatted})
		return err
	}
	unstage := func(x *world, _ mounter.Disk) error {
		return x.m.UnstageDisk(x.soon(), staging, mounter.UnstageOptions{Offline: &id})
	}
	volume := func(fileSystem string) simnode.Disk {
		return simnode.Disk{Content: nodespec.ContentGPTNoMSR, Partitions: []simnode.Partition{{FileSystem: fileSystem}}}
	}
	for _, w := range []way{allPipes, existing} {
		for _, c := range []struct {
			name  string
			do    func(*world, mounter.Disk) error
			other simnode.Disk
		}{
			{"stage over a blank disk", stage, simnode.Disk{}},
			{"stage over an unformatted volume", stage, volume("")},
			{"stage over a volume", stage, volume("NTFS")},
			{"unstage", unstage, volume("NTFS")},
		} {
			x := newWorld(t, w)
			first, err := x.node.AttachDisk(simnode.Disk{Size: gib, Serial: "mine"})
			if err != nil {
				t.Fatal(err)
			}
			d, err := x.m.FindDisk(x.soon(), id)
			if err != nil {
				t.Fatal(err)
			}
			look := func() (s string) {
				state := x.state()
				for _, v := range state.Volumes {
					s += fmt.Sprintln(v.ID, v.FileSystem)
				}
				return s + fmt.Sprintln(state.Disks[first.Number].Style, state.Disks[first.Number].Online, state.Mounts)
			}
			before := ""
			x.before = func(_ int, method string) error {
				if path.Base(method) != "ListVolumesOnDisk" {
					return nil
				}
				x.before = nil
				online := false
				c.other.Number, c.other.Size, c.other.Serial, c.other.Offline = &first.Number, gib, "other", &online
				err := x.node.DetachDisk(first.Number)
				if err == nil {
					_, err = x.node.AttachDisk(c.other)
				}
				if err == nil {
					err = x.node.AwaitDisk(first.Number)
				}
				before = look()
				return err
			}
			refused(t, w.name+": "+c.name, c.do(x, d), hosterr.ErrUnavailable, "another disk now")
			if now := look(); now != before {
				t.Errorf("%s: %s changed\n%sto\n%s", w.name, c.name, before, now)
			}
		}
	}
}

// The number of a disk is that of another one when the call that changes it arrives. The other one
// may share an identifier with it.
func TestDiskIsComparedByTheCall(t *testing.T) {
	id := mounter.Identity{SerialNumber: "mine"}
	for _, disk := range []simnode.Disk{
		{Size: gib, Serial: "mine"},
		{Size: gib, Serial: "mine", Identifiers: []nodespec.Identifier{{CodeSet: "ascii", Type: 1, Text: "Google  mine"}}},
		{Size: gib, Serial: "mine", Identifiers: []nodespec.Identifier{{CodeSet: "binary", Type: 6, Hex: "00000001"}, {CodeSet: "binary", Type: 3, Hex: "61"}}}, // a group's is first
	} {
		for _, call := range []string{"SetDiskState", "PartitionDisk"} {
			x := newWorld(t, allPipes)
			first, err := x.node.AttachDisk(disk)
			if err != nil {
				t.Fatal(err)
			}
			if err := x.node.AwaitDisk(first.Number); err != nil {
				t.Fatal(err)
			}
			d, err := x.m.FindDisk(x.soon(), id)
			if err != nil {
				t.Fatal(err)
			}
			offline := true
			x.before = func(_ int, method string) error {
				if path.Base(method) != call {
					return nil
				}
				if err := x.node.DetachDisk(first.Number); err != nil {
					return err
				}
				if _, err := x.node.AttachDisk(simnode.Disk{Number: &first.Number, Size: gib, Serial: "other", Identifiers: disk.Identifiers, Offline: &offline}); err != nil {
					return err
				}
				return x.node.AwaitDisk(first.Number)
			}
			_, err = x.m.StageDisk(x.soon(), d, staging, mounter.StageOptions{})
			refused(t, call, err, hosterr.ErrFailedPrecondition, "is not the expected one")
			if s := x.state().Disks[first.Number]; s.Style != "RAW" || s.Online || s.Serial != "other" {
				t.Errorf("%s: the other disk is %+v, want it offline and RAW", call, s)
			}
			x.before = nil
			if err := x.node.DetachDisk(first.Number); err != nil {
				t.Fatal(err)
			}
			if _, err := x.node.AttachDisk(disk); err != nil {
				t.Fatal(err)
			}
			if d, err = x.m.FindDisk(x.soon(), id); err == nil {
				_, err = x.m.StageDisk(x.soon(), d, staging, mounter.StageOptions{})
			}
			if err != nil {
				t.Errorf("%s: the disk itself: %v", call, err)
			}
		}
	}
}

// Azure's NVMe disks have no LUN in the published API, and may have neither a serial number nor an
// identifier of page 83h.
func TestAzureNVMeDisks(t *testing.T) {
	nvme := func(namespace uint32) simnode.Disk {
		return simnode.Disk{Size: gib, Bus: "nvme", Vendor: "NVMe", Product: "MSFT NVMe Accelerator v1.0", Namespace: namespace, Location: "Integrated : Bus 12606208 : Device 0 : Function 0 : Adapter 0"}
	}
	attach := func(x *world, d simnode.Disk) uint32 {
		t.Helper()
		info, err := x.node.AttachDisk(d)
		if err == nil {
			err = x.node.AwaitDisk(info.Number)
		}
		if err != nil {
			t.Fatal(err)
		}
		return info.Number
	}
	oldDisk := way{name: "old pipe of disks", pipes: true, apis: append(slices.Clone(v13), "volume/v2alpha1")}
	for _, w := range []way{inProcess, allPipes, oldDisk, existing} {
		t.Run(w.name, func(t *testing.T) {
			x := newWorld(t, w, func(c *simnode.Config) { c.Disks = []simnode.Disk{{Content: nodespec.ContentSystem}} })
			attach(x, nvme(1))
			want := attach(x, nvme(2))
			attach(x, simnode.Disk{Size: gib, Bus: "iscsi", Serial: "i", Address: &simnode.Address{Port: 3, Lun: 1}})
			d, err := x.m.FindDisk(x.soon(), mounter.AzureLUN(1))
			switch w.name {
			case existing.name:
				refused(t, "the existing proxy", err, hosterr.ErrUnimplemented, "a LUN alone")
				return
			case oldDisk.name:
				refused(t, "old pipes", err, hosterr.ErrUnimplemented, "has no LUN, as NVMe disks of Azure")
				return
			}
			if err != nil || d.Number != want {
				t.Fatalf("FindDisk = %v, %v, want disk %d", d, err, want)
			}
			if _, err := x.m.StageDisk(x.soon(), d, staging, mounter.StageOptions{}); err != nil {
				t.Error(err)
			}

			// Another disk gets the number.
			third := attach(x, nvme(3))
			if d, err = x.m.FindDisk(x.soon(), mounter.AzureLUN(2)); err != nil || d.Number != third {
				t.Fatalf("FindDisk = %v, %v, want disk %d", d, err, third)
			}
			if err := x.node.DetachDisk(third); err != nil {
				t.Fatal(err)
			}
			other := nvme(4)
			other.Number = &third
			attach(x, other)
			_, err = x.m.StageDisk(x.soon(), d, target, mounter.StageOptions{})
			refused(t, "another disk", err, hosterr.ErrUnavailable, "another disk now")
			if s := x.state().Disks[third].Style; s != "RAW" {
				t.Errorf("the other disk is %s, want RAW", s)
			}

			attach(x, simnode.Disk{Size: gib, Serial: "s", Address: &simnode.Address{Port: 5, Lun: 3}})
			_, err = x.m.FindDisk(x.soon(), mounter.AzureLUN(3))
			refused(t, "two that fit", err, hosterr.ErrFailedPrecondition, "2 disks fit")

			attach(x, nvme(11))
			ctx, cancel := context.WithCancel(t.Context())
			m := x.mounter(x.open(), mounter.Options{Clock: &fakeClock{each: func(int) { cancel() }}})
			_, err = m.FindDisk(ctx, mounter.AzureLUN(10))
			refused(t, "a LUN that Windows does not show", err, hosterr.ErrUnavailable, "none of")
			if hint := hosterr.HintOf(err); !strings.Contains(hint, "LUNs up to 8") {
				t.Errorf("hint %q, want which LUNs are known", hint)
			}
		})
	}
}

// What is formatted, by the option and by what the proxy guarantees.
func TestFormat(t *testing.T) {
	data := simnode.Disk{Size: gib, Serial: "d", Content: nodespec.ContentGPTNoMSR, Partitions: []simnode.Partition{{FileSystem: "NTFS"}}}
	blank := simnode.Disk{Size: gib, Serial: "d"}
	foreign := simnode.Disk{Size: gib, Serial: "d", Bytes: []simnode.Bytes{{At: 1080, Data: []byte{0x53, 0xEF}}}} // ext4
	for _, c := range []struct {
		name   string
		way    way
		disk   simnode.Disk
		format mounter.Format
		unit   uint32
		kind   error // nil: staged
		text   string
	}{
		{"blank", allPipes, blank, mounter.IfBlank, 0, nil, ""},
		{"data", allPipes, data, mounter.Never, 0, nil, ""},
		{"blank, never", allPipes, blank, mounter.Never, 0, hosterr.ErrFailedPrecondition, "not to be formatted"},
		{"foreign", allPipes, foreign, mounter.IfProxySaysUnformatted, 0, hosterr.ErrFailedPrecondition, ""},
		{"old proxy, data", existing, data, mounter.IfBlank, 0, nil, ""},
		{"old proxy, blank", existing, blank, mounter.IfBlank, 0, hosterr.ErrUnimplemented, "cannot tell whether it is blank"},
		{"old proxy, foreign", existing, foreign, mounter.IfBlank, 0, hosterr.ErrUnimplemented, "cannot tell whether it is blank"},
		{"old proxy, blank, by name", existing, blank, mounter.IfProxySaysUnformatted, 0, nil, ""},
		{"unknown option", allPipes, blank, 9, 0, hosterr.ErrInvalid, "want IfBlank"},
		{"blank, in units", allPipes, blank, mounter.IfBlank, 64 << 10, nil, ""},
		{"blank, in no units", allPipes, blank, mounter.IfBlank, 1000, hosterr.ErrInvalid, "1000"},
		{"old version, blank, in units", v1Pipes, blank, mounter.IfBlank, 64 << 10, hosterr.ErrUnimplemented, "AllocationUnitBytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newWorld(t, c.way)
			info, err := x.node.AttachDisk(c.disk)
			if err != nil {
				t.Fatal(err)
			}
			d, err := x.m.FindDisk(x.soon(), mounter.Identity{SerialNumber: "d"})
			if err != nil {
				t.Fatal(err)
			}
			before := x.state().Disks[info.Number].Style
			_, err = x.m.StageDisk(x.soon(), d, staging, mounter.StageOptions{Format: c.format, AllocationUnit: c.unit, FSType: "NTFS"})
			if c.kind == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused(t, "stage", err, c.kind, c.text)
			if now := x.state().Disks[info.Number].Style; now != before && c.unit == 0 {
				t.Errorf("the disk was %s and is %s", before, now)
			}
		})
	}
	x := newWorld(t, inProcess)
	_, err := x.m.StageDisk(x.soon(), mounter.Disk{}, staging, mounter.StageOptions{FSType: "refs"})
	refused(t, "another file system", err, hosterr.ErrUnimplemented, "want ntfs")
}

// A disk with several volumes is only staged by the number of a partition.
func TestPartition(t *testing.T) {
	x := newWorld(t, allPipes)
	if _, err := x.node.AttachDisk(simnode.Disk{Size: gib, Serial: "d", Content: nodespec.ContentGPTNoMSR, Partitions: []simnode.Partition{{Size: gib / 2, FileSystem: "NTFS"}, {FileSystem: "NTFS"}}}); err != nil {
		t.Fatal(err)
	}
	id := mounter.Identity{SerialNumber: "d"}
	d, err := x.m.FindDisk(x.soon(), id)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.m.StageDisk(x.soon(), d, staging, mounter.StageOptions{})
	refused(t, "two volumes", err, hosterr.ErrFailedPrecondition, "2 volumes")
	second, err := x.m.StageDisk(x.soon(), d, staging, mounter.StageOptions{Partition: 2})
	if err != nil {
		t.Fatal(err)
	}
	if at, n, err := x.m.VolumeAt(x.soon(), staging); at != second || n != d.Number || err != nil {
		t.Errorf("volume %q of disk %d, %v", at, n, err)
	}
	if err := x.m.UnstageDisk(x.soon(), staging, mounter.UnstageOptions{Offline: &id}); err != nil {
		t.Fatal(err)
	}
	if !x.state().Disks[d.Number].Online || !strings.Contains(x.log.String(), "Keeping a disk online") {
		t.Errorf("the disk with another volume is offline; log %q", x.log.String())
	}
}

// Directories with content stay: they may have a pod's data.
func TestContentIsKept(t *testing.T) {
	for _, w := range ways() {
		x := newWorld(t, w)
		info := x.attach()
		id := mounter.EBS("vol-02190fee5da4d75e3")
		if _, err := x.m.FindDisk(x.soon(), id); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{staging, target} {
			if err := x.m.MakeDir(x.soon(), dir); err != nil {
				t.Fatal(err)
			}
			if err := x.node.MakeFile(dir + `\precious`); err != nil {
				t.Fatal(err)
			}
		}
		for what, do := range map[string]func() error{
			"unstage":       func() error { return x.m.UnstageDisk(x.soon(), staging, mounter.UnstageOptions{Offline: &id}) },
			"unstage share": func() error { return x.m.UnstageShare(x.soon(), staging, `\\files\data\vol`) },
			"stage share": func() error {
				return x.m.StageShare(x.soon(), mounter.Share{Remote: `\\files\data\vol`, User: "ann", Password: "ann-1"}, staging)
			},
			"unpublish": func() error { return x.m.Unpublish(x.soon(), target) },
			"remove":    func() error { return x.m.Remove(x.soon(), target) },
		} {
			if err := do(); err == nil {
				t.Errorf("%s: %s of a directory with a file succeeded", w.name, what)
			}
		}
		for _, dir := range []string{staging, target} {
			if there, err := x.node.Filesystem().PathExists(t.Context(), &filesystem.PathExistsRequest{Path: dir + `\precious`}); err != nil || !there.Exists {
				t.Errorf("%s: a file in %s is gone: %v", w.name, dir, err)
			}
		}
		if x.state().Disks[info.Number].Online {
			t.Errorf("%s: the disk is online, although all but the directory was done", w.name)
		}
	}
}

// A volume is not unstaged by the identity of another disk, nor staged over another volume.
func TestOtherVolumeIsKept(t *testing.T) {
	for _, w := range ways() {
		x := newWorld(t, w)
		x.attach()
		if _, err := x.node.AttachDisk(simnode.Disk{Size: gib, Serial: "other"}); err != nil {
			t.Fatal(err)
		}
		if err := x.lives()["disk"][0].do(x.soon()); err != nil {
			t.Fatal(err)
		}
		other := mounter.Identity{SerialNumber: "other"}
		for _, id := range []mounter.Identity{other, {SerialNumber: "absent"}} {
			err := x.m.UnstageDisk(x.soon(), staging, mounter.UnstageOptions{Offline: &id})
			refused(t, w.name+": unstage", err, hosterr.ErrFailedPrecondition, "is mounted")
		}
		d, err := x.m.FindDisk(x.soon(), other)
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.m.StageDisk(x.soon(), d, staging, mounter.StageOptions{Format: mounter.IfProxySaysUnformatted})
		refused(t, w.name+": stage", err, hosterr.ErrFailedPrecondition, "is mounted")
		if n := len(x.state().Mounts); n != 1 {
			t.Errorf("%s: %d mounts, want the first", w.name, n)
		}
	}
}

// The disk was detached by force while its volume was mounted, and comes back.
func TestDiskIsGone(t *testing.T) {
	for _, w := range ways() {
		for _, gone := range []string{behavior.GoneMountPointRemoved, behavior.GoneMountPointRefused} {
			x := newWorld(t, w, func(c *simnode.Config) { c.World = behavior.In("", behavior.Windows{GoneMountPoint: gone}) })
			info := x.attach()
			life := x.lives()["disk"]
			if err := life[0].do(x.soon()); err != nil {
				t.Fatal(err)
			}
			if err := x.node.DetachDisk(info.Number); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := life[len(life)-1].do(x.soon()); err != nil {
					t.Errorf("%s, %s: unstage: %v", w.name, gone, err)
				}
			}
			back, err := x.node.AttachDisk(simnode.Disk{ID: info.ID})
			if err != nil {
				t.Fatal(err)
			}
			if err := life[0].do(x.soon()); err != nil {
				t.Errorf("%s, %s: stage again: %v", w.name, gone, err)
			}
			// It goes again, and another one takes its place. The existing proxy does not say that it is gone.
			if err := x.node.DetachDisk(back.Number); err != nil {
				t.Fatal(err)
			}
			x.attach()
			if err := life[0].do(x.soon()); (err != nil) != w.existing {
				t.Errorf("%s, %s: stage another: %v", w.name, gone, err)
			}
		}
	}
}

// The existing proxy skips a small growth with success. Expand compares with the disk.
func TestExpand(t *testing.T) {
	for _, w := range ways() {
		x := newWorld(t, w)
		x.attach()
		if err := x.lives()["disk"][0].do(x.soon()); err != nil {
			t.Fatal(err)
		}
		_, err := x.m.Expand(x.soon(), staging, 2*gib)
		refused(t, w.name+": the disk was not grown", err, hosterr.ErrOutOfRange, "has not grown it")
		if err := x.grow("vol02"); err != nil {
			t.Fatal(err)
		}
		x.proxy.skipGrowth = true
		_, err = x.m.Expand(x.soon(), staging, 2*gib)
		if w.existing {
			refused(t, w.name+": skipped", err, hosterr.ErrFailedPrecondition, "unused")
		} else if err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		x.proxy.skipGrowth = false
		for range 2 { // the second has nothing to do
			if size, err := x.m.Expand(x.soon(), staging, 2*gib); err != nil || size != 2*gib {
				t.Errorf("%s: expanded to %d: %v", w.name, size, err)
			}
		}
		_, err = x.m.Expand(x.soon(), kubelet, 0)
		refused(t, w.name+": no volume", err, mounter.ErrNotMounted, "no volume is mounted there")
		_, _, _, err = x.m.Stats(x.soon(), "no/path")
		refused(t, w.name+": no path", err, mounter.ErrNotMounted, "not an absolute Windows path")
		_, err = x.m.Expand(x.soon(), staging, -1)
		refused(t, w.name+": a negative size", err, hosterr.ErrInvalid, "want a size")
	}
}

// A mapping goes with its last link. Where the proxy does not count links, the driver does, and
// keeps the mapping if it cannot read them.
func TestMappingGoesWithItsLastLink(t *testing.T) {
	const second = kubelet + `\plugins\kubernetes.io\csi\example\vol2\globalmount`
	share := mounter.Share{Remote: `\\files\data\vol`, User: "ann", Password: "ann-1"}
	for _, w := range ways() {
		for _, blind := range []bool{false, true} {
			x := newWorld(t, w)
			if blind {
				cannot := func(string) ([]string, error) { return nil, fs.ErrNotExist }
				x.m = x.mounter(x.open(), mounter.Options{Local: mounter.Local{Dirs: cannot}})
			}
			if err := x.m.MakeDir(x.soon(), strings.TrimSuffix(second, `\globalmount`)); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{staging, second} {
				if err := x.m.StageShare(x.soon(), share, path); err != nil {
					t.Fatal(err)
				}
			}
			var mappings []int
			for _, path := range []string{staging, second} {
				if err := x.m.UnstageShare(x.soon(), path, share.Remote); err != nil {
					t.Fatal(err)
				}
				mappings = append(mappings, len(x.state().SMBMappings))
			}
			want := []int{1, 0}
			if w.existing && blind {
				want = []int{1, 1}
			}
			if !slices.Equal(mappings, want) {
				t.Errorf("%s, blind %t: mappings after each unstage %v, want %v", w.name, blind, mappings, want)
			}
			if kept := strings.Contains(x.log.String(), "Keeping an SMB mapping"); kept != w.existing {
				t.Errorf("%s: log %q", w.name, x.log.String())
			}
		}
	}
}

// While the server of a share is down, what is at a path is known, and what only the server knows
// is an error of a kind, also if Windows waits for it.
func TestServerIsDown(t *testing.T) {
	share := mounter.Share{Remote: `\\files\data\vol`, User: "ann", Password: "ann-1"}
	for _, w := range ways() {
		x := newWorld(t, w)
		waiting := make(chan struct{})
		defer close(waiting)
		measures := make(chan struct{}, 1)
		x.m = x.mounter(x.open(), mounter.Options{Local: mounter.Local{Dirs: x.dirs, Readlink: x.readlink, FreeSpace: func(string) (int64, int64, error) {
			measures <- struct{}{}
			<-waiting
			return 0, 0, errors.New("the network path was not found")
		}}})
		if err := x.m.StageShare(x.soon(), share, staging); err != nil {
			t.Fatal(err)
		}
		if err := x.m.Publish(x.soon(), staging, target); err != nil {
			t.Fatal(err)
		}
		if err := x.node.SetSMBServerDown("files", true); err != nil {
			t.Fatal(err)
		}
		if s, err := x.m.State(x.soon(), staging); err != nil || s != mounter.Linked {
			t.Errorf("%s: the staging path is %s: %v", w.name, s, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			select {
			case <-measures: // the driver itself waits for the server
			case <-ctx.Done():
			}
			cancel()
		}()
		if total, _, _, err := x.m.Stats(ctx, staging); err == nil || hosterr.KindOf(err) == nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the share has %d bytes: %v", w.name, total, err)
		}
		cancel()
		for _, err := range []error{x.m.Unpublish(x.soon(), target), x.m.UnstageShare(x.soon(), staging, share.Remote)} {
			if err != nil && hosterr.KindOf(err) == nil {
				t.Errorf("%s: %v", w.name, err)
			}
		}
		if s, err := x.m.State(x.soon(), staging); err != nil || s != mounter.Absent {
			t.Errorf("%s: after unstage the path is %s: %v", w.name, s, err)
		}
	}
}

// Privacy, new credentials and the use of a share, where the proxy serves smb/v2alpha1. Where it
// does not, nothing is done without them.
func TestSharesAreManaged(t *testing.T) {
	for _, w := range ways() {
		x := newWorld(t, w)
		share := mounter.Share{Remote: `\\files\data\vol`, User: "ann", Password: "ann-1", Privacy: true}
		err := x.m.StageShare(x.soon(), share, staging)
		can, errCan := x.m.Abilities(x.soon())
		if errCan != nil {
			t.Fatal(errCan)
		}
		if !can.ManagesShares {
			refused(t, w.name, err, hosterr.ErrUnimplemented, "")
			_, err = x.m.UpdateShare(x.soon(), share)
			refused(t, w.name, err, hosterr.ErrUnimplemented, "")
			_, err = x.m.ShareUse(x.soon(), share.Remote)
			refused(t, w.name, err, hosterr.ErrUnimplemented, "")
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		if inEffect, err := x.m.UpdateShare(x.soon(), share); err != nil || !inEffect {
			t.Errorf("%s: in effect %t, %v", w.name, inEffect, err)
		}
		use, err := x.m.ShareUse(x.soon(), share.Remote, target, staging)
		if err != nil || use.Links != 1 || !slices.Equal(use.LocalPaths, []string{staging}) || !use.RequirePrivacy {
			t.Errorf("%s: use %+v, %v", w.name, use, err)
		}
	}
}

// A server hangs while its mapping gets new credentials, in each call that waits for it. The request ends
// with its context, the share is looked at meanwhile, and a repeated request finds or finishes the work.
func TestServerHangsDuringUpdate(t *testing.T) {
	for _, call := range []string{winapi.LogonToServer, winapi.UseDel, winapi.UseAdd} {
		x := newWorld(t, allPipes)
		share := mounter.Share{Remote: `\\files\data\vol`, User: "ann", Password: "ann-1"}
		began, release := make(chan struct{}), make(chan struct{})
		hang := simnode.Fault{Call: call, Times: 1, Do: func() { close(began); <-release }}
		err := x.m.StageShare(x.soon(), share, staging)
		if err == nil {
			err = errors.Join(x.node.SetSMBPassword("files", "ann", "ann-2"), x.node.SetSMBMappingStatus(`\\files\data`, "disconnected"))
		}
		if err == nil {
			_, err = x.node.Fail(hang)
		}
		if err != nil {
			t.Fatal(err)
		}
		share.Password = "ann-2"
		ctx, cancel := context.WithCancel(x.soon())
		go func() { <-began; cancel() }()
		if inEffect, err := x.m.UpdateShare(ctx, share); inEffect || !errors.Is(err, context.Canceled) {
			t.Errorf("%s hangs: in effect %t, %v", call, inEffect, err)
		}
		if use, err := x.m.ShareUse(x.soon(), share.Remote); err != nil || use.Links != 1 {
			t.Errorf("%s hangs: use %+v, %v", call, use, err)
		}
		close(release)
		if inEffect, err := x.m.UpdateShare(x.soon(), share); err != nil || !inEffect {
			t.Errorf("after %s: in effect %t, %v", call, inEffect, err)
		}
		if got := x.state().SMBMappings; len(got) != 1 || got[0].Status != "ok" {
			t.Errorf("after %s: mappings %+v", call, got)
		}
	}
}

// Without its name, the share is read from the link, also after a call was lost.
func TestUnstageShareReadsTheLink(t *testing.T) {
	x := newWorld(t, allPipes)
	for _, lost := range []string{"RemoveSmbGlobalMapping", "Rmdir"} {
		for _, made := range []bool{false, true} {
			if err := x.m.StageShare(x.soon(), mounter.Share{Remote: `\\files\data\vol`, User: "ann", Password: "ann-1"}, staging); err != nil {
				t.Fatal(err)
			}
			lose := func(_ int, method string) error {
				if path.Base(method) != lost {
					return nil
				}
				x.before, x.after = nil, nil
				return status.Error(codes.Unavailable, "the connection is lost")
			}
			if made {
				x.after = lose
			} else {
				x.before = lose
			}
			refused(t, lost+" is lost", x.m.UnstageShare(x.soon(), staging, ""), hosterr.ErrUnavailable, "lost")
			for range 2 {
				if err := x.m.UnstageShare(x.soon(), staging, ""); err != nil {
					t.Error(err)
				}
			}
			if left := x.left(); len(left) > 0 {
				t.Errorf("%s is lost, made %t: left on the node: %q", lost, made, left)
			}
		}
	}
	if err := x.m.MakeDir(x.soon(), staging); err != nil {
		t.Fatal(err)
	}
	refused(t, "a directory", x.m.UnstageShare(x.soon(), staging, ""), hosterr.ErrFailedPrecondition, "not a link")
}

// Publish makes no link to what is not staged, and compares a link that exists where it can.
func TestPublish(t *testing.T) {
	for _, w := range ways() {
		x := newWorld(t, w)
		x.attach()
		refused(t, w.name+": nothing", x.m.Publish(x.soon(), staging, target), hosterr.ErrFailedPrecondition, "nothing is staged")
		if err := x.m.MakeDir(x.soon(), staging); err != nil {
			t.Fatal(err)
		}
		refused(t, w.name+": a directory", x.m.Publish(x.soon(), staging, target), hosterr.ErrFailedPrecondition, "nothing is staged")
		if err := x.lives()["disk"][0].do(x.soon()); err != nil {
			t.Fatal(err)
		}
		if _, err := x.node.Filesystem().CreateSymlink(t.Context(), &filesystem.CreateSymlinkRequest{SourcePath: kubelet, TargetPath: target}); err != nil {
			t.Fatal(err)
		}
		err := x.m.Publish(x.soon(), staging, target)
		if w.existing {
			if err != nil || !strings.Contains(x.log.String(), "Taking a link as it is") {
				t.Errorf("%s: %v; log %q", w.name, err, x.log.String())
			}
		} else {
			refused(t, w.name+": another link", err, hosterr.ErrAlreadyExists, "")
		}
		if s, err := x.m.State(x.soon(), strings.ReplaceAll(strings.TrimPrefix(target, "C:"), `\`, "/")); s != mounter.Linked || err != nil {
			t.Errorf("%s: state %v, %v", w.name, s, err)
		}
		if w.name != allPipes.name {
			continue
		}
		x.before = func(_ int, method string) error { // another call removes it first
			if path.Base(method) == "Rmdir" {
				x.before = nil
				return x.m.Unpublish(x.soon(), target)
			}
			return nil
		}
		if err := x.m.Unpublish(x.soon(), target); err != nil {
			t.Error(err)
		}
	}
}

// What is guaranteed, by who serves which group.
func TestAbilities(t *testing.T) {
	for _, w := range ways() {
		x := newWorld(t, w)
		can, err := x.m.Abilities(x.soon())
		if err != nil {
			t.Fatal(err)
		}
		lacks := map[string]int{"beta pipes": 2, "existing proxy": 7}[w.name]
		if got := can.Lacks(); len(got) != lacks {
			t.Errorf("%s: lacks %q", w.name, got)
		}
		if want := map[string]string{"in process": "", "pipes": "v3alpha1", "beta pipes": "v1beta3", "existing proxy": "v1"}[w.name]; can.Versions["volume"] != want {
			t.Errorf("%s: versions %v", w.name, can.Versions)
		}
	}
	m, err := mounter.New(mounter.Node{}, mounter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if can, err := m.Abilities(t.Context()); len(can.Lacks()) != 7 || err != nil {
		t.Errorf("a node that says nothing lacks %q, %v", can.Lacks(), err)
	}
}

// A node without services refuses every method, with the name of the group.
func TestMissingServices(t *testing.T) {
	m, err := mounter.New(mounter.Node{}, mounter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	calls := map[string]func() error{
		"FindDisk":     func() error { _, err := m.FindDisk(ctx, mounter.EBS("vol-1")); return err },
		"StageDisk":    func() error { _, err := m.StageDisk(ctx, mounter.Disk{}, staging, mounter.StageOptions{}); return err },
		"UnstageDisk":  func() error { return m.UnstageDisk(ctx, staging, mounter.UnstageOptions{}) },
		"StageShare":   func() error { return m.StageShare(ctx, mounter.Share{Remote: `\\a\b`}, staging) },
		"UnstageShare": func() error { return m.UnstageShare(ctx, staging, `\\a\b`) },
		"UpdateShare":  func() error { _, err := m.UpdateShare(ctx, mounter.Share{Remote: `\\a\b`}); return err },
		"ShareUse":     func() error { _, err := m.ShareUse(ctx, `\\a\b`); return err },
		"Login":        func() error { _, err := m.Login(ctx, mounter.Target{}); return err },
		"Logout":       func() error { return m.Logout(ctx, mounter.Target{}) },
		"Publish":      func() error { return m.Publish(ctx, staging, target) },
		"Unpublish":    func() error { return m.Unpublish(ctx, target) },
		"Expand":       func() error { _, err := m.Expand(ctx, staging, 0); return err },
		"ExpandVolume": func() error { _, err := m.ExpandVolume(ctx, "", 0); return err },
		"Exists":       func() error { _, err := m.Exists(ctx, staging); return err },
		"Stats":        func() error { _, _, _, err := m.Stats(ctx, staging); return err },
		"State":        func() error { _, err := m.State(ctx, staging); return err },
		"VolumeAt":     func() error { _, _, err := m.VolumeAt(ctx, staging); return err },
		"MakeDir":      func() error { return m.MakeDir(ctx, staging) },
		"Remove":       func() error { return m.Remove(ctx, staging) },
		"Rescan":       func() error { return m.Rescan(ctx) },
	}
	for name, call := range calls {
		refused(t, name, call(), hosterr.ErrUnimplemented, "without the group")
	}
	_, err = mounter.New(mounter.Node{KubeletDir: `..\kubelet`}, mounter.Options{})
	refused(t, "a relative directory", err, hosterr.ErrInvalid, "kubelet")
	_, err = mounter.New(mounter.Node{}, mounter.Options{Arrival: -1})
	refused(t, "a negative duration", err, hosterr.ErrInvalid, "Arrival")
}

// No way to print a Share or a Target shows its password.
func TestSecretsAreNotPrinted(t *testing.T) {
	for _, v := range []any{mounter.Share{Remote: `\\a\b`, Password: "hunter2"}, &mounter.Target{Secret: "hunter2"}, mounter.Secret("hunter2"), map[string]mounter.Secret{"x": "hunter2"}} {
		var shown []string
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
		text, err := json.Marshal(v)
		if all := strings.Join(shown, " ") + string(text); err != nil || strings.Contains(all, "hunter2") || strings.Contains(all, "68756e74657232") {
			t.Errorf("%T is printed as %q, %v", v, all, err)
		}
	}
}

// Of a disk without identifiers, only what is known about the disk at its place counts: another one
// may have its number by then.
func TestDiskWithoutIdentifiersIsKnownByItsPlace(t *testing.T) {
	x := newWorld(t, allPipes)
	attach := func(d simnode.Disk) uint32 {
		t.Helper()
		info, err := x.node.AttachDisk(d)
		if err == nil {
			err = x.node.AwaitDisk(info.Number)
		}
		if err != nil {
			t.Fatal(err)
		}
		return info.Number
	}
	first := attach(simnode.Disk{Size: gib, Bus: "sas", Address: &simnode.Address{Port: 5, Lun: 3}})
	id := mounter.Identity{LUN: number(3), Adapter: number(5)}
	if d, err := x.m.FindDisk(x.soon(), id); err != nil || d.Number != first || d.IDs != (disk.DiskIDs{}) {
		t.Fatalf("FindDisk = %+v, %v, want disk %d without identifiers", d, err, first)
	}
	replaced := false
	x.before = func(_ int, method string) error {
		if path.Base(method) != "ListDisks" || replaced {
			return nil
		}
		replaced = true
		if err := x.node.DetachDisk(first); err != nil {
			return err
		}
		attach(simnode.Disk{Number: &first, Size: gib, Bus: "sas", Address: &simnode.Address{Port: 6, Lun: 4}})
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	d, err := x.mounter(x.conn, mounter.Options{Clock: &fakeClock{each: func(int) { cancel() }}}).FindDisk(ctx, id)
	refused(t, fmt.Sprintf("the disk %v with what is known about another", d), err, hosterr.ErrUnavailable, "none of")
}

// published is a node's SMB service with the published methods only.
type published struct{ smb.Interface }

// updates is one that keeps the last update.
type updates struct {
	smb.Service
	last smb.UpdateSMBGlobalMappingRequest
}

func (u *updates) UpdateSMBGlobalMapping(ctx context.Context, in *smb.UpdateSMBGlobalMappingRequest) (*smb.UpdateSMBGlobalMappingResponse, error) {
	u.last = *in
	return u.Service.UpdateSMBGlobalMapping(ctx, in)
}

// What a share requires is neither dropped by a service that does not know it, nor by an update.
func TestProtectionOfAShare(t *testing.T) {
	x := newWorld(t, inProcess)
	n := x.open()
	all := n.SMB.(smb.Service)
	for _, share := range []mounter.Share{{Remote: `\\files\data`, Privacy: true}, {Remote: `\\files\data`, Integrity: true}} {
		n.SMB = published{all}
		refused(t, "a service with the published methods", x.mounter(n, options()).StageShare(x.soon(), share, staging), hosterr.ErrUnimplemented, "published methods")
		if left := x.left(); len(left) > 0 {
			t.Errorf("left on the node: %q", left)
		}
		u := &updates{Service: all}
		n.SMB = u
		if _, err := x.mounter(n, options()).UpdateShare(x.soon(), share); !errors.Is(err, hosterr.ErrNotFound) || u.last.RequirePrivacy != share.Privacy || u.last.RequireIntegrity != share.Integrity {
			t.Errorf("%+v: the update requires %+v, %v", share, u.last, err)
		}
	}
}

// Where the proxy does not compare a link that exists, the driver does, if it can read it. An error
// because the context ended is no sign of a server that is down.
func TestLinkToAnotherShare(t *testing.T) {
	x := newWorld(t, existing)
	share := mounter.Share{Remote: `\\files\data\vol`, User: "ann", Password: "ann-1"}
	for range 2 {
		if err := x.m.StageShare(x.soon(), share, staging); err != nil {
			t.Fatal(err)
		}
	}
	for _, remote := range []string{`\\files\data`, `\\files\logs`} {
		other := share
		other.Remote = remote
		refused(t, remote, x.m.StageShare(x.soon(), other, staging), hosterr.ErrAlreadyExists, `there is a link to "\\\\files`)
	}
	if n := len(x.state().SMBMappings); n != 1 {
		t.Errorf("%d mappings, want that of the link: a request that is refused maps nothing", n)
	}
	for target, wrong := range map[string]bool{`\\?\\\FILES\data\vol\`: false, `C:\data\vol`: true, "": false} {
		m := x.mounter(x.conn, mounter.Options{Local: mounter.Local{Dirs: x.dirs, Readlink: func(string) (string, error) { return target, nil }}})
		if err := m.StageShare(x.soon(), share, staging); errors.Is(err, hosterr.ErrAlreadyExists) != wrong || !wrong && err != nil {
			t.Errorf("a link to %q: %v", target, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	x.before = func(_ int, method string) error {
		if path.Base(method) == "IsSymlink" {
			cancel()
			return ctx.Err()
		}
		return nil
	}
	if s, err := x.m.State(ctx, staging); err == nil {
		t.Errorf("state %s after the context ended", s)
	}
}

// While a server is down, a path has one measurement, however often it is asked for. A panic of it is
// an error.
func TestMeasurements(t *testing.T) {
	x := newWorld(t, existing)
	var calls atomic.Int32
	down := make(chan struct{})
	answer := func() (int64, int64, error) { <-down; return 100, 40, nil }
	m := x.mounter(x.conn, mounter.Options{Local: mounter.Local{Dirs: x.dirs, Readlink: x.readlink, FreeSpace: func(string) (int64, int64, error) {
		calls.Add(1)
		return answer()
	}}})
	if err := m.StageShare(x.soon(), mounter.Share{Remote: `\\files\data\vol`, User: "ann", Password: "ann-1"}, staging); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		x.after = func(_ int, method string) error {
			if path.Base(method) == "IsSymlink" {
				if looks++; looks == 2 { // the measurement follows
					cancel()
				}
			}
			return nil
		}
		_, _, _, err := m.Stats(ctx, staging)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "measure the share") {
			t.Errorf("a server that is down: %v", err)
		}
	}
	x.after = nil
	close(down)
	total, used, free, err := m.Stats(x.soon(), strings.ToUpper(staging))
	if err != nil || total != 100 || used != 60 || free != 40 {
		t.Errorf("Stats = %d, %d, %d, %v", total, used, free, err)
	}
	if n := calls.Load(); n > 2 { // the last one may have come after the end of the first
		t.Errorf("%d measurements at a time", n)
	}
	answer = func() (int64, int64, error) { panic("no such share") }
	if _, _, _, err := m.Stats(x.soon(), staging); err == nil || !strings.Contains(err.Error(), "panicked: no such share") {
		t.Errorf("a panic: %v", err)
	}
}
