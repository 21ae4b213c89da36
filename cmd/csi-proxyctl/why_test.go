package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
)

// Problems that a simulated node does not have.
func TestWhyChecks(t *testing.T) {
	const id = `\\?\Volume{12345678-90ab-4cde-8f01-234567890abc}\`
	disk := func(change func(*admin.Disk)) *admin.DescribeResponse {
		d := &admin.Disk{Number: 1, Style: "GPT", Online: true}
		change(d)
		return &admin.DescribeResponse{Disks: []*admin.Disk{d}, Volumes: []*admin.Volume{{Id: id, Disks: []uint32{1}, FileSystem: "NTFS", SizeBytes: 1000, FreeBytes: 500}}}
	}
	volume := func(change func(*admin.Volume)) *admin.DescribeResponse {
		n := disk(func(*admin.Disk) {})
		change(n.Volumes[0])
		return n
	}
	for _, c := range []struct {
		name, want string
		node       *admin.DescribeResponse
	}{
		{"a cluster's disk", "disk 1 is offline: a failover cluster manages it", disk(func(d *admin.Disk) { d.Online, d.Clustered = false, true })},
		{"a full volume", "the volume " + id + " is full: 9 B of 1000 B are free", volume(func(v *admin.Volume) { v.FreeBytes = 9 })},
		{"an offline volume", "the volume " + id + " is offline", volume(func(v *admin.Volume) { v.Offline = true })},
		{"a silent volume", "the volume " + id + " does not answer: not ready", volume(func(v *admin.Volume) { v.Error = "not ready" })},
		{"a disk explains its volume", "disk 1 refuses writes", func() *admin.DescribeResponse {
			n := disk(func(d *admin.Disk) { d.WriteProtected = true })
			n.Volumes[0].Error = "not ready"
			return n
		}()},
	} {
		q := &inquiry{a: &app{}, node: c.node}
		q.volumeOnly(t.Context(), id)
		if q.Result != resultProblem || !strings.HasPrefix(q.Cause, c.want) || q.Remedy == "" {
			t.Errorf("%s: %s %q, remedy %q, want a problem with %q and a remedy", c.name, q.Result, q.Cause, q.Remedy, c.want)
		}
	}
	q := &inquiry{a: &app{}, node: volume(func(v *admin.Volume) { v.MountedAt = []string{`C:\k\`} })}
	if q.volumeOnly(t.Context(), strings.ToUpper(id)); q.Result != resultOK {
		t.Errorf("a healthy volume: %s %q, want ok", q.Result, q.Cause)
	}
}

// What calls in flight explain.
func TestWhyCalls(t *testing.T) {
	const id = `\\?\Volume{12345678-90ab-4cde-8f01-234567890abc}\`
	format := &admin.Call{Id: 4, Method: "FormatVolume", Target: "volume_id=" + id, Phase: "running", Win32: "Format", AgeMilliseconds: 60_000}
	waits := &admin.Call{Id: 5, Method: "MountVolume", Target: "volume_id=" + id + " target_path=`C:\\k\\a b`", Phase: "running", WaitsFor: "volume", HeldBy: []uint64{4}, AgeMilliseconds: 12_000}
	young := &admin.Call{Id: 4, Method: "FormatVolume", Phase: "running", Win32: "Format", AgeMilliseconds: 2_000}
	queued := &admin.Call{Id: 6, Method: "Mkdir", Target: `path="C:\\k\\it` + "`" + `s"`, Phase: "queued", AgeMilliseconds: 12_000}
	disk := &admin.Call{Id: 7, Method: "Rescan", Target: "disk_number=12 is_online=true", Phase: "running", Win32: "DeviceIoControl", CallerGone: true}
	own := &admin.Call{Id: 8, Method: "MountVolume", Target: "volume_id=" + id, Phase: "running", WaitsFor: "volume", HeldBy: []uint64{0}, AgeMilliseconds: 12_000}
	const restart = "restart the node"
	for _, c := range []struct {
		name        string
		calls       []*admin.Call
		of          string
		disk        uint32
		cause, want string // of the remedy
	}{
		{"a format", []*admin.Call{format}, id, 0, "call 4, FormatVolume, has not ended for 1m0s: in Format", restart},
		{"a call that waits for it", []*admin.Call{waits, format}, `c:\K\A B`, 0, "call 4, FormatVolume, has not ended for 1m0s: in Format; call 5, MountVolume, waits for it", restart},
		{"a call that waits for a young one", []*admin.Call{waits, young}, `C:\k\a b\`, 0, "call 5, MountVolume, has not ended for 12s: waits for volume, held by call 4", "--watch"},
		{"a call that waits for csi-proxy", []*admin.Call{own}, id, 0, "call 8, MountVolume, has not ended for 12s: waits for volume, held by csi-proxy itself", "--watch"},
		{"a queued call", []*admin.Call{queued}, "C:\\k\\it`s", 0, "call 6, Mkdir, has not ended for 12s: queued", "--watch"},
		{"a young call", []*admin.Call{young}, id, 0, "", ""},
		{"another path", []*admin.Call{waits, format}, `C:\k\a`, 0, "", ""},
		{"a disk", []*admin.Call{disk}, "", 12, "call 7, Rescan, has not ended for 0s: in DeviceIoControl", restart},
		{"a disk by its older name", []*admin.Call{{Id: 9, Method: "DiskStats", Target: "diskID=12", Phase: "running", Win32: "CreateFile", CallerGone: true}}, "", 12, "call 9, DiskStats, has not ended for 0s: in CreateFile", restart},
		{"another disk", []*admin.Call{disk}, "", 1, "", ""},
	} {
		q := &inquiry{a: &app{}, calls: c.calls}
		q.checkCalls(c.of)
		q.checkCallsOn(c.disk)
		if q.Cause != c.cause || !strings.Contains(q.Remedy, c.want) || strings.Contains(q.Remedy, restart) != (c.want == restart) {
			t.Errorf("%s: %q, remedy %q, want %q and %q", c.name, q.Cause, q.Remedy, c.cause, c.want)
		}
	}
}

// The failed calls that may explain something.
func TestWhyRecentFailures(t *testing.T) {
	const blank, formatted, gone = `\\?\Volume{11111111-90ab-4cde-8f01-234567890abc}\`, `\\?\Volume{22222222-90ab-4cde-8f01-234567890abc}\`, `\\?\Volume{33333333-90ab-4cde-8f01-234567890abc}\`
	failed := func(method, target, code string, age time.Duration) *admin.FailedCall {
		return &admin.FailedCall{Call: &admin.Call{Method: method, Target: target, AgeMilliseconds: age.Milliseconds()}, Code: code, Error: "x"}
	}
	for name, c := range map[string]struct {
		call *admin.FailedCall
		want bool
	}{
		"a failure":           {failed("FormatVolume", "volume_id="+blank, "Internal", time.Minute), true},
		"an old one":          {failed("FormatVolume", "volume_id="+blank, "Internal", recently), false},
		"done since":          {failed("FormatVolume", "volume_id="+formatted, "Internal", time.Minute), false},
		"another method":      {failed("ResizeVolume", "volume_id="+formatted, "Internal", time.Minute), true},
		"mounted since":       {failed("MountVolume", "volume_id="+formatted+` target_path=C:\k\g`, "Internal", time.Minute), false},
		"mounted elsewhere":   {failed("MountVolume", "volume_id="+formatted+` target_path=C:\k\h`, "Internal", time.Minute), true},
		"a volume that left":  {failed("MountVolume", "volume_id="+gone, "NotFound", time.Minute), false},
		"a call that goes on": {failed("PartitionDisk", "disk_number=3", "DeadlineExceeded", time.Minute), false},
		"one that does not":   {failed("PartitionDisk", "disk_number=4", "DeadlineExceeded", time.Minute), true},
	} {
		q := &inquiry{
			node:  &admin.DescribeResponse{Volumes: []*admin.Volume{{Id: blank}, {Id: formatted, FileSystem: "NTFS", MountedAt: []string{`C:\k\g\`}}}},
			calls: []*admin.Call{{Method: "PartitionDisk", Target: "disk_number=3", CallerGone: true}},
		}
		if got := len(recent(q.node, q.calls, []*admin.FailedCall{c.call})) == 1; got != c.want {
			t.Errorf("%s: kept is %t, want %t", name, got, c.want)
		}
	}
	overcome := failed("PartitionDisk", "disk_number=4", "Internal", time.Minute)
	overcome.Overcome = true
	q := &inquiry{node: &admin.DescribeResponse{}}
	if kept := recent(q.node, q.calls, []*admin.FailedCall{overcome}); len(kept) > 0 {
		t.Error("a failure is kept that a later call has overcome")
	}
	own := failed("PartitionDisk", "disk_number=4", "ResourceExhausted", time.Minute)
	own.Call.Process = uint32(os.Getpid())
	if kept := recent(q.node, q.calls, []*admin.FailedCall{own}); len(kept) > 0 {
		t.Error("a failure of this command is kept")
	}
	q = &inquiry{node: &admin.DescribeResponse{VolumesError: "no answer"}}
	if kept := recent(q.node, q.calls, []*admin.FailedCall{failed("FormatVolume", "volume_id="+gone, "Internal", time.Minute)}); len(kept) != 1 {
		t.Error("where volumes are not known, the failure of one is not kept")
	}
}

// An event has the error of a call, in quotes or not; a deadline alone says nothing.
func TestWhyQuotedErrors(t *testing.T) {
	const message = `format volume "\\?\Volume{1}\": I/O device error.`
	for _, c := range []struct {
		text, message string
		want          bool
	}{
		{"staging failed: " + message, message, true},
		{"staging failed: " + strconv.Quote(message), message, true},
		{"staging failed: I/O device error.", message, false},
		{"rpc error: code = DeadlineExceeded desc = context deadline exceeded", "context deadline exceeded", false},
	} {
		q := &inquiry{text: c.text}
		if got := q.quotes(&admin.FailedCall{Error: c.message}); got != c.want {
			t.Errorf("%s has the error %s: %t, want %t", c.text, c.message, got, c.want)
		}
	}
}

// Drivers spell paths and shares in several ways.
func TestWhySpellings(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`c:/K/a//b/`, `C:\k\a\b`, true},
		{`/k/a`, `C:\k\a`, true},
		{`\k\a`, `C:\k\a`, true},
		{`C:/k/ab`, `C:\k\a`, false},
		{`\\?\C:\k\a`, `C:\k\a`, true},
		{`\\?\Volume{12345678-90ab-4cde-8f01-234567890abc}`, `\\?\volume{12345678-90AB-4cde-8f01-234567890abc}\`, true},
		{"3", "4", false},
	} {
		if got := samePath(c.a, c.b); got != c.want {
			t.Errorf("%s and %s are the same: %t, want %t", c.a, c.b, got, c.want)
		}
	}
	for path, want := range map[string]bool{
		`\\nas\data`: true, `//NAS/data/`: true, `//nas/data/dir`: true, `\\nas\data\dir`: true, `\\nas\data2`: false, `C:\nas\data`: false, "3": false,
	} {
		if got := onShare(path, `\\nas\Data`); got != want {
			t.Errorf("%s is on the share: %t, want %t", path, got, want)
		}
	}
}

// A problem replaces a note, and nothing replaces a problem.
func TestWhyConcludes(t *testing.T) {
	q := &inquiry{}
	q.conclude(resultNote, "a", "")
	q.conclude(resultOK, "b", "")
	if q.Cause != "a" {
		t.Errorf("after a note and an ok: %q, want a", q.Cause)
	}
	q.blame("c", "")
	q.blame("d", "")
	if q.Result != resultProblem || q.Cause != "c" {
		t.Errorf("after a note and two problems: %s %q, want the first problem", q.Result, q.Cause)
	}
}

// Content of another system, and content that csi-proxy itself writes.
func TestWhyForeignContent(t *testing.T) {
	for _, c := range []struct {
		name, style string
		hasVolumes  bool
		found       []string
		want        string
	}{
		{"a blank partition", "GPT", true, []string{"partition 1", "partition 2", "GPT partition table"}, ""},
		{"the rest of a format", "GPT", true, []string{"partition 2, NTFS", "GPT partition table", "unknown content at byte 7"}, ""},
		{"the rest of a format, MBR", "MBR", true, []string{"partition 1, unknown content", "boot sector or MBR partition table"}, ""},
		{"a table without a volume", "GPT", false, []string{"partition 1", "GPT partition table"}, ""},
		{"another system's partition", "GPT", true, []string{"partition 2, XFS", "GPT partition table"}, "XFS"},
		{"a partition without a volume", "GPT", false, []string{"partition 1, NTFS", "GPT partition table"}, "NTFS"},
		{"no table", "RAW", false, []string{"XFS"}, "XFS"},
		{"no table, but a volume", "RAW", true, []string{"LUKS"}, "LUKS"},
		{"a damaged table", "RAW", false, []string{"GPT partition table"}, "GPT partition table"},
	} {
		in := &admin.DiskContent{Serial: "S"}
		for _, f := range c.found {
			in.Found = append(in.Found, &admin.Content{What: f})
		}
		want := ""
		if c.want != "" {
			want = "disk 1 has content that is not a Windows volume (" + c.want + "), which csi-proxy does not overwrite"
		}
		if cause := foreignTrouble(&admin.Disk{Number: 1, Style: c.style}, c.hasVolumes, in, "disk 1").cause; cause != want {
			t.Errorf("%s: %q, want %q", c.name, cause, want)
		}
	}
}

// The daemon chooses the words for content.
func TestContentWords(t *testing.T) {
	for ours, theirs := range map[string]string{bootSector: storage.BootSector, unknownContent: storage.UnknownContent, emptyTable: storage.EmptyTable} {
		if ours != theirs {
			t.Errorf("csi-proxy calls it %q, not %q", theirs, ours)
		}
	}
}

func TestVolumeHandle(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "vol_data.json")
	if err := os.WriteFile(outside, []byte(`{"volumeHandle":"outside"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"specVolID":"pvc-1","volumeHandle":"a/b"}`:                   "a/b",
		`{"specVolID":"pvc-1"}`:                                        "",
		`{"volumeHandle":7}`:                                           "",
		`{"volumeHandle":"a"` + strings.Repeat(" ", volDataSize) + `}`: "",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "vol_data.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := volumeHandle(dir); got != want {
			t.Errorf("%.50s: %q, want %q", text, got, want)
		}
	}
	dir := t.TempDir()
	if got := volumeHandle(dir); got != "" {
		t.Errorf("no file: %q", got)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "vol_data.json")); err == nil {
		if got := volumeHandle(dir); got != "" {
			t.Errorf("a link out of the directory: %q", got)
		}
	}
}
