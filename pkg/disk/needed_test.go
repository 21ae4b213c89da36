package disk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const (
	memoryManagement = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management`
	crashControl     = `SYSTEM\CurrentControlSet\Control\CrashControl`
)

// onD is a disk with the volume D:.
func onD() nodespec.Disk {
	return nodespec.Disk{Size: 10 * gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "D"}}}
}

// Each fact alone keeps a disk from being taken offline. SetDiskState took away the disk of
// the kubelet's directory.
func TestDisksThatTheNodeNeeds(t *testing.T) {
	plain := func(*fixture, *nodespec.Disk) {}
	for name, test := range map[string]struct {
		registry map[string][]string
		prepare  func(*fixture, *nodespec.Disk)
		disk     func(*nodespec.Disk)
		why      string // "" means that the disk may be changed
	}{
		"nothing":                     {prepare: plain},
		"a page file":                 {registry: map[string][]string{memoryManagement + `\ExistingPageFiles`: {`\??\C:\pagefile.sys`, `\??\D:\pagefile.sys`}}, why: `disk 1 has a page file (D:\pagefile.sys)`},
		"a page file after a restart": {registry: map[string][]string{memoryManagement + `\PagingFiles`: {`?:\pagefile.sys`, `d:\pagefile.sys 4096 8192`}}, why: `disk 1 has a page file (d:\pagefile.sys)`},
		"a page file on no disk":      {registry: map[string][]string{memoryManagement + `\PagingFiles`: {`X:\pagefile.sys 0 0`, ``}}},
		"a dump file":                 {registry: map[string][]string{crashControl + `\DedicatedDumpFile`: {`D:\dumps\dedicated.sys`}}, why: `disk 1 has the dump file (D:\dumps\dedicated.sys)`},
		"the kubelet":                 {prepare: func(f *fixture, _ *nodespec.Disk) { f.Node.WorkingDirs = []string{`D:\kubelet`} }, why: `disk 1 holds the directory D:\kubelet`},
		"containers":                  {prepare: func(f *fixture, _ *nodespec.Disk) { f.Node.ProtectedDirs = []string{`D:\containerd\root`} }, why: `disk 1 holds the directory D:\containerd\root`},
		"a directory that is missing": {prepare: func(f *fixture, _ *nodespec.Disk) { f.Node.ProtectedDirs = []string{`X:\containerd`} }},
		"a cluster":                   {disk: func(d *nodespec.Disk) { d.Clustered = true }, why: "disk 1 belongs to a failover cluster"},
		"Storage Spaces": {disk: func(d *nodespec.Disk) {
			d.Partitions = []nodespec.Partition{{Type: "spaces"}}
		}, why: "disk 1 has a Storage Spaces partition"},
		"a dynamic disk": {disk: func(d *nodespec.Disk) {
			d.Partitions = []nodespec.Partition{{Size: 100 * mib, Type: "ldmMetadata"}}
		}, why: "disk 1 has a dynamic-disk partition"},
		"data of a dynamic disk": {disk: func(d *nodespec.Disk) {
			d.Partitions = []nodespec.Partition{{Size: 100 * mib, Type: "ldmData"}}
		}, why: "disk 1 has a dynamic-disk partition"},
	} {
		t.Run(name, func(t *testing.T) {
			d := onD()
			if test.disk != nil {
				test.disk(&d)
			}
			f := newFixture(t, nodespec.Config{Registry: test.registry}, d)
			if test.prepare != nil {
				test.prepare(f, &d)
			}
			if test.why == "" {
				if err := f.setState(1, false); err != nil {
					t.Error(err)
				}
				return
			}
			f.unchanged(func() {
				wantKind(t, f.setState(1, false), hosterr.ErrFailedPrecondition, test.why+", so it is not changed")
			})
		})
	}
}

// Windows may list a page file by the ID of its volume.
func TestPageFileOfAVolumeID(t *testing.T) {
	for _, prefix := range []string{`\??\`, `\\?\`} {
		registry := map[string][]string{memoryManagement + `\ExistingPageFiles`: nil}
		f := newFixture(t, nodespec.Config{Registry: registry}, onD())
		id, err := f.Windows.VolumeNameForMountPoint(`D:\`)
		if err != nil {
			t.Fatal(err)
		}
		registry[memoryManagement+`\ExistingPageFiles`] = []string{prefix + strings.TrimPrefix(id, `\\?\`) + "pagefile.sys"}
		wantKind(t, f.setState(1, false), hosterr.ErrFailedPrecondition, "disk 1 has a page file", "pagefile.sys")
	}
}

// A disk of a cluster may be blank for this node. No page file can be on a disk without
// partitions.
func TestBlankDiskOfACluster(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib, Clustered: true})
	f.unchanged(func() { wantKind(t, f.partition(1), hosterr.ErrFailedPrecondition, "failover cluster") })
}

// If a fact cannot be read, a disk with partitions is refused, and an empty one goes on.
func TestUnknownFactsKeepDisksWithPartitions(t *testing.T) {
	for call, code := range map[string]uint32{"RegistryText": 0, "WindowsDirectory": 0, "VolumePathName": 0, "VolumeNameForMountPoint": 0, "DeviceIoControl": win32.IOCTL_DISK_IS_CLUSTERED} {
		t.Run(fmt.Sprintf("%s %#x", call, code), func(t *testing.T) {
			f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib}, onD())
			lost := 0
			f.Observe(func(c *win32.Call) error {
				if c.Name == call && c.Code == code {
					lost++
					return win32.ERROR_CRC
				}
				return c.Do()
			})
			if err := f.partition(1); err != nil {
				t.Errorf("partition of an empty disk: %v", err)
			}
			err := f.setState(2, false)
			wantKind(t, err, hosterr.ErrFailedPrecondition, "cannot find out which disks the node needs")
			if hint := hosterr.HintOf(err); !strings.Contains(hint, "page file") {
				t.Errorf("the hint is %q", hint)
			}
			if lost < 2 {
				t.Errorf("%d calls failed", lost)
			}
			f.Observe(nil)
		})
	}
}

// A disk that arrived read-only stays offline if it is not known whether the node needs it: once
// it is online, no later request would make it writable.
func TestUnknownFactsKeepReadOnlyDisksOffline(t *testing.T) {
	for call, code := range map[string]uint32{"RegistryText": 0, "WindowsDirectory": 0, "DeviceIoControl": win32.IOCTL_DISK_IS_CLUSTERED} {
		arrived := onD()
		arrived.Offline, arrived.ReadOnly = yes(), yes()
		f := newFixture(t, nodespec.Config{}, arrived)
		f.Fail(call, code, win32.ERROR_CRC)
		wantKind(t, f.setState(1, true), hosterr.ErrFailedPrecondition, "cannot find out which disks the node needs")
		f.Observe(nil)
		if f.online(1) {
			t.Errorf("%s %#x failed, and the disk is online", call, code)
		}
		if err := f.setState(1, true); err != nil {
			t.Errorf("%s %#x failed, and so did the next request: %v", call, code, err)
		}
		out, err := f.disk.GetDiskReadOnly(t.Context(), &disk.GetDiskReadOnlyRequest{DiskNumber: 1})
		if err != nil || out.IsReadOnly || !f.online(1) {
			t.Errorf("%s %#x failed, and after the next request the disk is online %t, read-only %v, %v", call, code, f.online(1), out, err)
		}
	}
}

// Where no driver knows about clusters, there are none.
func TestNodeWithoutClusters(t *testing.T) {
	for _, code := range []win32.Errno{win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED} {
		f := newFixture(t, nodespec.Config{}, onD())
		f.Fail("", win32.IOCTL_DISK_IS_CLUSTERED, code)
		if err := f.setState(1, false); err != nil {
			t.Errorf("%s: %v", code.Name(), err)
		}
	}
}
