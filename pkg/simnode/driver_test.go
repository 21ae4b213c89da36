package simnode_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// data is the path at which prepare mounts the volume of disk 1.
const data = `C:\var\lib\kubelet\data`

// prepare formats a volume on disk 1, mounts it at data, and returns its ID.
func prepare(t *testing.T, n *simnode.Node) (id string) {
	t.Helper()
	ctx := t.Context()
	must(t, ignore(n.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: 1})))
	list, err := n.Volume().ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: 1})
	must(t, err)
	id = list.VolumeIDs[0]
	must(t, ignore(n.Volume().FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id})))
	must(t, ignore(n.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: data})))
	must(t, ignore(n.Volume().MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: data})))
	return id
}

// ignore drops the response of a call.
func ignore[T any](_ T, err error) error { return err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// methods returns a call of each method of the table in package winapi. Each call
// has work to do.
func methods(t *testing.T, n *simnode.Node) map[string]func() error {
	ctx := t.Context()
	id := prepare(t, n)
	must(t, ignore(n.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: 2})))
	list, err := n.Volume().ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: 2})
	must(t, err)
	raw := list.VolumeIDs[0]
	blank, err := n.AttachDisk(simnode.Disk{Size: 1 << 30})
	must(t, err)
	must(t, n.AwaitDisk(blank.Number))
	must(t, n.GrowDisk(1, 20<<30))
	must(t, ignore(n.Disk().Rescan(ctx, &disk.RescanRequest{})))
	must(t, ignore(n.System().StartService(ctx, &system.StartServiceRequest{Name: "MSiSCSI"})))
	must(t, n.SetService(simnode.Service{Name: "stopped"}))
	must(t, n.SetService(simnode.Service{Name: "running", State: "running"}))
	portal := &iscsi.TargetPortal{TargetAddress: "192.0.2.10"}
	must(t, ignore(n.ISCSI().AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal})))
	const iqn = "iqn.2025-01.com.example:data"
	must(t, ignore(n.ISCSI().ConnectTarget(ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: iqn})))
	must(t, n.SetISCSITarget(simnode.ISCSITarget{IQN: "iqn.2025-01.com.example:other", Portals: []simnode.ISCSIPortal{{Address: "192.0.2.10"}}}))
	must(t, ignore(n.ISCSI().DiscoverTargetPortal(ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal})))
	must(t, n.AddSMBShare("files.example.com", "other"))
	mapping := func(share string) error {
		return ignore(n.SMB().NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: `\\files.example.com\` + share, Username: "csi", Password: "csi"}))
	}
	must(t, mapping("data"))
	must(t, ignore(n.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: `C:\full\inside`})))

	return map[string]func() error{
		"PartitionDisk": func() error {
			return ignore(n.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: blank.Number}))
		},
		"SetDiskState": func() error { return ignore(n.Disk().SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: 2})) },
		"GetDiskState": func() error { return ignore(n.Disk().GetDiskState(ctx, &disk.GetDiskStateRequest{DiskNumber: 1})) },
		"GetDiskStats": func() error { return ignore(n.Disk().GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: 1})) },
		"ListDiskIDs":  func() error { return ignore(n.Disk().ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})) },
		"Rescan":       func() error { return ignore(n.Disk().Rescan(ctx, &disk.RescanRequest{})) },
		"FormatVolume": func() error { return ignore(n.Volume().FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: raw})) },
		"IsVolumeFormatted": func() error {
			return ignore(n.Volume().IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: id}))
		},
		"GetVolumeStats": func() error {
			return ignore(n.Volume().GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeID: id}))
		},
		"ListVolumesOnDisk": func() error {
			return ignore(n.Volume().ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: 1}))
		},
		"MountVolume": func() error {
			if ignore(n.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: data + "2"})) != nil {
				return nil // the test wants an error of MountVolume
			}
			return ignore(n.Volume().MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: data + "2"}))
		},
		"UnmountVolume": func() error {
			return ignore(n.Volume().UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: data}))
		},
		"ResizeVolume": func() error { return ignore(n.Volume().ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: id})) },
		"WriteVolumeCache": func() error {
			return ignore(n.Volume().WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeID: id}))
		},
		"CreateSymlink": func() error {
			return ignore(n.Filesystem().CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: data, TargetPath: `C:\link`}))
		},
		"Rmdir": func() error {
			return ignore(n.Filesystem().Rmdir(ctx, &filesystem.RmdirRequest{Path: `C:\full`, Force: true}))
		},
		"RmdirContents": func() error {
			return ignore(n.Filesystem().RmdirContents(ctx, &filesystem.RmdirContentsRequest{Path: `C:\full`}))
		},
		"Mkdir": func() error { return ignore(n.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: `C:\full\new`})) },
		"PathExists": func() error {
			return ignore(n.Filesystem().PathExists(ctx, &filesystem.PathExistsRequest{Path: `C:\full`}))
		},
		"NewSMBGlobalMapping": func() error { return mapping("other") },
		"RemoveSMBGlobalMapping": func() error {
			return ignore(n.SMB().RemoveSMBGlobalMapping(ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: `\\files.example.com\data`}))
		},
		"ConnectTarget": func() error {
			return ignore(n.ISCSI().ConnectTarget(ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: "iqn.2025-01.com.example:other"}))
		},
		"DisconnectTarget": func() error {
			return ignore(n.ISCSI().DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: portal, IQN: iqn}))
		},
		"DiscoverTargetPortal": func() error {
			return ignore(n.ISCSI().DiscoverTargetPortal(ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal}))
		},
		"StartService": func() error {
			return ignore(n.System().StartService(ctx, &system.StartServiceRequest{Name: "stopped"}))
		},
		"StopService":         func() error { return ignore(n.System().StopService(ctx, &system.StopServiceRequest{Name: "running"})) },
		"GetBIOSSerialNumber": func() error { return ignore(n.System().GetBIOSSerialNumber(ctx, &system.GetBIOSSerialNumberRequest{})) },
	}
}

// tableOfMethods reads the table of methods and Win32 calls in the documentation of
// package winapi.
func tableOfMethods(t *testing.T) (rows []struct{ method, call, code string }) {
	t.Helper()
	text, err := os.ReadFile("winapi/doc.go")
	must(t, err)
	for _, m := range regexp.MustCompile(`(?m)^//\t([A-Z]\w+(?:, \w+)*) +([A-Z]\w+)(?: +((?:IOCTL|FSCTL).*)|, .*)?$`).FindAllStringSubmatch(string(text), -1) {
		for method := range strings.SplitSeq(m[1], ", ") {
			for code := range strings.SplitSeq(m[3], ", ") {
				rows = append(rows, struct{ method, call, code string }{method, m[2], code})
			}
		}
	}
	return rows
}

// The documentation of package winapi has a table: which Win32 call must fail so that
// a method fails. With the fault of its row, each method fails.
func TestFaultFailsMethod(t *testing.T) {
	rows := tableOfMethods(t)
	met := map[string]bool{}
	for _, row := range rows {
		met[row.method] = true
		t.Run(fmt.Sprintf("%s %s %s", row.method, row.call, row.code), func(t *testing.T) {
			t.Parallel()
			n := simnode.New(t)
			call := methods(t, n)[row.method]
			if call == nil {
				t.Fatal("the test does not know this method")
			}
			f, err := n.Fail(simnode.Fault{Call: row.call, CodeName: row.code, Error: "ERROR_GEN_FAILURE"})
			must(t, err)
			if err := call(); err == nil {
				t.Errorf("%s succeeded, want an error; the fault had %d hits", row.method, f.Hits())
			} else if f.Hits() == 0 {
				t.Errorf("%s failed, but not with the fault: %v", row.method, err)
			}
		})
	}
	if len(met) < 26 {
		t.Errorf("found %d methods in the table, want at least 26", len(met))
	}
}

func TestFaultPathAndSkip(t *testing.T) {
	n := simnode.New(t)
	f, err := n.Fail(simnode.Fault{Call: winapi.CreateFile, Path: `physicaldrive2`, Skip: 1, Times: 1, Error: "ERROR_GEN_FAILURE"})
	must(t, err)
	state := func(number uint32) error {
		return ignore(n.Disk().GetDiskState(t.Context(), &disk.GetDiskStateRequest{DiskNumber: number}))
	}
	for i, c := range []struct {
		disk uint32
		fail bool
	}{{1, false}, {2, false}, {1, false}, {2, true}, {2, false}} {
		if err := state(c.disk); (err != nil) != c.fail {
			t.Errorf("call %d, of disk %d: %v, want an error: %t", i, c.disk, err, c.fail)
		}
	}
	if f.Hits() != 1 {
		t.Errorf("hits = %d, want 1", f.Hits())
	}
}

func TestClearRemovesOneFault(t *testing.T) {
	n := simnode.New(t)
	rescan, err := n.Fail(simnode.Fault{Call: winapi.Reenumerate, Error: "ERROR_GEN_FAILURE"})
	must(t, err)
	must(t, ignore(n.Fail(simnode.Fault{Call: winapi.FirmwareTable, Error: "ERROR_GEN_FAILURE"})))
	rescan.Clear()
	if _, err := n.Disk().Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
		t.Errorf("Rescan, whose fault was cleared = %v", err)
	}
	if _, err := n.System().GetBIOSSerialNumber(t.Context(), &system.GetBIOSSerialNumberRequest{}); err == nil {
		t.Error("the other fault was cleared as well")
	}
}

// In a bubble of testing/synctest, the node uses the bubble's time.
func TestTimeInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnode.New(t, func(c *simnode.Config) {
			c.VolumeArrivalDelay = simnode.Duration(20 * time.Second)
			c.FormatDuration = simnode.Duration(time.Hour)
		})
		start := time.Now()
		n.After(30*time.Minute, func() error {
			return ignore(n.AttachDisk(simnode.Disk{Size: 1 << 30, Serial: "late"}))
		})
		var number uint32
		for number == 0 {
			must(t, ignore(n.Disk().Rescan(t.Context(), &disk.RescanRequest{})))
			ids, err := n.Disk().ListDiskIDs(t.Context(), &disk.ListDiskIDsRequest{})
			must(t, err)
			for i, d := range ids.DiskIDs {
				if d.SerialNumber == "late" {
					number = i
				}
			}
			time.Sleep(time.Second)
		}
		must(t, ignore(n.Disk().PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: number})))
		list, err := n.Volume().ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
		must(t, err)
		must(t, ignore(n.Volume().FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: list.VolumeIDs[0]})))
		if took := time.Since(start); took < 90*time.Minute || took > 95*time.Minute {
			t.Errorf("a disk that came after half an hour was formatted, which takes an hour, after %v", took)
		}
	})
}

// Close releases a call that a fault delays, and drops what After has not begun.
func TestCloseReleasesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := simnode.Open(simnode.Config{})
		must(t, err)
		must(t, ignore(n.Fail(simnode.Fault{Call: winapi.Reenumerate, Delay: time.Hour})))
		n.After(time.Minute, func() error { t.Error("a function of After runs after Close"); return nil })
		begun, ended := time.Now(), make(chan time.Time)
		go func() {
			n.Disk().Rescan(t.Context(), &disk.RescanRequest{})
			ended <- time.Now()
		}()
		synctest.Wait()
		must(t, n.Close())
		if at := <-ended; at.Sub(begun) >= time.Minute {
			t.Errorf("the call that the fault delays ended %v after Close", at.Sub(begun))
		}
		n.After(0, func() error { t.Error("a function runs on a node that is closed"); return nil })
		time.Sleep(time.Hour)
	})
}

func TestRecordedCalls(t *testing.T) {
	n := simnode.New(t)
	must(t, ignore(n.Fail(simnode.Fault{Call: winapi.Reenumerate, Error: "ERROR_ACCESS_DENIED"})))
	r := n.Record()
	if ignore(n.Disk().Rescan(t.Context(), &disk.RescanRequest{})) == nil {
		t.Fatal("Rescan succeeded")
	}
	must(t, ignore(n.Disk().GetDiskStats(t.Context(), &disk.GetDiskStatsRequest{DiskNumber: 2})))
	r.Stop()
	must(t, ignore(n.Disk().GetDiskStats(t.Context(), &disk.GetDiskStatsRequest{DiskNumber: 1})))
	var lines []string
	controls := 0
	for _, c := range r.Calls() {
		lines = append(lines, c.String())
		if strings.HasPrefix(c.String(), "DeviceIoControl ") {
			controls++
		}
	}
	for _, want := range []string{`Reenumerate = Access is denied.`, `CreateFile \\.\PhysicalDrive2`, `DeviceIoControl \\.\PhysicalDrive2 IOCTL_DISK_GET_DRIVE_GEOMETRY_EX`, `CloseHandle \\.\PhysicalDrive2`} {
		if !slices.Contains(lines, want) {
			t.Errorf("recorded %q, want %q among them", lines, want)
		}
	}
	if got := r.Count(winapi.DeviceIoControl); got != controls || got == 0 {
		t.Errorf("%d calls of DeviceIoControl in %q, want %d", got, lines, controls)
	}
	if got := r.Count(winapi.AnyCall); got != len(lines) {
		t.Errorf("%d calls, want %d", got, len(lines))
	}
}

func TestSeedRepeatsIDs(t *testing.T) {
	ids := func(seed uint64) (ids []string) {
		n := simnode.New(t, func(c *simnode.Config) { c.Seed = seed })
		ids = append(ids, prepare(t, n))
		state, err := n.Show()
		must(t, err)
		for _, d := range state.Disks {
			ids = append(ids, d.ID)
		}
		return ids
	}
	one, again, other := ids(1), ids(1), ids(2)
	if !slices.Equal(one, again) {
		t.Errorf("with one seed the identities are %q and %q", one, again)
	}
	if slices.Equal(one, other) {
		t.Errorf("with two seeds the identities are the same: %q", one)
	}
}

// A new process has no memory of an earlier one. It relies on Windows.
func TestNewProcessIsIndependent(t *testing.T) {
	n := simnode.New(t)
	must(t, n.SetSMBPassword("files.example.com", "csi", "secret"))
	stage := func(s smb.Interface, password string) error {
		_, err := s.NewSMBGlobalMapping(t.Context(), &smb.NewSMBGlobalMappingRequest{
			RemotePath: `\\files.example.com\data`, LocalPath: `C:\var\lib\kubelet\link`, Username: "csi", Password: password})
		return err
	}
	must(t, stage(n.SMB(), "secret"))
	p, err := n.NewProcess(rules.Rules{WorkingDirs: []string{`C:\var\lib\kubelet`}})
	must(t, err)
	must(t, stage(p.SMB(), "secret"))
	if _, err := p.Filesystem().Mkdir(t.Context(), &filesystem.MkdirRequest{Path: `C:\elsewhere`}); !errors.Is(err, hosterr.ErrPermissionDenied) {
		t.Errorf("Mkdir outside the working directories of the process = %v", err)
	}
	if _, err := n.Filesystem().Mkdir(t.Context(), &filesystem.MkdirRequest{Path: `C:\elsewhere`}); err != nil {
		t.Errorf("Mkdir by the process without rules = %v", err)
	}
	for _, i := range []any{p.Disk(), p.Volume(), p.ISCSI(), p.System()} {
		if i == nil {
			t.Error("the process lacks a service")
		}
	}
}

// failing is a testing.TB that records failures.
type failing struct {
	*testing.T
	failures []string
	cleanups []func()
}

func (f *failing) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

func (f *failing) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic(f)
}

func (f *failing) end() {
	for _, c := range slices.Backward(f.cleanups) {
		c()
	}
}

func TestNewFailsTheTest(t *testing.T) {
	t.Run("for an invalid description", func(t *testing.T) {
		f := &failing{T: t}
		func() {
			defer func() { recover() }()
			simnode.New(f, func(c *simnode.Config) { c.SANPolicy = "none" })
		}()
		if len(f.failures) != 1 || !strings.Contains(f.failures[0], `"none"`) {
			t.Errorf("failures %q", f.failures)
		}
	})
	t.Run("for a failed later change", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &failing{T: t}
			n := simnode.New(f)
			n.After(time.Hour, func() error { return n.DetachDisk(9) })
			n.After(2*time.Hour, func() error { t.Error("a change was made after the end of the test"); return nil })
			time.Sleep(time.Hour)
			synctest.Wait()
			f.end()
			n.After(0, func() error { t.Error("a change was made after the end of the test"); return nil })
			time.Sleep(2 * time.Hour)
			if len(f.failures) != 1 || !strings.Contains(f.failures[0], "disk 9") {
				t.Errorf("failures %q", f.failures)
			}
		})
	})
	t.Run("for open handles", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { // the cleanup waits ten seconds
			f := &failing{T: t}
			n := simnode.New(f)
			// If CloseHandle fails, the handle stays open.
			must(t, ignore(n.Fail(simnode.Fault{Call: winapi.CloseHandle, Times: 1, Error: "ERROR_GEN_FAILURE"})))
			n.Disk().GetDiskStats(context.Background(), &disk.GetDiskStatsRequest{DiskNumber: 1})
			f.end()
			if len(f.failures) != 1 || !strings.Contains(f.failures[0], "PhysicalDrive1") {
				t.Errorf("failures %q, want the handle", f.failures)
			}
		})
	})
}

// errors.Is finds the Win32 error of a fault on every system.
func TestFaultKeepsErrorNumber(t *testing.T) {
	n := simnode.New(t)
	must(t, ignore(n.Fail(simnode.Fault{Call: winapi.Reenumerate, Error: "ERROR_BUSY"})))
	_, err := n.Disk().Rescan(t.Context(), &disk.RescanRequest{})
	if !errors.Is(err, win32.ERROR_BUSY) || !errors.Is(err, hosterr.ErrUnavailable) {
		t.Errorf("Rescan = %v, want ERROR_BUSY, which is of the kind unavailable", err)
	}
}

// A process that has begun a format keeps the disk open until it is done. Windows closes it when the
// process is killed.
func TestKilledProcessHasNoHandles(t *testing.T) {
	n := simnode.New(t)
	p, err := n.NewProcess(rules.Rules{})
	must(t, err)
	_, err = p.Disk().PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: 1})
	must(t, err)
	volumes, err := p.Volume().ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: 1})
	must(t, err)
	in, killed := make(chan bool), make(chan bool)
	_, err = n.Fail(simnode.Fault{Call: winapi.Format, Times: 1, Do: func() { close(in); <-killed }})
	must(t, err)
	answer := make(chan error)
	go func() {
		_, err := p.Volume().FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: volumes.VolumeIDs[0]})
		answer <- err
	}()
	<-in
	open := func() []string {
		state, err := n.Show()
		must(t, err)
		return state.OpenHandles
	}
	if len(open()) == 0 {
		t.Error("the process does not keep the disk open, so this test sees nothing")
	}
	p.Kill()
	if left := open(); len(left) > 0 {
		t.Errorf("the killed process has the handles %q", left)
	}
	close(killed)
	<-answer
	if left := open(); len(left) > 0 {
		t.Errorf("after its format the killed process has the handles %q", left)
	}
}
