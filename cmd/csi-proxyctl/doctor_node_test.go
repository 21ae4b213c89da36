package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// expectFindings fails unless the findings are these, each as its result and a part of its text,
// and every finding but ok has a remedy.
func expectFindings(t *testing.T, found []finding, want ...string) {
	t.Helper()
	if len(found) != len(want) {
		t.Errorf("%d findings %+v, want %q", len(found), found, want)
		return
	}
	for i, f := range found {
		result, text, _ := strings.Cut(want[i], " ")
		if f.Result != result || !strings.Contains(f.What, text) {
			t.Errorf("finding %+v, want %q", f, want[i])
		}
		if f.Result != resultOK && f.Hint == "" {
			t.Errorf("%q has no remedy", f.What)
		}
	}
}

func TestExamineLinks(t *testing.T) {
	const id = `\\?\Volume{11111111-2222-3333-4444-555555555555}\`
	mount := func(path string) *admin.Way {
		return &admin.Way{Path: path, Location: path, Hops: []*admin.Hop{{Path: path, Target: id, Volume: id}}}
	}
	link := func(path, target string, way *admin.Way) *admin.Way {
		way.Path, way.Hops = path, []*admin.Hop{{Path: path, Target: target}}
		return way
	}
	there := []*admin.Volume{{Id: strings.ToLower(id)}}
	for name, c := range map[string]struct {
		node *admin.DescribeResponse
		want []string
	}{
		"none":    {&admin.DescribeResponse{}, []string{"ok 0 links"}},
		"volume":  {&admin.DescribeResponse{Volumes: there, Links: []*admin.Way{mount(`C:\a`)}}, []string{"ok 1 link or mount point of a volume"}},
		"gone":    {&admin.DescribeResponse{Links: []*admin.Way{mount(`C:\a`), mount(`C:\b`), mount(`C:\c`)}}, []string{`problem the volume that is mounted at C:\a is not on this node: its disk was detached; the same is so for 2 more paths`}},
		"missing": {&admin.DescribeResponse{Links: []*admin.Way{link(`C:\a`, `C:\b\c`, &admin.Way{Location: `C:\b`, Missing: "c"})}}, []string{`problem C:\a leads to C:\b, below which c does not exist`}},
		"error":   {&admin.DescribeResponse{Links: []*admin.Way{link(`C:\a`, `C:\b`, &admin.Way{Location: `C:\b`, Error: "broken"})}}, []string{`problem C:\a: C:\b cannot be opened: broken`}},
		"shares": {&admin.DescribeResponse{Links: []*admin.Way{
			link(`C:\a`, `\\nas\a\`, &admin.Way{Share: `\\nas\a`}),
			link(`C:\b`, `\\nas\b\`, &admin.Way{Share: `\\nas\b`, ShareStatus: "disconnected"}), // of the check of mappings
			link(`C:\c`, `\\nas\c\`, &admin.Way{Share: `\\nas\c`, ShareStatus: "ok"}),
		}}, []string{`problem C:\a: \\nas\a is not mapped on this node`}},
		"no volume": {&admin.DescribeResponse{Links: []*admin.Way{
			{Path: `C:\k\pods\1\mount`, Location: `C:\k\pods\1`, Missing: "mount"}, {Path: `C:\k\pods\2\mount`, Location: `C:\k\pods\2\mount`}, {Path: `C:\k\globalmount`, Location: `C:\k\globalmount`},
			link(`C:\k\pods\3\mount`, `C:\k\other\globalmount`, &admin.Way{Location: `C:\k\other\globalmount`}),
		}}, []string{
			`note C:\k\pods\1\mount does not exist`, `note no volume is mounted at C:\k\pods\2\mount: it is a plain directory`, `note no volume is mounted at C:\k\globalmount: it is a plain directory`,
			`problem C:\k\pods\3\mount: no volume is mounted at C:\k\other\globalmount: it is a plain directory`,
		}},
	} {
		t.Run(name, func(t *testing.T) { expectFindings(t, examineLinks(c.node), c.want...) })
	}
}

func TestExamineDirs(t *testing.T) {
	for dirs, want := range map[string][]string{
		`C:\mnt\disks C:\var\lib\kubelet`:          nil,
		`C:\ C:\var\lib\kubelet`:                   {`problem working directory C:\ is a whole drive`},
		`d:\ C:\Windows\Temp C:\var\lib\kubelet`:   {`problem working directory d:\ is a whole drive`, `problem working directory C:\Windows\Temp is in C:\Windows`},
		`C:\ProgramData\csi E:\`:                   {`problem working directory E:\ is a whole drive`},
		`C:\mnt C:\ProgramData\Kubernetes\kubelet`: nil,
		`C:\mnt C:\ProgramData\Kubernetes`:         {`problem the kubelet's directory C:\ProgramData\Kubernetes is one of Windows or of the programs`},
		`C:\mnt c:\windows\`:                       {`problem working directory c:\windows\ is in C:\Windows`},
		`C:\mnt C:\Windows\kubelet`:                {`problem working directory C:\Windows\kubelet is in C:\Windows`},
	} {
		expectFindings(t, examineDirs(&admin.DescribeResponse{WorkingDirs: strings.Fields(dirs)}), want...)
	}
}

func TestExamineVolumes(t *testing.T) {
	const gib = 1 << 30
	volume := func(change func(v *admin.Volume)) *admin.DescribeResponse {
		v := &admin.Volume{Id: "V", Disks: []uint32{1}, OffsetBytes: 1 << 20, FileSystem: "NTFS", SizeBytes: 10*gib - 2<<20, FreeBytes: 5 * gib, MountedAt: []string{`C:\mount\`}}
		change(v)
		return &admin.DescribeResponse{Volumes: []*admin.Volume{v}, Disks: []*admin.Disk{{Number: 1, SizeBytes: 10 * gib, Partitions: []*admin.Partition{{OffsetBytes: 1 << 20, LengthBytes: 9 * gib}}}}}
	}
	for name, c := range map[string]struct {
		change func(v *admin.Volume)
		want   []string
	}{
		"healthy":         {func(*admin.Volume) {}, []string{"ok 1 mounted volume, working"}},
		"mounted nowhere": {func(v *admin.Volume) { v.MountedAt, v.FreeBytes = nil, 0 }, []string{"ok 0 mounted volumes"}},
		"nearly full":     {func(v *admin.Volume) { v.FreeBytes = v.SizeBytes / 25 }, []string{`note the volume at C:\mount\ is 96% full`}},
		"not quite":       {func(v *admin.Volume) { v.FreeBytes = v.SizeBytes / 18 }, []string{"ok"}},
		"full":            {func(v *admin.Volume) { v.FreeBytes = 0 }, []string{`problem at C:\mount\, the volume V is full: 0 B of 10.0 GiB are free`}},
		"silent":          {func(v *admin.Volume) { v.Error = "I/O" }, []string{"problem does not answer: I/O"}},
		"no file system":  {func(v *admin.Volume) { v.FileSystem = "" }, []string{"problem has no file system"}},
		"smaller":         {func(v *admin.Volume) { v.SizeBytes = 8 * gib }, []string{`note the volume at C:\mount\ does not use 2.0 GiB that its disk has`}},
		"of Windows":      {func(v *admin.Volume) { v.SizeBytes, v.MountedAt = 8*gib, []string{`C:\`} }, []string{"ok"}},
		"spanned":         {func(v *admin.Volume) { v.SizeBytes, v.Disks = 8*gib, []uint32{1, 2} }, []string{"ok"}},
	} {
		t.Run(name, func(t *testing.T) { expectFindings(t, examineVolumes(volume(c.change)), c.want...) })
	}
	// Space before the next partition counts, space behind it does not.
	node := volume(func(v *admin.Volume) { v.SizeBytes = 4 * gib })
	node.Disks[0].Partitions = append(node.Disks[0].Partitions, &admin.Partition{OffsetBytes: 5*gib + 1<<20, LengthBytes: gib})
	if got := unusedBehind(node.Volumes[0], node.Disks); got != gib {
		t.Errorf("before another partition: %d bytes, want %d", got, gib)
	}
}

func TestExamineTargets(t *testing.T) {
	session := func(target string, disks ...uint32) *admin.Session {
		return &admin.Session{Target: target, Portals: []string{"10.0.0.1:3260"}, Disks: disks}
	}
	node := &admin.DescribeResponse{
		Sessions: []*admin.Session{
			session("iqn.2003-01.org.example:left", 5, 4), session("iqn.2003-01.org.example:left", 4, 5), // two paths
			session("iqn.2003-01.org.example:used", 2, 3), {Target: "iqn.2003-01.org.example:empty"},
		},
		Volumes: []*admin.Volume{{Disks: []uint32{5}}, {Disks: []uint32{2}, MountedAt: []string{`C:\mount\`}}},
	}
	expectFindings(t, examineTargets(node, false),
		"note iSCSI target iqn.2003-01.org.example:left is connected, and no volume on its disks 4, 5 is mounted",
		"note iSCSI target iqn.2003-01.org.example:empty is connected and has no disks")
	expectFindings(t, examineTargets(node, true), "unknown which iSCSI targets have no mounted volume is unknown")
	node.Disks = []*admin.Disk{{Number: 4, Online: true}, {Number: 5, Partitions: []*admin.Partition{{Number: 1}}}}
	expectFindings(t, examineTargets(node, false), "note iSCSI target iqn.2003-01.org.example:empty")
	node.Disks, node.Volumes[0].Error = nil, "its mount points are unknown"
	expectFindings(t, examineTargets(node, false), "note iSCSI target iqn.2003-01.org.example:empty")
	node.Volumes = append(node.Volumes, &admin.Volume{Id: "V", Error: "no answer"})
	expectFindings(t, examineTargets(node, false), "unknown which iSCSI targets have no mounted volume is unknown")
	node.Sessions = []*admin.Session{{Target: "iqn.2003-01.org.example:away", Portals: []string{"10.0.0.1:3260"}, Error: "no connection"}}
	expectFindings(t, examineTargets(node, false), "problem the disks of iSCSI target iqn.2003-01.org.example:away are unknown: no connection")
	hostile := &admin.DescribeResponse{Sessions: []*admin.Session{{Target: "iqn.2003-01.org.example:x", Portals: []string{"x; Remove-Item \x1b[31m:3260"}}}}
	if f := examineTargets(hostile, false); len(f) != 1 || !strings.HasSuffix(f[0].Hint, "DisconnectTarget 'iqn=iqn.2003-01.org.example:x' 'target_portal.target_address=x; Remove-Item \\x1b[31m:3260'") {
		t.Errorf("a portal with a command in it: %+v", f)
	}
	expectFindings(t, examineTargets(&admin.DescribeResponse{SessionsError: "no answer"}, false), "problem csi-proxy cannot list the sessions with iSCSI targets: no answer")
}

func TestExamineCalls(t *testing.T) {
	call := func(id uint64, seconds int64, phase string) *admin.Call {
		return &admin.Call{Id: id, Pipe: "csi-proxy-volume-v1", Method: "FormatVolume", AgeMilliseconds: 1000 * seconds, Phase: phase, Process: 7, Program: "driver.exe"}
	}
	expectFindings(t, examineCalls(nil), "ok 0 in flight")
	expectFindings(t, examineCalls([]*admin.Call{call(1, 9, "running")}), "ok 1 in flight")
	expectFindings(t, examineCalls([]*admin.Call{call(1, 10, "running")}), "problem call 1, FormatVolume, has not ended for 10s: running")
	gone := call(2, 1, "running")
	gone.CallerGone, gone.Win32 = true, "Format"
	expectFindings(t, examineCalls([]*admin.Call{gone}), "problem call 2, FormatVolume, has not ended for 1s: in Format")
	var many []*admin.Call
	for id := range uint64(9) {
		many = append(many, call(id, 60, "running"))
	}
	many = append(many, call(10, 30, "queued"))
	many[0].Process = 8
	one := []*admin.Call{call(1, 1, "running"), call(2, 1, "queued")}
	one[1].Process = 8
	expectFindings(t, examineCalls(one), "problem volume/v1 is overloaded: 1 call runs, and 1 waits for them to end; 1 is of process 7 (driver.exe)")
	expectFindings(t, examineCalls(many), "problem call 0", "problem call 1", "problem call 2", "problem call 3", "problem call 4", "problem 4 more calls hang",
		"problem volume/v1 is overloaded: 9 calls run, and 1 waits for them to end; 9 are of process 7 (driver.exe)")
}

func TestExamineStart(t *testing.T) {
	expectFindings(t, examineStart(winsvc.Installed{Name: "csiproxy", Automatic: true}))
	expectFindings(t, examineStart(winsvc.Installed{Name: "csiproxy", Stays: true}), "problem does not start with Windows", "problem is not started again after a failure")
}

func TestExamineBuild(t *testing.T) {
	expectFindings(t, examineBuild(10, 0, 20348), "ok Windows 10.0.20348")
	expectFindings(t, examineBuild(10, 0, 14393), "problem Windows 10.0.14393 is older than Windows Server 2019")
}

func TestExamineLogs(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "csi-proxy.log")
	for i, file := range []string{log, filepath.Join(dir, "csi-proxy-20260101T000000.000.log")} {
		f, err := os.Create(file)
		if err == nil {
			err = f.Truncate(muchLog / 2)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		if i == 0 {
			expectFindings(t, examineLogs([]string{log}))
		}
	}
	expectFindings(t, examineLogs([]string{log, filepath.Join(dir, "none")}), fmt.Sprintf("note the log files at %s have 1 GiB", log), "problem the log cannot be read: ")
}

// The newest crash is reported for a day. The file for the next one is empty.
func TestExamineLogsFindsCrash(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{
		"csi-proxy.log": 0, "csi-proxy-crash.log": 0,
		"csi-proxy-crash-20260102T000000.000.log": 2 * time.Hour, "csi-proxy-crash-20260101T000000.000.log": 3 * time.Hour,
	} {
		file, text := filepath.Join(dir, name), "panic: x"
		if name == "csi-proxy-crash.log" {
			text = ""
		}
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	found := examineLogs([]string{filepath.Join(dir, "csi-proxy.log")})
	expectFindings(t, found, "note csi-proxy crashed 2h0m0s ago")
	if want := filepath.Join(dir, "csi-proxy-crash-20260102T000000.000.log") + " has the panic"; !strings.HasPrefix(found[0].Hint, want) {
		t.Errorf("the remedy is %q, want it to begin with %q", found[0].Hint, want)
	}
	if err := os.Remove(filepath.Join(dir, "csi-proxy-crash-20260102T000000.000.log")); err != nil {
		t.Fatal(err)
	}
	expectFindings(t, examineLogs([]string{filepath.Join(dir, "csi-proxy.log")}), "note csi-proxy crashed 3h0m0s ago")
	old := time.Now().Add(-recentCrash - time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "csi-proxy-crash-20260101T000000.000.log"), old, old); err != nil {
		t.Fatal(err)
	}
	expectFindings(t, examineLogs([]string{filepath.Join(dir, "csi-proxy.log")}))
}

// While a process serves one pipe, csi-proxy cannot serve the others.
func TestExamineOwnersOfPipes(t *testing.T) {
	found := examinePipes(answers(probed{server: "csi-proxy v2"}, probed{state: absent}), "v2", []pipeOwner{{pid: 34, image: "old.exe", pipes: []string{"csi-proxy-disk-v1beta1"}}})
	expectFindings(t, found, "ok 1 of 2", "problem missing: disk/v1beta2")
	if !strings.HasPrefix(found[1].Hint, "process 34 (old.exe) serves csi-proxy-disk-v1beta1: if it should not, stop it") {
		t.Errorf("the remedy is %q", found[1].Hint)
	}
}

func TestFindingsAreGrouped(t *testing.T) {
	got := grouped([]finding{{resultNote, "iscsi", "a", "do"}, {resultOK, "smb", "b", ""}, {resultOK, "iscsi", "c", ""}, {resultProblem, "iscsi", "d", "do"}, {resultOK, "windows", "e", ""}})
	expectFindings(t, got, "note a", "ok c", "problem d", "ok b", "ok e")
}
