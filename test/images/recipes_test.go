package images_test

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/test/sparse"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)

// made is content that a program of Debian, or a few bytes by hand, make in a sparse file of
// contentSize.
type made struct {
	class, name string
	// command is run by sh -e with the file in $1, an empty directory in $2, and the functions
	// of prelude. A program that this machine does not have ends it with 127.
	command string
}

const contentSize = 320 * mib

const prelude = `export PATH=$PATH:/sbin:/usr/sbin LVM_SUPPRESS_FD_WARNINGS=1
put() { printf "$2" | dd of=$f bs=4M oflag=seek_bytes seek=$(($1)) conv=notrunc status=none; }    # text at a byte
noise() { dd if=/dev/urandom of=$f bs=64K count=$2 oflag=seek_bytes seek=$(($1)) conv=notrunc status=none; } # 64 KiB each
files() { mkdir -p $d/files; seq 50000 >$d/files/numbers; echo hello >$d/files/hello; }
into() { dd if=$d/new of=$f bs=1M oflag=seek_bytes seek=$((${1:-0})) conv=notrunc,sparse status=none; }
ext4() { mkfs.ext4 -qF -E offset=$(($1)) $f $((300 - $1 / 1048576))m; }
looped() { l=$(losetup -f --show $f) || exit 127; trap 'losetup -d $l' EXIT; }
f=$1 d=$2
`

// The classes of content.
const (
	linux     = "file system of Linux"
	windows   = "file system of Windows"
	layer     = "encryption, RAID, volume manager"
	table     = "partition table"
	virtual   = "image of a virtual disk"
	data      = "data without a file system"
	byWindows = "written by Windows"
	byOthers  = "written by other systems"
)

// contents is what may be on a disk.
func contents() []made {
	md := func(at, version, more string) string {
		return "put " + at + ` '\374\116\053\251\00` + version + `\0\0\0\0\0\0\0\0\0\0\0` + more + `0123456789abcdefmachine:0'`
	}
	zfs := func(label string) string {
		l := "$((" + label + " * 262144))"
		return `put ` + l + `+16384 '\1\1\0\0\0\0\0\0\0\0\0\1\0\0\0\044\0\0\0\040\0\0\0\7version\0\0\0\0\10\0\0\0\1'; put ` + l + `+131072 '\014\261\272\0\0\0\0\0\210\023'; `
	}
	luks := "echo secret | cryptsetup -q luksFormat --pbkdf-force-iterations 1000 "
	return []made{
		{linux, "ext2", "mkfs.ext2 -qF $f"},
		{linux, "ext3", "mkfs.ext3 -qF $f"},
		{linux, "ext4", "mkfs.ext4 -qF $f"},
		{linux, "ext4 with files", "files; mkfs.ext4 -qF -d $d/files $f"},
		{linux, "ext4, 1 KiB blocks", "mkfs.ext4 -qF -b 1024 $f"},
		{linux, "ext4, 2 KiB blocks", "mkfs.ext4 -qF -b 2048 $f"},
		{linux, "ext4, one backup", "mkfs.ext4 -qF -O sparse_super2 $f"},
		{linux, "ext4, packed groups", "mkfs.ext4 -qF -O bigalloc,meta_bg,^resize_inode $f"},
		{linux, "ext journal", "mke2fs -qF -O journal_dev $f"},
		{linux, "XFS", "mkfs.xfs -qf $f"},
		{linux, "XFS, four groups", "mkfs.xfs -qf -d agcount=4 -m crc=1,reflink=0 $f"},
		{linux, "btrfs", "mkfs.btrfs -qf $f"},
		{linux, "btrfs, mixed", "mkfs.btrfs -qfM $f"},
		{linux, "btrfs with files", "files; mkfs.btrfs -qf -r $d/files $f"},
		{linux, "F2FS", "mkfs.f2fs -qf $f"},
		{linux, "NILFS2", "mkfs.nilfs2 -qf $f"},
		{linux, "JFS", "mkfs.jfs -q $f"},
		{linux, "ReiserFS", "mkfs.reiserfs -qff $f"},
		{linux, "OCFS2", "mkfs.ocfs2 -qx --fs-features=local $f </dev/null"},
		{linux, "GFS2", "mkfs.gfs2 -qO -J 8 -p lock_nolock $f"},
		{linux, "Minix", "mkfs.minix $f"},
		{linux, "Minix 3", "mkfs.minix -3 $f"},
		{linux, "SCO BFS", "mkfs.bfs $f"},
		{linux, "swap", "mkswap -q $f"},
		{linux, "squashfs", "files; mksquashfs $d/files $d/new -quiet -noappend >/dev/null; into"},
		{linux, "EROFS", "files; mkfs.erofs --quiet $d/new $d/files; into"},
		{linux, "cramfs", "files; mkfs.cramfs $d/files $d/new; into"},
		{linux, "ISO 9660", "files; genisoimage -quiet -o $d/new $d/files; into"},
		{linux, "UDF", "mkudffs $f"},
		{windows, "NTFS", "mkfs.ntfs -qFf $f"},
		{windows, "NTFS, 64 KiB clusters", "mkfs.ntfs -qFf -c 65536 $f"},
		{windows, "exFAT", "mkfs.exfat $f"},
		{windows, "FAT12", "mkfs.fat -F 12 $f 30000"},
		{windows, "FAT16", "mkfs.fat -F 16 $f"},
		{windows, "FAT32", "mkfs.fat -F 32 $f"},
		{layer, "LUKS1", luks + "--type luks1 $f -"},
		{layer, "LUKS2", luks + "--type luks2 --pbkdf pbkdf2 --luks2-keyslots-size 256k --offset 32768 $f -"},
		{layer, "LUKS2 with an ext4", "mkfs.ext4 -qF $f; encrypt; mv $f $d/new; truncate -s 337641472 $f; into 16777216; truncate -s 335544320 $f; " + luks + "--type luks2 --pbkdf pbkdf2 --luks2-keyslots-size 256k --offset 32768 $f -"},
		{layer, "LUKS with its header elsewhere", "mkfs.ext4 -qF $f; encrypt"},
		{layer, "LUKS with its header elsewhere, at 16 MiB", "mkfs.ext4 -qF $f 300m; encrypt; mv $f $d/new; truncate -s 335544320 $f; into 16777216"},
		{layer, "dm-verity", "veritysetup format $f $d/new >/dev/null; into"},
		{layer, "bcache", "make-bcache -B $f >/dev/null; put 16384 data"},
		{layer, "bcache cache", "make-bcache -C $f >/dev/null"},
		{layer, "LVM", "looped; pvcreate -qf $l >/dev/null"},
		{layer, "LVM with an ext4", "looped; pvcreate -qf $l >/dev/null; ext4 1048576"},
		{layer, "md 0.90", `put 335544320-65536 '\374\116\053\251\0\0\0\0\132\0\0\0'; mkfs.ext4 -qF $f 319m`},
		{layer, "md 0.90, without content", `put 335544320-65536 '\374\116\053\251\0\0\0\0\132\0\0\0'`},
		{layer, "md 1.0", md("335544320-8192", "1", "") + "; mkfs.ext4 -qF $f 319m"},
		{layer, "md 1.0, without content", md("335544320-8192", "1", "")},
		{layer, "md 1.1", "ext4 1048576; " + md("0", "1", "")},
		{layer, "md 1.2", "ext4 1048576; " + md("4096", "1", "")},
		{layer, "md 1.2, data at 128 MiB", "ext4 134217728; " + md("4096", "1", "")},
		{layer, "DDF RAID", `put 335544320-512 '\336\021\336\021\0\0\0\0Linux-MD'; mkfs.ext4 -qF $f 319m`},
		{layer, "Intel RAID", `put 335544320-1024 'Intel Raid ISM Cfg Sig. 1.3.00'; mkfs.ext4 -qF $f 319m`},
		{layer, "ZFS", zfs("0") + zfs("1") + zfs("1278") + zfs("1279") + "noise 4259840 4"},
		{layer, "Ceph BlueStore", `put 0 'bluestore block device\n1b2c\n'; noise 4194304 16`},
		{layer, "VeraCrypt", "noise 0 2; noise 335413248 2"},
		{layer, "VeraCrypt, quick format, NTFS", "mkfs.ntfs -qFf $f; encrypt; noise 0 2; noise 335413248 2"},
		{layer, "Oracle ASM", `put 32 ORCLDISKVOL1; put 1048576 '\001\202\001\001data'`},
		{table, "GPT", "sgdisk -n 1:0:+200M $f >/dev/null"},
		{table, "GPT with an ext4", "sgdisk -n 1:0:+290M $f >/dev/null; ext4 1048576"},
		{table, "GPT of Linux, EFI and ext4", "sgdisk -n 1:0:+60M -t 1:ef00 -n 2:0:0 $f >/dev/null; mkfs.fat -F 32 --offset 2048 $f 61440 >/dev/null; ext4 63963136"},
		{table, "GPT, lost protective MBR", "sgdisk -n 1:0:+290M $f >/dev/null; ext4 1048576; dd if=/dev/zero of=$f count=1 conv=notrunc status=none"},
		{table, "MBR", "echo 2048,,83 | sfdisk -q --label dos $f"},
		{table, "MBR with an ext4", "echo 2048,,83 | sfdisk -q --label dos $f; ext4 1048576"},
		{table, "MBR with an ext4 at sector 63", "echo 63,,83 | sfdisk -q --label dos $f; mkfs.ext4 -qF -E offset=32256 $f 300m"},
		{table, "MBR with an NTFS", "echo 2048,,7 | sfdisk -q --label dos $f; truncate -s 300M $d/new; mkfs.ntfs -qFf $d/new; into 1048576"},
		{table, "Sun disk label", "echo ,200M | sfdisk -q --label sun $f"},
		{table, "SGI disk label", "echo ,200M | sfdisk -q --label sgi $f"},
		{virtual, "qcow2", "qemu-img create -q -f qcow2 $d/new 10G; into"},
		{virtual, "qcow2 with an ext4", "mkfs.ext4 -qF $d/raw 64m; qemu-img convert -f raw -O qcow2 $d/raw $d/new; into"},
		{virtual, "QED", "qemu-img create -q -f qed $d/new 10G; into"},
		{virtual, "VMDK", "qemu-img create -q -f vmdk $d/new 10G; into"},
		{virtual, "VMDK, stream", "qemu-img create -q -f vmdk -o subformat=streamOptimized $d/new 10G; into"},
		{virtual, "VDI", "qemu-img create -q -f vdi $d/new 10G; into"},
		{virtual, "VHD", "qemu-img create -q -f vpc $d/new 10G; into"},
		{virtual, "VHDX", "qemu-img create -q -f vhdx $d/new 10G; into"},
		{virtual, "raw, with an MBR and an ext4", "echo 2048,,83 | sfdisk -q --label dos $f; ext4 1048576"},
		{data, "text", "put 0 'Dear all,'"},
		{data, "text in the last sector", "put 335544320-100 'someone was here'"},
		{data, "text at 1 MiB", "put 1048576 'Dear all,'"},
		{data, "tar", "files; tar -C $d -cf $d/new files; into"},
		{data, "tar at 5 MiB", "files; tar -C $d -cf $d/new files; into 5242880"},
		{data, "random", "noise 0 48"},
		{data, "random, everywhere", "for i in $(seq 0 4 316); do noise $((i * 1048576)) 1; done"},
	}
}

// happened is what happened to content before CSI Proxy sees it.
type happened struct {
	name string
	// at is where the content begins; the disk is at least size bytes large.
	at, size int64
	// lost are areas that were overwritten with zeros. Negative offsets count from the end.
	lost []area
	// tool is run by sh with the disk in $1.
	tool string
	// table is the program that made an empty partition table. Its sectors are no content.
	table *emptyTable
	// cleaned reports that the disk is as diskpart clean leaves it.
	cleaned bool
	// everywhere means for each content, and not only for those of Debian's programs.
	everywhere bool
}

// emptyTable is an empty partition table. The program writes it to a blank disk, because
// sgdisk sleeps for a second, and its sectors go to the others.
type emptyTable struct {
	program string
	sectors []area
}

type area struct{ from, length int64 }

func whatHappened() []happened {
	gpt := &emptyTable{"sgdisk -o $1 >/dev/null 2>&1", []area{{0, 34 * 512}, {-33 * 512, 33 * 512}}}
	mbr := &emptyTable{"echo label:dos | sfdisk -q --wipe never $1", []area{{0, 512}}}
	ends := []area{{0, mib}, {-mib, mib}}
	const large = 2 * gib
	return []happened{
		{name: "nothing", everywhere: true},
		{name: "first sector lost", lost: []area{{0, 512}}, everywhere: true},
		{name: "first 4 KiB lost", lost: []area{{0, 4 * kib}}},
		{name: "first MiB lost", lost: []area{{0, mib}}, everywhere: true},
		{name: "first 10 MiB lost", lost: []area{{0, 10 * mib}}},
		{name: "first half lost", lost: []area{{0, contentSize / 2}}},
		{name: "last MiB lost", lost: []area{{-mib, mib}}, everywhere: true},
		{name: "wipefs", tool: "wipefs -qaf $1"},
		{name: "sgdisk --zap-all", lost: gpt.sectors},
		{name: "diskpart clean", lost: ends, cleaned: true, everywhere: true},
		{name: "on a larger disk", size: 3 * gib},
		{name: "empty GPT made over it", table: gpt, everywhere: true},
		{name: "empty GPT made over it, 2 GiB", size: large, table: gpt},
		{name: "empty MBR made over it", table: mbr},
		{name: "partition at 1 MiB deleted from its GPT", at: mib, table: gpt},
		{name: "partition at 1 MiB deleted from its GPT, 2 GiB", at: mib, size: large, table: gpt, everywhere: true},
		{name: "partition at 17 MiB deleted from its GPT, 2 GiB", at: 17 * mib, size: large, table: gpt},
		{name: "partition at 1 MiB deleted from its MBR", at: mib, table: mbr},
		{name: "partition at 1 MiB, table lost", at: mib},
		{name: "partition at sector 63, table lost", at: 63 * 512},
		{name: "partition at 4 MiB, table lost", at: 4 * mib},
		{name: "partition at 17 MiB, diskpart clean, 2 GiB", at: 17 * mib, size: large, cleaned: true},
		{name: "partition at 32 MiB, table lost", at: 32 * mib},
		{name: "partition at 100 MiB, table lost", at: 100 * mib},
		{name: "partition at 129 MiB, table lost", at: 129 * mib},
		{name: "partition at 513 MiB, table lost, 2 GiB", at: 513 * mib, size: large},
	}
}

// An image is what is on a disk or a part of a disk.
type image struct {
	class, content, happened string
	size                     int64
	data                     []piece
	// foreign is the part of data that does not belong to the disk's empty table.
	foreign []piece
	// table and cleaned are those of what happened.
	table, cleaned bool
}

func (i *image) String() string { return i.content + "; " + i.happened }

// piece is bytes that are not all zero.
type piece struct {
	at int64
	b  []byte
}

const pieceSize = 4 * kib

var zeros [pieceSize]byte

// read returns the parts of a sparse file that are not zero.
func read(file string) (data []piece, size int64, err error) {
	size, err = sparse.Blocks(file, pieceSize, func(at int64, b []byte) error {
		data = append(data, piece{at, slices.Clone(b)})
		return nil
	})
	return data, size, err
}

// without returns data with zeros in the areas.
func without(data []piece, size int64, lost []area) []piece {
	var left []piece
	for _, p := range data {
		for _, l := range lost {
			from := l.from
			if from < 0 {
				from += size
			}
			first, last := max(from-p.at, 0), min(from+l.length-p.at, int64(len(p.b)))
			if first < last {
				p.b = slices.Clone(p.b)
				clear(p.b[first:last])
			}
		}
		if string(p.b) != string(zeros[:len(p.b)]) {
			left = append(left, p)
		}
	}
	return left
}

// write writes pieces to a sparse file of a size.
func write(file string, size, at int64, data []piece) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if size > 0 {
		err = f.Truncate(size)
	}
	for _, p := range data {
		_, failed := f.WriteAt(p.b, p.at+at)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, f.Close())
}

// base makes the content of a recipe. absent is why this machine cannot.
func (m made) base(t *testing.T) (data []piece, absent string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "content")
	if err := write(file, contentSize, 0, nil); err != nil {
		t.Fatal(err)
	}
	for i, command := range strings.Split(m.command, "encrypt") {
		if i > 0 {
			if err := encrypt(file); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command("sh", "-ec", prelude+strings.TrimPrefix(command, ";"), "sh", file, dir).CombinedOutput()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 127 { // no such program
			return nil, firstLine(out)
		} else if err != nil {
			t.Fatalf("%s: %v: %s", m.name, err, out)
		}
	}
	data, _, err := read(file)
	if err != nil || len(data) == 0 {
		t.Fatalf("%s: nothing was made: %v", m.name, err)
	}
	return without(data, contentSize, []area{{contentSize, 1 << 60}}), ""
}

// encrypt replaces what is not zero in a file by random bytes, which is what is seen of a
// disk encrypted sector by sector, of which only some sectors were ever written.
func encrypt(file string) error {
	data, _, err := read(file)
	r := rand.NewChaCha8([32]byte{1})
	for _, p := range data {
		r.Read(p.b)
	}
	return errors.Join(err, write(file, 0, 0, data))
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}

// maker makes images. It keeps the empty tables by program and size of the disk.
type maker struct{ tables map[string][]piece }

// after returns the image that is left of content of a size.
func (m maker) after(t *testing.T, h happened, class, name string, size int64, base []piece) *image {
	t.Helper()
	i := &image{class: class, content: name, happened: h.name, table: h.table != nil, cleaned: h.cleaned}
	i.size = max(h.size, diskSize(size))
	if h.at > 0 {
		i.size = max(h.size, (h.at+size+2*mib-1)/mib*mib)
	}
	for _, p := range base {
		i.data = append(i.data, piece{p.at + h.at, p.b})
	}
	if i.data = without(i.data, i.size, h.lost); h.tool != "" {
		i.data = run(t, h.tool, i.size, i.data)
	}
	if i.foreign = i.data; h.table != nil {
		i.foreign = without(i.data, i.size, h.table.sectors)
		key := fmt.Sprint(h.table.program, i.size)
		if m.tables[key] == nil {
			m.tables[key] = run(t, h.table.program, i.size, nil)
		}
		i.data = over(i.foreign, m.tables[key])
	}
	return i
}

// diskSize returns the size of a disk for so many bytes. Windows formats none that is smaller.
func diskSize(size int64) int64 { return max((size+mib-1)/mib*mib, 16*mib) }

// run runs a program over a disk, and returns what is on it then.
func run(t *testing.T, program string, size int64, data []piece) []piece {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	if err := write(file, size, 0, data); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	if out, err := exec.Command("sh", "-ec", "PATH=$PATH:/sbin:/usr/sbin; "+program, "sh", file).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	data, _, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// over returns pieces with others, which are elsewhere, over them.
func over(data, others []piece) []piece {
	data = slices.Clone(data)
	for _, o := range others {
		i, same := slices.BinarySearchFunc(data, o.at, func(p piece, at int64) int { return cmp.Compare(p.at, at) })
		if !same {
			data = slices.Insert(data, i, o)
			continue
		}
		b := slices.Clone(o.b)
		for k, x := range data[i].b {
			b[k] |= x
		}
		data[i] = piece{o.at, b}
	}
	return data
}

// files has the SHA-256 of the files with images of others, in directories named after
// Debian's source packages.
//
//go:embed testdata/images.sha256
var files string

// ofOthers calls do with each image that hack/images.sh has downloaded: those that Windows
// wrote, and those of other systems.
func ofOthers(t *testing.T, all bool, do func(class, name string, size int64, data []piece)) {
	out, err := exec.Command("../../hack/images.sh", "dir").Output()
	if err != nil {
		t.Logf("without the images of Debian's source packages, because hack/images.sh does not run: %v", err)
		return
	}
	for line := range strings.Lines(files) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if !all && path.Base(file) != "bitlk-images.tar.xz" && path.Base(file) != "exfat.img.xz" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), file))
		if errors.Is(err, os.ErrNotExist) {
			t.Logf("without %s: hack/images.sh get downloads it from Debian", file)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != sum {
			t.Fatalf("%s: SHA-256 %s, want %s", file, got, sum)
		}
		dir := t.TempDir()
		unpack := `case $1 in *.tar.xz) tar -xJf $1 -C $2;; *) xz -dc $1 >$2/$(basename $1 .xz);; esac`
		if out, err := exec.Command("sh", "-ec", unpack, "sh", filepath.Join(strings.TrimSpace(string(out)), file), dir).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", file, err, out)
		}
		err = filepath.WalkDir(dir, func(at string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(at, ".img") {
				return err
			}
			data, size, err := read(at)
			if name := path.Base(at); strings.HasSuffix(name, "-raid.img") && name != "hpt37x-raid.img" || strings.HasPrefix(name, "drbd-") || name == "mdraid.img" {
				// It has its signs at the end of a disk.
				end := diskSize(size)
				for i := range data {
					data[i].at += end - size
				}
				size = end
			}
			if err == nil {
				do(writtenBy(path.Base(at)), path.Base(at), size, data)
			}
			return errors.Join(err, os.Remove(at))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// writtenBy returns the class of an image by its name.
func writtenBy(name string) string {
	for _, pattern := range []string{"bitlk-*", "ldm-*", "ntfs.img", "exfat.img", "fat32_xp_*", "fat32_label_64MB.img", "udf-hdd-win7.img"} {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return byWindows
		}
	}
	return byOthers
}
