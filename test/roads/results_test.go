package roads

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A result is what a road notes that is not complete. What is noted is the driver's decision,
// not one of CSI Proxy: why says which.
type result struct {
	driver string
	ways   []string // all, if empty
	worlds []string // all, if empty
	notes  string   // … stands for any text
	why    string
}

const (
	complete = "complete"
	offline  = "restart, other numbers and offline"
	keeps    = "…expand fails: the volume has 1 GiB, want 2; the volume keeps its size"
	left     = "left: the SMB mapping"
	noPath   = "stats first: …; expand first: …"
)

// roadResults are those of roads without a loss.
var roadResults = []result{
	{driver: "AWS EBS", worlds: []string{offline}, notes: "stage fails: …not found",
		why: "it ends with an error if a volume is mounted whose disk is offline, before it would take the disk online"},
	{driver: "Azure Disk", worlds: []string{offline}, notes: "stage succeeds at call 2, after resize volume …; stage fails: the driver panics: …",
		why: "it does not take disks online, and uses the first volume of the list even if there is none"},
	{driver: "Azure Disk", notes: "stage succeeds at call 2, after resize volume …; " + keeps,
		why: "it passes the number of a disk to ResizeVolume at stage; the second call finds the volume mounted. It refuses to expand a volume that does not have the new size yet"},
	{driver: "Azure File", notes: left, why: "it never removes a mapping"},
	{driver: "SMB", ways: []string{"v1beta"}, notes: left, why: "it removes no mapping with the beta versions"},
	{driver: "vSphere", notes: "expand succeeds, and the volume keeps its size", why: "it skips a resize if the disk has the new size, which it has after a rescan"},
	{driver: "local static provisioner", worlds: []string{offline}, notes: "stage fails: the path is not a link: …",
		why: "a local volume is mounted by the administrator, who also has to take its disk online"},
}

// lossResults are what a road with a lost response notes besides. CSI Proxy did the work, and
// the second call finds it done.
var lossResults = []result{
	{driver: "AWS EBS", worlds: []string{"disks arrive offline", "restart, other disk numbers"}, notes: "left: the disk is online: …",
		why: "called again, it returns before it takes the disk offline"},
	{driver: "GCE PD", notes: "unstage fails: …(response to … lost); left: the disk is online: …",
		why: "it returns an error if the volume is already unmounted, and then before it takes the disk offline"},
	{driver: "SMB", ways: []string{"v1"}, notes: "unstage fails: … (response to RemoveSmbGlobalMapping lost)",
		why: "the first call removed the driver's own note of the volume, which the second needs"},
}

// orderResults are those of roads after calls that came too early.
var orderResults = []result{
	{driver: "AWS EBS", notes: noPath},
	{driver: "GCE PD", notes: noPath},
	{driver: "Azure Disk", notes: noPath + "; stage succeeds at call 2, after resize volume …; " + keeps},
	{driver: "Azure File", notes: "stats first: the path cannot be read; " + left},
	{driver: "SMB", ways: []string{"v1beta"}, notes: "stats first: the path cannot be read; " + left},
	{driver: "SMB", notes: "stats first: the path cannot be read"},
	{driver: "vSphere", notes: noPath + "; expand succeeds, and the volume keeps its size"},
	{driver: "Trident", notes: "stats first: the path cannot be read"},
}

// hold compares the notes of a road with the first result of its driver, way and world.
func hold(t *testing.T, results []result, d driver, w way, world, got string) {
	t.Helper()
	want := result{notes: complete}
	for _, r := range results {
		if r.driver == d.name && (r.ways == nil || slices.Contains(r.ways, w.name)) && (r.worlds == nil || slices.Contains(r.worlds, world)) {
			want = r
			break
		}
	}
	if !regexp.MustCompile("^(?s:" + strings.ReplaceAll(regexp.QuoteMeta(want.notes), "…", ".*") + ")$").MatchString(got) {
		t.Errorf("%s, %s, %s:\n%s\nwant\n%s\n%s", d.name, w.name, world, got, want.notes, want.why)
	}
}
