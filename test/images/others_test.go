package images_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf16"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// files has the SHA-256 of the files with images, in directories named after Debian's
// source packages.
//
//go:embed testdata/images.sha256
var files string

// An origin is what is known about some of the images, by their names. The first one that
// matches counts.
type origin struct {
	name   string // as path.Match has it
	images int    // how many there are
	kind   string // for the reader
	by     string // which program made them
	mark   string // is in the image, and in none that another program makes
	// windows means that Windows wrote the image, and nothing else changed it.
	windows bool
	// disk and volume are in what is said of a whole disk and of a volume that is the
	// image; "kept" means that nothing is said: it has partitions, or an NTFS, and the
	// request is done. If volume is "", the image is not a volume.
	disk, volume string
}

// kept stands for no error and no change.
const kept = "kept"

const dynamic = "a dynamic-disk partition"

func utf16le(s string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

// origins begins with the images that Windows wrote. BitLocker and LDM write the name of
// their machine, and format its own boot code.
func origins() []origin {
	const ntldr = "NTLDR      "
	return []origin{
		{"bitlk-togo-*", 2, "BitLocker To Go, a FAT32 in front of it", "Windows 10", utf16le("DESKTOP-"), true, "BitLocker", "BitLocker"},
		{"bitlk-*-win11.img", 1, "BitLocker", "Windows 11", utf16le("WIN11 "), true, "BitLocker", "BitLocker"},
		{"bitlk-aes-cbc-elephant-*", 2, "BitLocker, with the diffuser of Windows Vista and 7", "Windows, by the name of the machine in it", utf16le("WIN-TR6JK2CTSJC"), true, "BitLocker", "BitLocker"},
		{"bitlk-*", 11, "BitLocker: AES-CBC and XTS, 128 and 256 bits, sectors of 4 KiB, used space only, suspended, smart card, startup key", "Windows 10", utf16le("DESKTOP-"), true, "BitLocker", "BitLocker"},
		{"ldm-2003r2-*", 10, "dynamic disk in an MBR: simple, spanned, striped, mirrored, RAID-5", "Windows Server 2003 R2", "Red-nzv8x6obywgDg0", true, dynamic, ""},
		{"ldm-2008r2-*", 9, "dynamic disk in an MBR or a GPT: spanned, striped, mirrored, RAID-5", "Windows Server 2008 R2", "WIN-ERRDJSBDAVF-Dg0", true, dynamic, ""},
		{"ntfs.img", 1, "NTFS", "Windows, by its boot code", "BOOTMGR is missing", true, "NTFS", kept},
		{"exfat.img", 1, "exFAT", "Windows, by its boot code", "Remove disks or other media.", true, "exFAT", "exFAT"},
		{"fat32_xp_none.img", 1, "FAT32", "Windows XP", ntldr, true, "FAT", "FAT32"},
		{"fat32_xp_label1.img", 1, "FAT32 with a label", "Windows XP", ntldr, true, "FAT", "FAT32"},
		{"fat32_label_64MB.img", 1, "FAT32 with a label", "Windows, by its boot code", ntldr, true, "FAT", "FAT32"},
		{"udf-hdd-win7.img", 1, "UDF", "Windows 7", "*Microsoft Windows", true, "UDF", "UDF"},

		{"fat32_xp_*", 2, "FAT32", "Windows XP, then changed by dosfslabel or mlabel", "", false, "FAT", "FAT32"},
		{"fat32_*_xp_*", 5, "FAT32", "mkdosfs, then changed by Windows XP", "", false, "FAT", "FAT32"},
		{"*fat*", 13, "FAT", "mkfs.fat, mtools, a camera", "", false, "FAT", "FAT"},
		{"udf-*", 19, "UDF", "mkudffs, udfclient, genisoimage, Nero, macOS", "", false, "UDF|ISO 9660", "UDF|ISO 9660"},
		{"dos+bsd.img", 1, "MBR with a BSD disk label", "unknown", "", false, kept, ""},
		{"gpt.img", 1, "GPT", "unknown", "", false, kept, ""},
		{"minix-BE.img", 1, "Minix, big-endian", "unknown", "", false, "unknown content", "unknown content"},
		{"adaptec-raid.img", 1, "Adaptec RAID", "unknown", "", false, "unknown content", "unknown content"},
		{"silicon-raid.img", 1, "Silicon Image RAID", "unknown", "", false, "unknown content", "unknown content"},
		{"via-raid.img", 1, "VIA RAID", "unknown", "", false, "unknown content", "unknown content"},
		{"atari-*", 2, "partition table of Atari", "unknown", "", false, "unknown content", "unknown content"},
		{"*", 63, "other file systems, RAIDs and partition tables", "programs of other systems", "", false, "(", "("},
	}
}

// originOf returns the index of the image's origin.
func originOf(name string) int {
	return slices.IndexFunc(origins(), func(o origin) bool {
		ok, err := path.Match(o.name, name)
		return ok && err == nil
	})
}

// A content is the parts of an image that are not zero, each within a MiB of it. The size is
// not known of a file that ends with a hole.
type content struct {
	size int64
	data []nodespec.Bytes
}

func readContent(r io.Reader) (c content, err error) {
	b, zeros := make([]byte, mib), make([]byte, mib)
	f, sparse := r.(*os.File)
	for {
		if sparse {
			const seekData = 3 // of Linux: to the next byte that is not in a hole
			if data, err := f.Seek(c.size, seekData); err != nil {
				return c, nil
			} else if c.size, err = f.Seek(data/mib*mib, io.SeekStart); err != nil {
				return c, err
			}
		}
		n, err := io.ReadFull(r, b)
		if !bytes.Equal(b[:n], zeros[:n]) {
			c.data = append(c.data, nodespec.Bytes{At: simnode.Size(c.size), Data: bytes.Clone(bytes.TrimRight(b[:n], "\x00"))})
		}
		c.size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return c, nil
		} else if err != nil {
			return c, err
		}
	}
}

func (c content) has(text string) bool {
	return slices.ContainsFunc(c.data, func(b nodespec.Bytes) bool { return bytes.Contains(b.Data, []byte(text)) })
}

// moved returns the content at a later place of a disk.
func (c content) moved(by int64) []nodespec.Bytes {
	data := slices.Clone(c.data)
	for i := range data {
		data[i].At += simnode.Size(by)
	}
	return data
}

// without returns the content with zeros in an area.
func (c content) without(from, to int64) content {
	left := content{size: c.size}
	for _, b := range c.data {
		data := bytes.Clone(b.Data)
		at := int64(b.At)
		if first, last := max(from, at), min(to, at+int64(len(data))); first < last {
			clear(data[first-at : last-at])
		}
		if data = bytes.TrimRight(data, "\x00"); len(data) > 0 {
			left.data = append(left.data, nodespec.Bytes{At: b.At, Data: data})
		}
	}
	return left
}

// eachImage calls do with each image of a file: one that is compressed, or an archive.
func eachImage(file string, do func(name string, c content)) error {
	xz := exec.Command("xz", "--decompress", "--stdout", file)
	out, err := xz.StdoutPipe()
	if err != nil {
		return err
	}
	if err := xz.Start(); err != nil {
		return err
	}
	unpacked := bufio.NewReaderSize(out, mib)
	name := strings.TrimSuffix(path.Base(file), ".xz")
	if strings.HasSuffix(name, ".tar") {
		err = eachMember(unpacked, do)
	} else {
		var c content
		if c, err = readContent(unpacked); err == nil {
			do(name, c)
		}
	}
	_, rest := io.Copy(io.Discard, unpacked)
	return errors.Join(err, rest, xz.Wait())
}

func eachMember(r io.Reader, do func(name string, c content)) error {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !strings.HasSuffix(h.Name, ".img") {
			continue
		}
		c, err := readContent(archive)
		if err != nil {
			return err
		}
		do(path.Base(h.Name), c)
	}
}

// No method changes a disk or volume that Windows or another system has written, and what
// is said of it names what it is.
func TestImagesOfOthersAreKept(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	out, err := exec.Command("../../hack/images.sh", "dir").Output()
	if err != nil {
		t.Skipf("the images of Debian's source packages are not here, and hack/images.sh does not run: %v", err)
	}
	dir := strings.TrimSpace(string(out))
	seen := make([]int, len(origins()))
	c := counts{}
	missing := 0
	for line := range strings.Lines(files) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		missing++
		t.Run(path.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if errors.Is(err, os.ErrNotExist) {
				t.Skip("the image is not here: hack/images.sh get downloads it from Debian")
			} else if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != sum {
				t.Fatalf("SHA-256 %s, want %s", got, sum)
			}
			err = eachImage(filepath.Join(dir, file), func(name string, image content) {
				i := originOf(name)
				seen[i]++
				synctest.Test(t, func(t *testing.T) {
					j := judgeOf(t, c, name, origins()[i], image)
					j.disk()
					j.volume()
					j.dynamicVolume()
					j.damaged()
				})
			})
			if err != nil {
				t.Error(err)
			}
			missing--
		})
	}
	for i, o := range origins() {
		if missing == 0 && seen[i] != o.images {
			t.Errorf("%d images %s, want %d", seen[i], o.name, o.images)
		}
	}
	for _, k := range slices.Sorted(keys(c)) {
		t.Attr("measured", fmt.Sprintf("%s: %d", k, c[k]))
		t.Logf("%s: %d", k, c[k])
	}
}

// counts are results by name.
type counts map[string]int

// imageJudge puts an image under a simulated node.
type imageJudge struct {
	*testing.T
	counts counts
	name   string
	origin origin
	image  content
}

func judgeOf(t *testing.T, c counts, name string, o origin, image content) imageJudge {
	t.Helper()
	if !image.has(o.mark) {
		t.Errorf("%s: nothing in it says that it is by %s", name, o.by)
	}
	return imageJudge{t, c, name, o, image}
}

func (j imageJudge) count(what string) {
	by := "by others"
	if j.origin.windows {
		by = "by Windows"
	}
	j.counts[by+", "+what]++
}

// A use is the disk of a node with an image, and processes that use it: by default, and
// with -unknown-content=overwrite.
type use struct {
	imageJudge
	node    *simnode.Node
	number  uint32
	process [2]*simnode.Process
	calls   *simnode.Recording
	was     content
}

func (j imageJudge) use(d simnode.Disk) *use {
	j.Helper()
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		j.Fatal(err)
	}
	info, err := n.AttachDisk(d)
	if err == nil {
		err = n.AwaitDisk(info.Number)
	}
	if err != nil {
		j.Fatalf("%s: %v", j.name, err)
	}
	return j.begin(n, info.Number)
}

// begin starts the processes, and remembers what is on the disk.
func (j imageJudge) begin(n *simnode.Node, number uint32) *use {
	j.Helper()
	u := &use{imageJudge: j, node: n, number: number}
	var err error
	for i, overwrite := range []bool{false, true} {
		if u.process[i], err = n.NewProcess(simnode.Rules{OverwriteUnknown: overwrite, WorkingDirs: []string{`C:\var`}}); err != nil {
			j.Fatal(err)
		}
	}
	u.was = u.now()
	u.calls = n.Record()
	return u
}

// now reads the disk.
func (u *use) now() content {
	u.Helper()
	return contentOf(u.T, image(u.T, u.node, u.number))
}

// end compares the disk with what it was.
func (u *use) end(where string) {
	u.Helper()
	defer u.node.Close()
	u.wrote("a method without a result here")
	same := func(a, b nodespec.Bytes) bool { return a.At == b.At && bytes.Equal(a.Data, b.Data) }
	if now := u.now(); !slices.EqualFunc(now.data, u.was.data, same) {
		u.Errorf("%s, as a %s: its bytes have changed", u.name, where)
		u.count("as a " + where + ": changed")
		return
	}
	u.count("as a " + where + ": not changed")
}

// wrote reports whether a call since the last time could write, which is an error.
func (u *use) wrote(method string) bool {
	u.Helper()
	calls := u.calls.Calls()
	u.calls.Stop()
	u.calls = u.node.Record()
	for _, c := range calls {
		if writes(c) || c.Name == winapi.DeviceIoControl && (c.Code == winapi.IOCTL_DISK_GROW_PARTITION || c.Code == winapi.FSCTL_EXTEND_VOLUME) {
			u.Errorf("%s: %s makes the call %s", u.name, method, c)
			return true
		}
	}
	return false
}

// says checks the error of a method, which must name the content.
func (u *use) says(method string, err error, want string) {
	u.Helper()
	if u.wrote(method) {
		return
	}
	if want == kept {
		if err != nil {
			u.Errorf("%s: %s: %v, want success without a change", u.name, method, err)
		}
		return
	}
	known := want == "unknown content" || err != nil && !strings.Contains(err.Error(), "unknown content")
	named := slices.ContainsFunc(strings.Split(want, "|"), func(w string) bool { return err != nil && strings.Contains(err.Error(), w) })
	if !errors.Is(err, hosterr.ErrFailedPrecondition) || !known || !named {
		u.Errorf("%s: %s: %v, want a refusal that says %q", u.name, method, err, want)
	}
}

// smallest is the size of the smallest disk of a simulated node.
const smallest = 4 * mib

// place returns where the image is on a larger disk of a size: RAIDs that begin like
// another disk have their signs at the end.
func (j imageJudge) place(size int64) int64 {
	if strings.HasSuffix(j.name, "-raid.img") && j.name != "hpt37x-raid.img" || strings.HasPrefix(j.name, "drbd-") {
		return size - j.image.size
	}
	return 0
}

// disk is the image as a whole disk.
func (j imageJudge) disk() {
	j.Helper()
	size := max(j.image.size+511, smallest) / 512 * 512
	u := j.use(simnode.Disk{Size: simnode.Size(size), Bytes: j.image.moved(j.place(size))})
	defer u.end("disk")
	ctx := u.Context()
	// A dynamic disk has partitions, so there is nothing to do for PartitionDisk.
	says := u.origin.disk
	if says == dynamic {
		says = kept
	}
	processes := u.process[:]
	if says == "unknown content" {
		processes = processes[:1]
	}
	for _, p := range processes {
		for range 2 {
			_, err := p.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: u.number})
			u.says("PartitionDisk", err, says)
		}
		for _, online := range []bool{true, false, true} {
			_, err := p.Disk().SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: u.number, IsOnline: online})
			want := kept
			if u.origin.disk == dynamic && !online {
				want = dynamic
			}
			u.says("SetDiskState", err, want)
		}
		_, err := p.Disk().SetDiskReadOnly(ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: u.number})
		u.says("SetDiskReadOnly", err, kept)
		_, err = p.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: u.number})
		u.says("PartitionDisk", err, says)
	}
	u.reads()
	if u.origin.windows && u.origin.volume != kept {
		if err := u.node.GrowDisk(u.number, simnode.Size(u.image.size+64*mib)); err != nil {
			u.Fatal(err)
		}
		u.reads()
	}
	if says == kept {
		return // its partitions are not data, or are blank
	}
	vols, err := u.node.Volume().ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: u.number})
	if err != nil {
		u.Errorf("%s: %v", u.name, err)
		return
	}
	for _, id := range vols.VolumeIDs {
		u.asked(id)
	}
}

// reads calls the methods that only ask.
func (u *use) reads() {
	u.Helper()
	d := u.node.Disk()
	ctx := u.Context()
	_, e1 := d.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	_, e2 := d.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{})
	_, e3 := d.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: u.number})
	_, e4 := d.GetDiskState(ctx, &disk.GetDiskStateRequest{DiskNumber: u.number})
	_, e5 := d.Rescan(ctx, &disk.RescanRequest{})
	u.says("a method that only reads the disk", errors.Join(e1, e2, e3, e4, e5), kept)
}

// asked calls the methods of a volume on the disk that change something, and ignores what
// they say: a file system without a partition is no data partition.
func (u *use) asked(id string) {
	u.Helper()
	for _, p := range u.process {
		u.format(p, id)
		u.resize(p, id)
	}
}

func (u *use) format(p *simnode.Process, id string) error {
	_, err := p.Volume().FormatVolume(u.Context(), &volume.FormatVolumeRequest{VolumeID: id})
	u.wrote("FormatVolume")
	return err
}

func (u *use) resize(p *simnode.Process, id string) error {
	_, err := p.Volume().ResizeVolume(u.Context(), &volume.ResizeVolumeRequest{VolumeID: id})
	u.wrote("ResizeVolume")
	return err
}

// volume is the image as the only partition of a disk.
func (j imageJudge) volume() {
	j.Helper()
	says := j.origin.volume
	if says == "" {
		return
	}
	size := (j.image.size + mib - 1) / mib * mib
	u := j.use(simnode.Disk{
		Size: simnode.Size(size + 4*mib), Content: nodespec.ContentGPTNoMSR,
		Partitions: []nodespec.Partition{{Size: simnode.Size(size)}}, Bytes: j.image.moved(mib + j.place(size)),
	})
	defer u.end("volume")
	ctx := u.Context()
	_, err := u.node.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: u.number})
	u.says("PartitionDisk", err, kept)
	_, e1 := u.node.Disk().SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: u.number, IsOnline: true})
	_, e2 := u.node.Disk().SetDiskReadOnly(ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: u.number})
	vols, e3 := u.node.Volume().ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: u.number})
	if err := errors.Join(e1, e2, e3); err != nil || len(vols.VolumeIDs) != 1 {
		u.Fatalf("%s: volumes %v, %v, want one", u.name, vols, err)
	}
	id := vols.VolumeIDs[0]
	u.formatted(id, says)
	if strings.HasPrefix(u.origin.kind, "BitLocker") {
		// So it is where Windows has BitLocker.
		if _, err := u.node.Fail(simnode.Fault{Call: winapi.VolumeInformation, Error: "0x80310000"}); err != nil {
			u.Fatal(err)
		}
		u.formatted(id, "locked by BitLocker")
		u.node.ClearFaults()
	}
	u.mounted(id)
	u.reads()
}

// formatted calls the methods that make or need a file system.
func (u *use) formatted(id, says string) {
	u.Helper()
	processes := u.process[:]
	if says == "unknown content" {
		processes = processes[:1]
	}
	for _, p := range processes {
		is, err := p.Volume().IsVolumeFormatted(u.Context(), &volume.IsVolumeFormattedRequest{VolumeID: id})
		if err == nil && !is.Formatted {
			u.Errorf("%s: IsVolumeFormatted says no", u.name)
		}
		want := says
		if err == nil {
			want = kept // Windows mounts it
		}
		u.says("IsVolumeFormatted", err, want)
		u.says("FormatVolume", u.format(p, id), says)
		if says != kept { // an NTFS grows
			u.says("ResizeVolume", u.resize(p, id), says)
		}
	}
}

// mounted mounts the volume and unmounts it.
func (u *use) mounted(id string) {
	u.Helper()
	const target = `C:\var\mounted`
	v := u.node.Volume()
	ctx := u.Context()
	if err := u.node.PutFile(target, true, 0); err != nil {
		u.Fatal(err)
	}
	if _, err := v.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: target}); err == nil {
		_, e1 := v.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeID: id})
		_, e2 := v.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeID: id})
		_, e3 := v.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: target})
		u.says("WriteVolumeCache, GetVolumeStats or UnmountVolume", errors.Join(e1, e2, e3), kept)
	}
	u.wrote("MountVolume")
}

// dynamicVolume is a volume that a dynamic disk and a copy of it have together.
func (j imageJudge) dynamicVolume() {
	j.Helper()
	if j.origin.disk != dynamic {
		return
	}
	length := simnode.Size(32 * mib)
	from := simnode.Size(2 * mib)
	for _, b := range slices.Backward(j.image.data) {
		if i := bytes.Index(b.Data, []byte("\xeb\x52\x90NTFS    ")); i >= 0 && b.At+simnode.Size(i)+length <= simnode.Size(j.image.size) {
			from = b.At + simnode.Size(i)
		}
	}
	online, size := new(bool), simnode.Size(j.image.size)
	n, err := simnode.Open(simnode.Config{
		Disks: []simnode.Disk{{Content: nodespec.ContentSystem, Size: 32 << 30, Offline: online},
			{Size: size, Bytes: j.image.data, Offline: online, ReadOnly: online}, {Size: size, Bytes: j.image.data, Offline: online, ReadOnly: online}},
		SpannedVolumes: []simnode.SpannedVolume{{Extents: []nodespec.Extent{{Disk: 1, Offset: from, Length: length}, {Disk: 2, Offset: from, Length: length}}}},
	})
	if err != nil {
		j.Fatalf("%s: %v", j.name, err)
	}
	u := j.begin(n, 1)
	defer u.end("dynamic volume")
	vols, err := n.Volume().ListVolumesOnDisk(j.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: 1})
	if err != nil || len(vols.VolumeIDs) != 1 {
		j.Fatalf("%s: volumes %v, %v, want one", j.name, vols, err)
	}
	for _, p := range u.process {
		// Where it has an NTFS, which counts as empty, FormatVolume has nothing to do.
		if err := u.format(p, vols.VolumeIDs[0]); err != nil && !errors.Is(err, hosterr.ErrFailedPrecondition) {
			u.Errorf("%s: FormatVolume of a dynamic volume: %v", u.name, err)
		}
		u.says("ResizeVolume", u.resize(p, vols.VolumeIDs[0]), "a dynamic or spanned volume")
	}
	u.reads()
}

// damaged is the image as a whole disk that has lost a part.
func (j imageJudge) damaged() {
	j.Helper()
	if !j.origin.windows {
		return
	}
	for what, left := range map[string]content{
		"without its first sector": j.image.without(0, 512),
		"without its first MiB":    j.image.without(0, mib),
		"without its last MiB":     j.image.without(j.image.size-mib, j.image.size),
	} {
		if len(left.data) == 0 {
			continue
		}
		u := j.use(simnode.Disk{Size: simnode.Size(max(j.image.size, smallest)), Bytes: left.data})
		_, err := u.process[0].Disk().PartitionDisk(j.Context(), &disk.PartitionDiskRequest{DiskNumber: u.number})
		u.wrote("PartitionDisk of the image " + what)
		if err != nil && !errors.Is(err, hosterr.ErrFailedPrecondition) {
			j.Errorf("%s, %s: %v", j.name, what, err)
		}
		u.end("disk " + what)
	}
}
