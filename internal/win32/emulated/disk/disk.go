package disk

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
)

// Disks are the disks of a node.
type Disks struct {
	*kernel.Kernel
	above   above
	List    []*Disk // visible disks, by number
	waiting []*Disk // attached, but not visible yet
}

// above is what stands on the disks: the volumes.
type above interface {
	// Arrange follows a change of a disk. The table becomes the disk's on commit.
	Arrange(t *kernel.Tx, a Arrangement) error
	// Arriving reports whether a volume of the disk has not arrived yet.
	Arriving(d *Disk) bool
	// Mounted reports whether a range of a disk belongs to a volume with a file system.
	Mounted(t *kernel.Tx, d *Disk, from, to uint64) bool
	// Forget forgets what was on a disk.
	Forget(t *kernel.Tx, disk string)
}

// New returns disks on which nothing stands yet.
func New(k *kernel.Kernel) *Disks { return &Disks{Kernel: k} }

// StandOn sets what stands on the disks.
func (n *Disks) StandOn(a above) { n.above = a }

// Record is the stored state of a disk, under "disk/<id>".
type Record struct {
	ID     string `json:"id"`
	Number uint32 `json:"number"`
	State  Status `json:"state"`
	System bool   `json:"system,omitempty"` // Windows runs from it

	// Windows notices the growth of a disk in two steps:
	// IOCTL_DISK_UPDATE_DRIVE_SIZE makes the disk driver read its capacity again,
	// IOCTL_DISK_UPDATE_PROPERTIES the partition manager
	// (docs/develop/contract/disks.md#rescan, docs/develop/contract/volumes.md#growth).
	Size      uint64 `json:"size"`
	SeenSize  uint64 `json:"seenSize"`
	TableSize uint64 `json:"tableSize"`
	Sector    uint32 `json:"sector"`

	Attributes uint64 `json:"attributes"`          // DISK_ATTRIBUTE_ bits in force
	Collision  bool   `json:"collision,omitempty"` // it is offline because another disk had its identity
	Protected  bool   `json:"protected,omitempty"`
	Clustered  bool   `json:"clustered,omitempty"`

	Bus         uint32             `json:"bus"`
	Vendor      string             `json:"vendor,omitempty"`
	Product     string             `json:"product,omitempty"`
	Revision    string             `json:"revision,omitempty"`
	Serial      string             `json:"serial,omitempty"`
	Identifiers []win32.Identifier `json:"identifiers,omitempty"`
	Location    string             `json:"location,omitempty"`
	Address     *win32.SCSIAddress `json:"address,omitempty"`
	Namespace   uint32             `json:"namespace,omitempty"`
	Removable   bool               `json:"removable,omitempty"`
}

type Status string

const (
	Attached Status = "attached"
	Waiting  Status = "waiting"  // invisible until some time after Reenumerate
	Arriving Status = "arriving" // found, and visible a moment later
	Detached Status = "detached"
)

func diskKey(id string) string { return "disk/" + id }

// slotState is the stored state of a slot: the DISK_ATTRIBUTE_ bits that were set with Persist. A
// disk that arrives there gets them, whichever it is, also after a restart: Windows keeps
// them in the key of the device instance, whose name is made of the address
// (docs/develop/contract/disks.md#online-offline-read-only).
type slotState struct {
	Attributes uint64 `json:"attributes"`
}

// slotKey is where the state of the disk's slot is stored. A disk without an address is an
// instance of its own.
func (s *Record) slotKey() string {
	where := "disk " + s.ID
	if a := s.Address; a != nil {
		where = fmt.Sprintf("%d %d %d %d", a.Port, a.Path, a.Target, a.Lun)
	}
	return strings.ToLower(fmt.Sprintf("slot/%s/%s/%s", strings.TrimSpace(s.Vendor), strings.TrimSpace(s.Product), where))
}

// remembered returns the attributes that Windows remembers for the disk's slot, if it does.
func (n *Disks) remembered(s *Record) (attributes uint64, known bool, err error) {
	key := s.slotKey()
	if _, known = n.Store.Get(key); !known {
		return 0, false, nil
	}
	var slot slotState
	err = n.Store.Read(key, &slot)
	return slot.Attributes, true, err
}

// Disk is an attached disk.
type Disk struct {
	Record
	n     *Disks
	Image *os.File
	Table win32.Layout // the partition manager's copy
	gone  bool         // detached: its handles can only be closed
	path  string       // of its interface, once it was asked for

	arrives  time.Time // while it is arriving: when it becomes visible
	released time.Time // when other programs have closed it
	reserves time.Time // when its GPT gets a reserved partition; zero for never
}

// Geometry returns the disk's size and sectors as the partition manager knows
// them.
func (s *Record) Geometry() ptable.Disk { return ptable.Disk{Size: s.TableSize, Sector: s.Sector} }

func (s *Record) Offline() bool { return s.Attributes&win32.DISK_ATTRIBUTE_OFFLINE != 0 }

// Writable returns ERROR_WRITE_PROTECT for a disk that is offline, read-only or
// write-protected (docs/develop/contract/disks.md#creating-a-partition).
//
// Source: program, ceph's tests on Windows and Qubes clear both attributes before they write;
// the number is that of IOCTL_DISK_IS_WRITABLE (STATUS_MEDIA_WRITE_PROTECTED).
func (s *Record) Writable() error {
	if s.Protected || s.Attributes&(win32.DISK_ATTRIBUTE_OFFLINE|win32.DISK_ATTRIBUTE_READ_ONLY) != 0 {
		return win32.ERROR_WRITE_PROTECT
	}
	return nil
}

// change stores state as d's new state and updates memory on commit.
func (d *Disk) change(t *kernel.Tx, state Record) {
	t.Put(diskKey(state.ID), state)
	t.OnCommit(func() { d.Record = state })
}

// ByNumber returns the disk PhysicalDrive<number>, or nil if there is none.
func (n *Disks) ByNumber(number uint32) *Disk {
	for _, d := range n.List {
		if d.Number == number {
			return d
		}
	}
	return nil
}

// DriveOf returns the path with the number of the disk that a device interface path names, or
// "". People know disks by their numbers, and the services open some by their interfaces.
func (n *Disks) DriveOf(path string) string {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	for _, d := range n.List {
		if strings.EqualFold(path, d.InterfacePath()) {
			return fmt.Sprintf(`\\.\PhysicalDrive%d`, d.Number)
		}
	}
	return ""
}

// InterfacePath returns the disk's GUID_DEVINTERFACE_DISK path.
func (d *Disk) InterfacePath() string {
	if d.path != "" { // what it is made of never changes
		return d.path
	}
	word := func(s string) string {
		return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), " ", "_")
	}
	vendor, instance := word(d.Vendor), strings.ToLower(d.ID)
	if d.Bus == win32.BusTypeNvme {
		// As azuredisk-csi-driver, pull request 3632, shows the path of an NVMe disk of Azure.
		vendor, instance = "nvme", fmt.Sprintf("%s&0&%06d", instance, d.Namespace)
	}
	d.path = fmt.Sprintf(`\\?\scsi#disk&ven_%s&prod_%s#%s#%v`, vendor, word(d.Product), instance, win32.GUID_DEVINTERFACE_DISK)
	return d.path
}

// Arrangement is the state and the table of a disk after a transaction.
type Arrangement struct {
	Disk    *Disk
	State   Record
	Table   win32.Layout
	Letters map[string]string // configured drive letters, by partition key
}
