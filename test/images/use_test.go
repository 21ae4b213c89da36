package images_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/test/sparse"
)

// quiet is a node that does not log.
func quiet(t *testing.T, change ...func(*simnode.Config)) *simnode.Node {
	t.Helper()
	config := simnode.Config{Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&config)
	}
	n, err := simnode.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// attached attaches a disk that Windows has found.
func attached(t *testing.T, n *simnode.Node, d simnode.Disk) simnode.DiskInfo {
	t.Helper()
	info, err := n.AttachDisk(d)
	if err == nil {
		err = n.AwaitDisk(info.Number)
	}
	state, failed := n.Show()
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return state.Disks[slices.IndexFunc(state.Disks, func(x simnode.DiskInfo) bool { return x.Number == info.Number })]
}

// withData attaches a disk, lets it grow unless the new size is 0, and puts data on it. It is
// attached again, because a disk is read when it is attached.
func withData(t *testing.T, n *simnode.Node, d simnode.Disk, grownTo simnode.Size, at int64, data []piece) simnode.DiskInfo {
	t.Helper()
	info := attached(t, n, d)
	var err error
	if grownTo > 0 {
		err = n.GrowDisk(info.Number, grownTo)
	}
	if err := errors.Join(err, write(info.Image, 0, at, data), n.DetachDisk(info.Number)); err != nil {
		t.Fatal(err)
	}
	return attached(t, n, simnode.Disk{ID: info.ID, Number: &info.Number})
}

// discard removes a disk.
func discard(t *testing.T, n *simnode.Node, d simnode.DiskInfo) {
	t.Helper()
	if err := errors.Join(n.DetachDisk(d.Number), n.DiscardDisk(d.ID)); err != nil {
		t.Fatal(err)
	}
}

// inUse partitions a disk, formats its volume, and returns the volume.
func inUse(t *testing.T, n *simnode.Node, number uint32) (string, error) {
	t.Helper()
	if _, err := n.Disk().PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return "", err
	}
	vols, err := n.Volume().ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil || len(vols.VolumeIDs) != 1 {
		return "", fmt.Errorf("volumes %v, %w, want one", vols, err)
	}
	_, err = n.Volume().FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: vols.VolumeIDs[0]})
	return vols.VolumeIDs[0], err
}

// Blank disks of all sizes are partitioned and formatted, with an empty table or without one:
// no false alarm. The short form has every seventh of a thousand.
func TestBlankDisksAreUsed(t *testing.T) {
	step := 7
	if os.Getenv(everything) != "" {
		step = 1
	}
	synctest.Test(t, func(t *testing.T) {
		n := quiet(t)
		defer n.Close()
		for i := 0; i < 1000; i += step {
			d := simnode.Disk{Size: simnode.Size(8*mib+i*i*mib/7+i%5*64<<10) / 4096 * 4096, SectorSize: []uint32{512, 4096}[i%2]}
			d.Content = []string{nodespec.ContentBlank, nodespec.ContentGPTNoMSR, nodespec.ContentMBR, nodespec.ContentBlank, nodespec.ContentGPT}[i%5]
			if d.Size > 2*tib && d.Content == nodespec.ContentMBR || d.Size < gib && d.Content == nodespec.ContentGPT {
				d.Content = nodespec.ContentBlank
			}
			info := attached(t, n, d)
			if _, err := inUse(t, n, info.Number); err != nil {
				t.Errorf("blank disk of %d bytes, %s: %v", d.Size, d.Content, err)
			}
			discard(t, n, info)
		}
	})
}

// A disk that grows three times, and one that a snapshot of it was restored to, which is
// larger, expand: the remains of their own tables are no content.
func TestOwnRemainsAreNoContent(t *testing.T) {
	for _, sector := range []uint32{512, 4096} {
		for _, size := range []simnode.Size{100 * mib, 3 * gib} {
			snapshots := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				n := quiet(t)
				defer n.Close()
				d := attached(t, n, simnode.Disk{Size: size, SectorSize: sector})
				id, err := inUse(t, n, d.Number)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					snapshot := filepath.Join(snapshots, fmt.Sprint(i))
					if out, err := exec.Command("cp", "--sparse=always", imageOf(t, n, d.Number), snapshot).CombinedOutput(); err != nil {
						t.Fatalf("cp: %v: %s", err, out)
					}
					size += 50 * mib
					if err := n.GrowDisk(d.Number, size); err != nil {
						t.Fatal(err)
					}
					expands(t, n, d.Number, id, size)
				}
				discard(t, n, d)
				for i := range 3 {
					snapshot := filepath.Join(snapshots, fmt.Sprint(i))
					info, err := os.Stat(snapshot)
					if err != nil {
						t.Fatal(err)
					}
					size := simnode.Size(info.Size()) + 70*mib
					d := attached(t, n, simnode.Disk{Image: snapshot, Size: size, SectorSize: sector, Offline: new(bool), ReadOnly: new(bool)})
					id, err := inUse(t, n, d.Number)
					if err != nil {
						t.Fatal(err)
					}
					expands(t, n, d.Number, id, size)
					discard(t, n, d)
				}
			})
		}
	}
}

// expands checks that the volume of a disk of a size grows to the end of it.
func expands(t *testing.T, n *simnode.Node, number uint32, id string, size simnode.Size) {
	t.Helper()
	_, scan := n.Disk().Rescan(t.Context(), &disk.RescanRequest{})
	_, err := n.Volume().ResizeVolume(t.Context(), &volume.ResizeVolumeRequest{VolumeID: id})
	if err := errors.Join(scan, err); err != nil {
		t.Errorf("disk of %d bytes: %v", size, err)
		return
	}
	state, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range state.Volumes {
		if v.ID == id && v.Offset+v.Size < size-2*mib {
			t.Errorf("disk of %d bytes: the volume ends at byte %d", size, v.Offset+v.Size)
		}
	}
}

// contentModes are the values of -disk-content.
func contentModes() map[string]func(*simnode.Config) {
	return map[string]func(*simnode.Config){
		"strict":  func(c *simnode.Config) {},
		"cleaned": func(c *simnode.Config) { c.DiskContent = rules.DiskContentCleaned },
		"unknown": func(c *simnode.Config) { c.DiskContent = rules.DiskContentUnknown },
	}
}

// Storage hands out a LUN again after it was cleaned in one of the usual ways. Each value of
// -disk-content takes what it says, and not more. The short form cleans each content in one way.
func TestRecycledDisks(t *testing.T) {
	lives := []string{"ext4 with files", "XFS", "btrfs with files", "F2FS", "GFS2", "swap", "NTFS", "exFAT", "LUKS2 with an ext4", "LVM with an ext4", "md 1.2",
		"ZFS", "Ceph BlueStore", "VeraCrypt", "GPT of Linux, EFI and ext4", "MBR with an NTFS", "VHDX", "random, everywhere", ours}
	cleanings := []string{"wipefs", "sgdisk --zap-all", "diskpart clean", "first 10 MiB lost"}
	m := maker{map[string][]piece{}}
	for _, c := range append(contents(), made{name: ours}) {
		which := slices.Index(lives, c.name)
		if which < 0 {
			continue
		}
		base, size := ourDisk(t)
		if c.name != ours {
			var absent string
			if base, absent = c.base(t); absent != "" {
				t.Logf("without %s: %s", c.name, absent)
				continue
			}
			size = contentSize
		}
		for _, h := range whatHappened() {
			way := slices.Index(cleanings, h.name)
			if way < 0 || os.Getenv(everything) == "" && way != which%len(cleanings) {
				continue
			}
			i := m.after(t, h, c.class, c.name, size, base)
			for mode, choose := range contentModes() {
				synctest.Test(t, func(t *testing.T) {
					n := quiet(t, choose)
					defer n.Close()
					d := withData(t, n, simnode.Disk{Size: simnode.Size(i.size)}, 0, 0, i.data)
					_, err := inUse(t, n, d.Number)
					if err != nil && !errors.Is(err, hosterr.ErrFailedPrecondition) {
						t.Errorf("%s, %s: %v", i, mode, err)
					}
					if len(i.foreign) == 0 && err != nil || mode == "cleaned" && h.cleaned && err != nil {
						t.Errorf("%s, %s: %v", i, mode, err)
					}
				})
			}
		}
	}
}

// ours is the name of the content of a disk that CSI Proxy partitioned and formatted.
const ours = "a volume of ours with files"

// ourDisk returns a disk of ours.
func ourDisk(t *testing.T) (data []piece, size int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := quiet(t)
		defer n.Close()
		d := attached(t, n, simnode.Disk{Size: 2 * gib})
		_, err := inUse(t, n, d.Number)
		if err == nil { // what is in its files
			err = write(d.Image, 0, 40*mib, []piece{{0, []byte("a file")}, {900 * mib, []byte("another file")}})
		}
		if err == nil {
			data, size, err = read(d.Image)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	return data, size
}

// One of several volumes of a disk, or the space behind the last one, is refused. The remedy
// frees that, and the mounted volume beside it keeps every byte.
func TestRemedySparesOtherVolumes(t *testing.T) {
	const small, folder = 64 * mib, `C:\var\mounted`
	for _, c := range contents() {
		if !slices.Contains([]string{"ext4", "GFS2", "md 1.0, without content", "LUKS with its header elsewhere", "GPT with an ext4", "text in the last sector"}, c.name) {
			continue
		}
		base, absent := c.base(t)
		if absent != "" {
			t.Logf("without %s: %s", c.name, absent)
			continue
		}
		for _, where := range []string{"in the first partition", "behind the last partition", "behind the end of a disk that grew"} {
			in, grew := where == "in the first partition", where == "behind the end of a disk that grew"
			synctest.Test(t, func(t *testing.T) {
				n := quiet(t)
				defer n.Close()
				spec := simnode.Disk{Content: nodespec.ContentGPTNoMSR, Offline: new(bool), ReadOnly: new(bool), Partitions: []simnode.Partition{{Size: small, FileSystem: "NTFS"}, {Size: small, FileSystem: "NTFS"}}}
				at, volumes, end := int64(2*small+2*mib), area{mib, 2 * small}, simnode.Size(2*small+2*mib+contentSize)
				switch spec.Size = end; {
				case in:
					spec.Partitions[0] = simnode.Partition{Size: contentSize}
					spec.Size, at, volumes.from, volumes.length = contentSize+small+2*mib, mib, mib+contentSize, small
				case grew:
					spec.Size = 2*small + 2*mib
				}
				files := []piece{{volumes.from + 30*mib, []byte("a file")}, {volumes.from + volumes.length - 30*mib, []byte("another file")}}
				for _, p := range base {
					files = append(files, piece{at + p.at, p.b})
				}
				grownTo := simnode.Size(0)
				if grew {
					grownTo = end
				}
				d := withData(t, n, spec, grownTo, 0, files)
				err := n.PutFile(folder, true, 0)
				vols, failed := n.Volume().ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: d.Number})
				if err := errors.Join(err, failed); err != nil || len(vols.VolumeIDs) != 2 {
					t.Fatalf("volumes %v, %v, want two", vols, err)
				}
				last := vols.VolumeIDs[1]
				if _, err := n.Volume().MountVolume(t.Context(), &volume.MountVolumeRequest{VolumeID: last, TargetPath: folder}); err != nil {
					t.Fatal(err)
				}
				request := func() error {
					if in {
						_, err := n.Volume().FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: vols.VolumeIDs[0]})
						return err
					}
					_, err := n.Volume().ResizeVolume(t.Context(), &volume.ResizeVolumeRequest{VolumeID: last})
					return err
				}
				before := sumOf(t, d.Image, volumes)
				refusal := request()
				if !errors.Is(refusal, hosterr.ErrFailedPrecondition) {
					t.Fatalf("%s %s: %v, want a refusal", c.name, where, refusal)
				}
				if err := remedy(t, n, d, refusal); err != nil {
					t.Fatalf("%s %s: the remedy: %v", c.name, where, err)
				}
				if after := sumOf(t, d.Image, volumes); after != before {
					t.Fatalf("%s %s: the remedy changed another volume", c.name, where)
				}
				if err := request(); err != nil {
					t.Fatalf("%s %s: after the remedy: %v", c.name, where, err)
				}
				// A volume that has grown has another boot sector.
				if after := sumOf(t, d.Image, volumes); in && after != before {
					t.Fatalf("%s %s: formatting changed another volume", c.name, where)
				}
			})
		}
	}
}

// sumOf returns a hash of a part of a file.
func sumOf(t *testing.T, file string, a area) string {
	t.Helper()
	h := sha256.New()
	if _, err := sparse.Blocks(file, pieceSize, func(at int64, b []byte) error {
		if at+int64(len(b)) > a.from && at < a.from+a.length {
			fmt.Fprintln(h, at)
			h.Write(b)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
