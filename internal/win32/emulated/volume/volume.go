package volume

import (
	"fmt"
	"io"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// Record is the mount manager's record of a volume, under "volume/<guid>".
// It exists even while the volume does not.
type Record struct {
	GUID      guidText `json:"guid"`
	Disk      string   `json:"disk"`      // identity of the first disk
	Partition string   `json:"partition"` // the partition on it, see partitionKey
	Device    uint32   `json:"device"`    // N of \Device\HarddiskVolumeN
	// Offline is set until IOCTL_VOLUME_ONLINE, if the volume is new to a node that
	// does not mount new volumes.
	Offline bool `json:"offline,omitempty"`
	// Length is that of the volume while it does not know that its partition has
	// grown, or 0.
	Length uint64 `json:"length,omitempty"`
	// Extents of a volume that spans disks, by disk identity.
	Extents []extentRecord `json:"extents,omitempty"`
}

type extentRecord struct {
	Disk   string `json:"disk"`
	Offset uint64 `json:"offset"`
	Length uint64 `json:"length"`
}

// guidText is a GUID that is stored as text.
type guidText win32.GUID

func (g guidText) MarshalText() ([]byte, error) { return []byte(win32.GUID(g).String()), nil }

func (g *guidText) UnmarshalText(b []byte) error {
	v, err := win32.ParseGUID(string(b))
	*g = guidText(v)
	return err
}

func volumeKey(guid win32.GUID) string { return "volume/" + guid.String() }

// identity returns what the mount manager identifies a volume by: disk and
// partition.
func (r Record) identity() string { return r.Disk + "/" + r.Partition }

// Volumes are the volumes of a node, with its mount manager.
type Volumes struct {
	*kernel.Kernel
	disks *disk.Disks

	List    []*Volume         // present volumes, in order of arrival
	known   map[string]Record // every volume ever seen, by identity
	spanned []Record          // those that lie on several disks
	Letters map[byte]win32.GUID
	mounts  map[string]MountRecord
	Trees   map[string]*filetree.Tree // by file system
}

// New returns volumes that stand on disks.
func New(k *kernel.Kernel, d *disk.Disks) *Volumes {
	n := &Volumes{
		Kernel: k, disks: d, known: map[string]Record{}, Letters: map[byte]win32.GUID{},
		mounts: map[string]MountRecord{}, Trees: map[string]*filetree.Tree{},
	}
	d.StandOn(n)
	return n
}

// Volume is a volume of the node. It may not have arrived yet: see visible.
type Volume struct {
	Record
	n       *Volumes
	Ranges  []extent
	OnTable win32.Partition // of a volume on one disk
	arrives time.Time
	cached  time.Time // when the storage provider of WMI knows the volume; zero if it does not

	Gone       bool          // removed: its handles can only be closed
	OfflineNow bool          // by IOCTL_VOLUME_OFFLINE, or because it is new: see Record
	locked     bool          // a handle has locked it (FSCTL_LOCK_VOLUME)
	formatting *formatting   // in progress, or nil
	Share      winpath.Share // for an SMB share, which has files but no device
	Remote     string        // its name, as it was opened first

	// The file system, according to the boot sector. tree is nil if Windows does
	// not recognize it.
	FS        bootsector.FileSystem
	FSID      string
	Tree      *filetree.Tree
	Dismounts int  // how often FSCTL_DISMOUNT_VOLUME was called
	Corrupt   bool // it has the boot sector of an NTFS, but no master file table

	// unflushed has the stored records that changed since the last flush, as they were
	// then; nil for one that did not exist.
	unflushed map[string][]byte
}

// extent is a range of a disk, in bytes.
type extent struct {
	Disk        *disk.Disk
	Off, Length uint64
}

func (v *Volume) guid() win32.GUID { return win32.GUID(v.GUID) }

// Name returns the volume's name, with the final backslash of a root directory.
func (v *Volume) Name() string { return `\\?\Volume` + v.guid().String() + `\` }

// NTDevice returns the volume's name in the object manager.
func (v *Volume) NTDevice() string {
	if v.Remote != "" {
		return `\Device\Mup` + v.Remote[1:]
	}
	return fmt.Sprintf(`\Device\HarddiskVolume%d`, v.Device)
}

// visible reports whether the volume has arrived.
func (v *Volume) visible() bool { return !v.Gone && !v.n.Now().Before(v.arrives) }

func (v *Volume) Size() uint64 {
	n := uint64(0)
	for _, e := range v.Ranges {
		n += e.Length
	}
	return n
}

func (v *Volume) sector() uint32 { return v.Ranges[0].Disk.Sector }

func (v *Volume) Writable() error {
	for _, e := range v.Ranges {
		if err := e.Disk.Writable(); err != nil {
			return err
		}
	}
	return nil
}

// ReadAt reads the volume's bytes, for detecting the file system.
func (v *Volume) ReadAt(p []byte, off int64) (n int, err error) {
	for _, e := range v.Ranges {
		if off >= int64(e.Length) {
			off -= int64(e.Length)
			continue
		}
		part := p[n:]
		if int64(len(part)) > int64(e.Length)-off {
			part = part[:int64(e.Length)-off]
		}
		size, err := e.Disk.ReadImage(part, int64(e.Off)+off)
		n += size
		if err != nil || n == len(p) {
			return n, err
		}
		off = 0
	}
	return n, io.EOF
}

// put writes to the volume's bytes.
func (v *Volume) put(t *kernel.Tx, off uint64, b []byte) {
	for _, e := range v.Ranges {
		if off >= e.Length {
			off -= e.Length
			continue
		}
		n := min(uint64(len(b)), e.Length-off)
		t.WriteImage(e.Disk.ID, e.Off+off, b[:n])
		if b = b[n:]; len(b) == 0 {
			return
		}
		off = 0
	}
}
