package images_test

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/test/sparse"
)

// everything is the variable with which the matrix has all of its images, as in make soak.
const everything = "CSI_PROXY_ALL_IMAGES"

// sample are the contents of which the short form of the matrix has images: each with a third of
// what may have happened to it.
var sample = []string{"ext4", "XFS", "btrfs", "GFS2", "NTFS", "LUKS2", "LUKS with its header elsewhere", "md 1.0, without content", "GPT with an ext4", "VHDX", "text in the last sector", "bitlk-aes-xts-128.img", "exfat.img"}

// No content of another system, of whatever age and in whatever state, is destroyed: as the
// whole disk by PartitionDisk and then FormatVolume, in a partition by FormatVolume, and
// behind a partition by ResizeVolume. The bytes decide. A refusal changes nothing, and
// after exactly the remedy that it names, the same request succeeds. What is blank is not
// refused.
func TestForeignContentIsKept(t *testing.T) {
	m, all := maker{map[string][]piece{}}, os.Getenv(everything) != ""
	sample := sample
	if testing.Short() {
		sample = sample[:2]
	}
	sum := &tally{seed: maphash.MakeSeed(), counts: map[string]int{}}
	judge := func(t *testing.T, class, name string, size int64, base []piece) {
		which := slices.Index(sample, name)
		for k, h := range whatHappened() {
			if class == byWindows && !h.everywhere || class == byOthers && h.name != "nothing" || !all && (which+k)%3 != 0 {
				continue
			}
			i := m.after(t, h, class, name, size, base)
			sum.images++
			synctest.Test(t, func(t *testing.T) { sum.judge(t, i) })
		}
		for _, w := range sum.wrong { // an error within synctest.Test would end the test
			t.Error(w)
		}
		sum.wrong = nil
	}
	for _, c := range contents() {
		if !all && !slices.Contains(sample, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			base, absent := c.base(t)
			if absent != "" {
				t.Skipf("a program is missing, which make test installs as root on Debian: %s", absent)
			}
			judge(t, c.class, c.name, contentSize, base)
		})
	}
	ofOthers(t, all, func(class, name string, size int64, base []piece) {
		if all || slices.Contains(sample, name) {
			t.Run(name, func(t *testing.T) { judge(t, class, name, size, base) })
		}
	})
	sum.report(t, all)
}

// An operation puts an image on a disk and uses the disk.
type operation struct {
	name string
	run  func(*cell)
}

func operations() []operation {
	return []operation{
		{"PartitionDisk", (*cell).partitionDisk},
		{"FormatVolume", (*cell).formatVolume},
		{"ResizeVolume into free space", func(c *cell) { c.resizeVolume(false) }},
		{"ResizeVolume of a disk that grew", func(c *cell) { c.resizeVolume(true) }},
	}
}

// judge does each operation with an image.
func (s *tally) judge(t *testing.T, i *image) {
	n := quiet(t)
	defer n.Close()
	for _, o := range operations() {
		c := &cell{T: t, tally: s, node: n, image: i, operation: o.name}
		o.run(c)
		c.judged()
		if err := errors.Join(n.DetachDisk(c.number), n.DiscardDisk(c.id)); err != nil {
			t.Fatal(err)
		}
	}
}

// A cell is an image and an operation.
type cell struct {
	*testing.T
	tally     *tally
	node      *simnode.Node
	image     *image
	operation string

	number   uint32
	id, file string
	at       int64 // where the image begins on the disk
	outcome  string
	err      error
}

// The outcomes of a cell.
const (
	kept      = "kept"      // success, and no byte changed
	used      = "used"      // success, and no byte of foreign content is in what was written
	refused   = "refused"   // by name
	unknown   = "unknown"   // refused, as unknown content
	unnamed   = "unnamed"   // unknown, although it is intact
	failed    = "failed"    // an error of another kind
	stuck     = "stuck"     // refused, also after the remedy that the refusal names
	destroyed = "destroyed" // bytes of foreign content are gone, or belong to a new file system
)

func (c *cell) wrong(format string, args ...any) {
	c.tally.wrong = append(c.tally.wrong, fmt.Sprintf("%s: %s: %s", c.image, c.operation, fmt.Sprintf(format, args...)))
}

func (c *cell) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %s: %v", c.image, c.operation, err)
	}
}

// attach attaches a disk, puts the image on it at a byte, and lets it grow before.
func (c *cell) attach(d simnode.Disk, at int64, grownTo simnode.Size) {
	c.Helper()
	d.Offline, d.ReadOnly = new(bool), new(bool)
	info := withData(c.T, c.node, d, grownTo, at, c.image.data)
	c.number, c.id, c.file, c.at = info.Number, info.ID, info.Image, at
}

// partitionDisk has the image as a whole disk.
func (c *cell) partitionDisk() {
	c.attach(simnode.Disk{Size: simnode.Size(c.image.size)}, 0, 0)
	_, err := c.node.Disk().SetDiskState(c.Context(), &disk.SetDiskStateRequest{DiskNumber: c.number, IsOnline: false})
	if err == nil && strings.HasPrefix(c.image.content, "ldm-") && c.image.happened == "nothing" {
		c.wrong("SetDiskState takes a dynamic disk offline")
	}
	c.do(c.partition, "")
	for _, v := range c.volumes() {
		if c.outcome != kept && c.outcome != used {
			return
		}
		c.do(func() error { return c.format(v) }, v)
	}
}

func (c *cell) partition() error {
	_, err := c.node.Disk().PartitionDisk(c.Context(), &disk.PartitionDiskRequest{DiskNumber: c.number})
	return err
}

func (c *cell) format(id string) error {
	_, err := c.node.Volume().FormatVolume(c.Context(), &volume.FormatVolumeRequest{VolumeID: id})
	return err
}

// formatVolume has the image in the only partition of a disk.
func (c *cell) formatVolume() {
	size := simnode.Size(c.image.size)
	c.attach(simnode.Disk{Size: size + 2*mib, Content: nodespec.ContentGPTNoMSR, Partitions: []simnode.Partition{{Size: size}}}, mib, 0)
	id := c.only()
	is, err := c.node.Volume().IsVolumeFormatted(c.Context(), &volume.IsVolumeFormattedRequest{VolumeID: id})
	c.do(func() error { return c.format(id) }, id)
	if err == nil && !is.Formatted && c.err != nil {
		c.wrong("IsVolumeFormatted says no, and FormatVolume refuses: %v", c.err)
	}
}

// resizeVolume has the image behind the only partition of a disk: in space that the table
// does not use, or behind what was the end of the disk before it grew.
func (c *cell) resizeVolume(grown bool) {
	const own, end = 64 * mib, 66 * mib // a lost partition begins where the own one ends
	d := simnode.Disk{Size: end, Content: nodespec.ContentGPTNoMSR, Partitions: []simnode.Partition{{Size: own, FileSystem: "NTFS"}}}
	if size := simnode.Size(c.image.size) + end; grown {
		c.attach(d, end, size)
	} else {
		d.Size = size
		c.attach(d, own+mib, 0)
	}
	id := c.only()
	c.do(func() error {
		_, err := c.node.Volume().ResizeVolume(c.Context(), &volume.ResizeVolumeRequest{VolumeID: id})
		return err
	}, id)
	if is, err := c.node.Volume().IsVolumeFormatted(c.Context(), &volume.IsVolumeFormattedRequest{VolumeID: id}); err != nil || !is.Formatted {
		c.wrong("the volume is not usable afterwards: %v", err)
	}
}

func (c *cell) volumes() []string {
	vols, err := c.node.Volume().ListVolumesOnDisk(c.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: c.number})
	if err != nil {
		return nil // of a disk that was refused
	}
	return vols.VolumeIDs
}

func (c *cell) only() string {
	c.Helper()
	ids := c.volumes()
	if len(ids) != 1 {
		c.Fatalf("%s: %s: volumes %q, want one", c.image, c.operation, ids)
	}
	return ids[0]
}

func (c *cell) state() simnode.DiskInfo {
	s, err := c.node.Show()
	c.must(err)
	return s.Disks[slices.IndexFunc(s.Disks, func(d simnode.DiskInfo) bool { return d.Number == c.number })]
}

// do makes a request, about a volume or about the disk, and finds its outcome.
func (c *cell) do(request func() error, id string) {
	c.Helper()
	before, was, calls := c.sum(), c.state(), c.node.Record()
	c.err = request()
	calls.Stop()
	changed := c.sum() != before
	blank := len(c.image.data) == 0 || c.at == 0 && len(c.image.foreign) == 0
	switch {
	case c.err == nil && (c.gone() || c.taken(was, calls)):
		c.outcome = destroyed
	case c.err == nil && changed:
		c.outcome = used
	case c.err == nil:
		c.outcome = kept
	case changed:
		c.wrong("refused, but bytes have changed: %v", c.err)
	case blank:
		c.wrong("it is blank, and was refused: %v", c.err)
	case !errors.Is(c.err, hosterr.ErrFailedPrecondition):
		c.outcome = failed
	case strings.Contains(c.err.Error(), storage.UnknownContent):
		c.outcome = unknown
	default:
		c.outcome = refused
	}
	if c.err != nil && !changed {
		if err := c.remedied(request, id); err != nil {
			c.outcome, c.err = stuck, fmt.Errorf("%w; %w", c.err, err)
		}
	}
}

// sum returns a hash of the disk.
func (c *cell) sum() uint64 {
	var h maphash.Hash
	h.SetSeed(c.tally.seed)
	size, err := sparse.Blocks(c.file, pieceSize, func(at int64, b []byte) error {
		maphash.WriteComparable(&h, at)
		h.Write(b)
		return nil
	})
	c.must(err)
	maphash.WriteComparable(&h, size)
	return h.Sum64()
}

// gone reports whether a byte of foreign content has changed.
func (c *cell) gone() bool {
	f, err := os.Open(c.file)
	c.must(err)
	defer f.Close()
	now := make([]byte, pieceSize)
	for _, p := range c.image.foreign {
		_, err := f.ReadAt(now[:len(p.b)], p.at+c.at)
		c.must(err)
		for i, b := range p.b {
			if b != 0 && now[i] != b {
				return true
			}
		}
	}
	return false
}

// taken reports whether foreign content lies in a volume that was formatted, or in what a
// partition has gained: what it writes next goes there.
func (c *cell) taken(was simnode.DiskInfo, calls *simnode.Recording) bool {
	formatted := slices.ContainsFunc(calls.Calls(), func(call simnode.Call) bool { return call.Name == winapi.Format && call.Err == nil })
	now := c.state()
	return slices.ContainsFunc(now.Partitions, func(p simnode.PartitionInfo) bool {
		from := int64(p.Offset)
		switch i := slices.IndexFunc(was.Partitions, func(q simnode.PartitionInfo) bool { return q.Offset == p.Offset }); {
		case p.Type == "msr":
			return false
		case i >= 0 && !formatted:
			from += int64(was.Partitions[i].Length)
		case !formatted:
			return false // a new partition, whose volume is formatted next
		}
		to := int64(p.Offset + p.Length)
		return from < to && slices.ContainsFunc(c.image.foreign, func(f piece) bool { return f.at+c.at+int64(len(f.b)) > from && f.at+c.at < to })
	})
}

// remedy does what the refusal says, and nothing else.
func remedy(t *testing.T, n *simnode.Node, d simnode.DiskInfo, refusal error) error {
	command := regexp.MustCompile(`csi-proxyctl disk clear (\d+|NUMBER)(?: --(partition|behind) (\d+|NUMBER))? --serial SERIAL`).FindStringSubmatch(hosterr.HintOf(refusal))
	if command == nil || command[1] != "NUMBER" && command[1] != fmt.Sprint(d.Number) {
		return fmt.Errorf("it names none for disk %d, only %q", d.Number, hosterr.HintOf(refusal))
	}
	c := diskapi.Clearing{Identity: d.Serial}
	part, err := strconv.ParseUint(command[3], 10, 32)
	if err != nil { // NUMBER, or none; what Windows mounts is in the first partition
		part = 1
	}
	switch command[2] {
	case "partition":
		c.Partition = uint32(part)
	case "behind":
		c.Behind = uint32(part)
	}
	asked := c
	asked.DryRun = true
	_, dry := n.Disk().(*disk.Disk).Clear(t.Context(), d.Number, asked)
	_, err = n.Disk().(*disk.Disk).Clear(t.Context(), d.Number, c)
	return errors.Join(dry, err)
}

// remedied returns an error unless the request succeeds after the remedy. A remedy that takes
// the volume of the request leaves a disk that is used from the beginning.
func (c *cell) remedied(request func() error, id string) error {
	if err := remedy(c.T, c.node, c.state(), c.err); err != nil {
		return fmt.Errorf("the remedy: %w", err)
	}
	var err error
	if id == "" || slices.Contains(c.volumes(), id) {
		err = request()
	} else {
		err = c.partition()
	}
	if err == nil && !slices.Contains(c.volumes(), id) {
		_, err = inUse(c.T, c.node, c.number)
	}
	if err != nil {
		return fmt.Errorf("after the remedy: %w", err)
	}
	return nil
}

// An exception is images with which an operation ends badly, and why that remains.
type exception struct{ outcome, operation, content, happened, reason string }

func exceptions() []exception {
	const (
		noBeginning = "its beginning is lost, and what is left lies at none of the places that are read"
		noEnd       = "a few bytes where a partition or disk ended, and nothing says where that was"
		noMark      = "a little data without a mark, at none of the places that are read"
	)
	return []exception{
		{destroyed, "*", "md *, without content", "*", noEnd},
		{destroyed, "*", "text in the last sector", "*", noEnd},
		{destroyed, "*", "GPT", "*, 2 GiB", noEnd},
		{destroyed, "*", "ext4, one backup", "first half lost", noBeginning},
		{destroyed, "*", "ReiserFS", "first half lost", noBeginning},
		{destroyed, "*", "GFS2", "first *", noBeginning},
		{destroyed, "*", "JFS", "diskpart clean", noBeginning},
		{destroyed, "*", "Minix 3", "first MiB lost", noBeginning},
		{destroyed, "*", "Minix 3", "diskpart clean", noBeginning},
		{destroyed, "ResizeVolume *", "XFS*", "first *", noBeginning},
		{destroyed, "ResizeVolume *", "XFS*", "diskpart clean", noBeginning},
		{destroyed, "ResizeVolume *", "OCFS2", "first *", noBeginning},
		{destroyed, "ResizeVolume *", "OCFS2", "diskpart clean", noBeginning},
		{destroyed, "*", "LUKS with its header elsewhere, at 16 MiB", "*", noMark},
		{destroyed, "*", "MBR with an NTFS", "first *", noBeginning},
		{destroyed, "*", "ldm-2003r2-*", "diskpart clean", noBeginning},
		{destroyed, "*", "udf-hdd-win7.img", "first MiB lost", noBeginning},
		{destroyed, "*", "udf-hdd-win7.img", "diskpart clean", noBeginning},
		{destroyed, "*", "text at 1 MiB", "partition at *", noMark},
		{destroyed, "*", "tar at 5 MiB", "*", noMark},
		{stuck, "PartitionDisk", "GPT of Linux, EFI and ext4", "*", "FormatVolume names what is in an EFI partition before it says that this is no data partition"},
	}
}

// tally counts outcomes.
type tally struct {
	seed    maphash.Seed
	images  int
	counts  map[string]int
	excused [64]int
	wrong   []string
}

// judged counts a cell. A bad outcome must be an exception.
func (c *cell) judged() {
	s := c.tally
	s.counts[c.outcome]++
	if c.outcome == unknown && c.image.happened == "nothing" && slices.Contains([]string{linux, windows, table, byWindows}, c.image.class) {
		c.outcome = unnamed
	}
	if !slices.Contains([]string{failed, unnamed, stuck, destroyed}, c.outcome) {
		return
	}
	for i, e := range exceptions() {
		if e.outcome == c.outcome && match(e.operation, c.operation) && match(e.content, c.image.content) && match(e.happened, c.image.happened) {
			s.excused[i]++
			return
		}
	}
	c.wrong("%s: %v", c.outcome, c.err)
}

func match(pattern, s string) bool {
	ok, err := path.Match(pattern, strings.ReplaceAll(s, "/", " "))
	return ok && err == nil
}

func (s *tally) report(t *testing.T, all bool) {
	t.Logf("%d images × %d operations: %v", s.images, len(operations()), s.counts)
	for i, e := range exceptions() {
		if s.excused[i] > 0 {
			t.Logf("%d times %s: %s, %s, %s: %s", s.excused[i], e.outcome, e.operation, e.content, e.happened, e.reason)
		} else if all {
			t.Errorf("no image needs the exception %v", e)
		}
	}
	if all && s.images < 600 {
		t.Errorf("%d images, want 600", s.images)
	}
}
