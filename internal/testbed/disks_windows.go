package testbed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/Microsoft/go-winio/vhd"
	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Disks are virtual disks of this Windows. A disk is a VHDX file that is attached while
// its handle is open, so that none outlives the process, however it ends. Disks is not
// safe for concurrent use, except for Owns.
type Disks struct {
	node   *node.Node
	volume volume.Interface
	dir    string // directory of the disk files
	files  int

	mu      sync.Mutex
	disks   map[uint32]*virtualDisk
	letters []string // mount points that are drive letters
}

type virtualDisk struct {
	file           string
	writeProtected bool
	handle         syscall.Handle
}

// NewDisks returns no disks yet. Their files will be in dir. n and v make their
// partitions and file systems.
func NewDisks(n *node.Node, v volume.Interface, dir string) *Disks {
	return &Disks{node: n, volume: v, disks: map[uint32]*virtualDisk{}, dir: dir}
}

// Close detaches all disks. Their files stay; they can be removed now.
func (m *Disks) Close() error {
	var errs []error
	for _, root := range m.letters {
		if err := windows.DeleteVolumeMountPoint(windows.StringToUTF16Ptr(root)); err != nil && !errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
			errs = append(errs, fmt.Errorf("drive %s: %w", root, err))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.disks {
		if err := d.detach(); err != nil {
			errs = append(errs, fmt.Errorf("detach %s: %w", d.file, err))
		}
	}
	m.letters, m.disks = nil, map[uint32]*virtualDisk{}
	return errors.Join(errs...)
}

// Owns reports whether the disk with this number is one of m. It asks Windows for the
// number of the disk that each file is, because numbers are given out again.
func (m *Disks) Owns(number uint32) (bool, error) {
	m.mu.Lock()
	d := m.disks[number]
	m.mu.Unlock()
	if d == nil {
		return false, nil
	}
	now, err := d.number()
	return now == number, err
}

// number asks Windows for the number of an attached disk.
func (d *virtualDisk) number() (uint32, error) {
	path, err := vhd.GetVirtualDiskPhysicalPath(d.handle)
	if err != nil {
		return 0, fmt.Errorf("path of %s: %w", d.file, err)
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(path), `\\.\physicaldrive`), 10, 32)
	return uint32(n), err
}

// newFile returns the name of a new disk file.
func (m *Disks) newFile() string {
	m.files++
	return filepath.Join(m.dir, fmt.Sprintf("disk%d.vhdx", m.files))
}

// create creates the file of an empty disk.
func create(file string, size uint64, sector uint32) error {
	h, err := vhd.CreateVirtualDisk(file, vhd.VirtualDiskAccessNone, vhd.CreateVirtualDiskFlagNone, &vhd.CreateVirtualDiskParameters{
		Version: 2,
		Version2: vhd.CreateVersion2{
			MaximumSize:              size,
			SectorSizeInBytes:        sector,
			PhysicalSectorSizeInByte: 4096,
		},
	})
	if err != nil {
		return fmt.Errorf("create %s of %d bytes: %w", file, size, err)
	}
	return syscall.CloseHandle(h)
}

// plug attaches d and returns its number.
func (m *Disks) plug(d *virtualDisk) (uint32, error) {
	h, err := vhd.OpenVirtualDisk(d.file, vhd.VirtualDiskAccessNone, vhd.OpenVirtualDiskFlagNone)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", d.file, err)
	}
	flags := vhd.AttachVirtualDiskFlagNoDriveLetter
	if d.writeProtected {
		flags |= vhd.AttachVirtualDiskFlagReadOnly
	}
	// Windows Server 2019 does not have version 2 of the parameters.
	if err := vhd.AttachVirtualDisk(h, flags, &vhd.AttachVirtualDiskParameters{Version: 1}); err != nil {
		return 0, errors.Join(fmt.Errorf("attach %s: %w", d.file, err), syscall.CloseHandle(h))
	}
	d.handle = h
	number, err := d.number()
	if err != nil {
		return 0, errors.Join(err, d.detach())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disks[number] = d
	return number, nil
}

func (d *virtualDisk) detach() error {
	return errors.Join(vhd.DetachVirtualDisk(d.handle), syscall.CloseHandle(d.handle))
}

// Detach implements Detach of a conformance.Node.
func (m *Disks) Detach(number uint32) (attach func() (uint32, error), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.disks[number]
	if d == nil {
		return nil, fmt.Errorf("disk %d is not one of the virtual disks: %w", number, errors.ErrUnsupported)
	}
	delete(m.disks, number)
	return func() (uint32, error) { return m.plug(d) }, d.detach()
}

// Grow implements Grow of a conformance.Node. Windows requires a detached disk for
// that
// (https://learn.microsoft.com/windows/win32/api/virtdisk/nf-virtdisk-expandvirtualdisk),
// so Grow detaches it and attaches it again. A storage array would not do so, and
// a case that needs the volume mounted meanwhile has to find it again.
func (m *Disks) Grow(number uint32, size uint64) error {
	m.mu.Lock()
	d := m.disks[number]
	m.mu.Unlock()
	back, err := m.Detach(number)
	if err != nil {
		return err
	}
	if err := d.expand(size); err != nil {
		return err
	}
	again, err := back()
	if err == nil && again != number {
		err = fmt.Errorf("disk %d was attached again as disk %d: %w", number, again, errors.ErrUnsupported)
	}
	return err
}

func (d *virtualDisk) expand(size uint64) error {
	h, err := vhd.OpenVirtualDisk(d.file, vhd.VirtualDiskAccessNone, vhd.OpenVirtualDiskFlagNone)
	if err != nil {
		return fmt.Errorf("open %s: %w", d.file, err)
	}
	defer syscall.CloseHandle(h)
	// EXPAND_VIRTUAL_DISK_PARAMETERS, version 1.
	parameters := struct {
		version uint32
		newSize uint64
	}{1, size}
	procedure := windows.NewLazySystemDLL("virtdisk.dll").NewProc("ExpandVirtualDisk")
	if err := procedure.Find(); err != nil {
		return err
	}
	if code, _, _ := procedure.Call(uintptr(h), 0, uintptr(unsafe.Pointer(&parameters)), 0); code != 0 {
		return fmt.Errorf("expand %s to %d bytes: %w", d.file, size, syscall.Errno(code))
	}
	return nil
}

// Attach implements Attach of a conformance.Node. What a virtual disk does not
// support is ErrUnsupported: its bus, identifiers and location are fixed, and
// only Windows creates file systems.
func (m *Disks) Attach(d conformance.Disk) (uint32, error) {
	if made := (conformance.Disk{Content: d.Content, Size: d.Size, SectorSize: d.SectorSize, Partitions: d.Partitions, Bytes: d.Bytes,
		Offline: d.Offline, ReadOnly: d.ReadOnly, WriteProtected: d.WriteProtected}); !reflect.DeepEqual(d, made) || d.Content == nodespec.ContentSuperfloppy {
		return 0, fmt.Errorf("virtual disks do not support these properties: %w", errors.ErrUnsupported)
	}
	sector := d.SectorSize
	if sector == 0 {
		sector = 512
	}
	file := m.newFile()
	if err := create(file, uint64(d.Size), sector); err != nil {
		return 0, err
	}
	disk := &virtualDisk{file: file}
	number, err := m.plug(disk)
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	if err := m.fill(ctx, number, sector, d); err != nil {
		return 0, err
	}
	if err := m.fileSystems(ctx, number, d.Partitions); err != nil {
		return 0, err
	}
	var attributes uint64
	if d.Offline != nil && *d.Offline {
		attributes |= win32.DISK_ATTRIBUTE_OFFLINE
	}
	if d.ReadOnly != nil && *d.ReadOnly {
		attributes |= win32.DISK_ATTRIBUTE_READ_ONLY
	}
	if attributes != 0 {
		if err := m.withDisk(ctx, number, func(h *storage.Disk) error { return h.SetAttributes(ctx, attributes, attributes, storage.Remembered) }); err != nil {
			return 0, fmt.Errorf("attributes of disk %d: %w", number, err)
		}
	}
	if !d.WriteProtected {
		return number, nil
	}
	back, err := m.Detach(number)
	if err != nil {
		return 0, err
	}
	disk.writeProtected = true
	return back()
}

func (m *Disks) withDisk(ctx context.Context, number uint32, do func(*storage.Disk) error) error {
	d, err := storage.OpenDisk(ctx, m.node, number, win32.GENERIC_READ|win32.GENERIC_WRITE)
	if err != nil {
		return err
	}
	defer d.Close()
	return do(d)
}

// fill writes the table and the content of d, like another system's installer,
// and makes Windows read them.
func (m *Disks) fill(ctx context.Context, number, sector uint32, d conformance.Disk) error {
	writes, err := table(d, sector)
	if err != nil {
		return err
	}
	for _, b := range d.Bytes {
		writes = append(writes, ptable.Write{Offset: uint64(b.At), Data: b.Data})
	}
	if len(writes) == 0 {
		return nil
	}
	h, err := m.node.API.CreateFile(fmt.Sprintf(`\\.\PhysicalDrive%d`, number), win32.GENERIC_READ|win32.GENERIC_WRITE,
		win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
	if err != nil {
		return fmt.Errorf("open disk %d: %w", number, err)
	}
	for _, w := range writes {
		if err := m.write(h, w, uint64(sector)); err != nil {
			return errors.Join(fmt.Errorf("write to disk %d at %d: %w", number, w.Offset, err), m.node.API.CloseHandle(h))
		}
	}
	if err := m.node.API.CloseHandle(h); err != nil {
		return err
	}
	return m.withDisk(ctx, number, func(h *storage.Disk) error { return h.UpdateProperties(ctx) })
}

// write writes whole sectors, as a disk requires.
func (m *Disks) write(h win32.Handle, w ptable.Write, sector uint64) error {
	first := w.Offset - w.Offset%sector
	end := w.Offset + uint64(len(w.Data))
	end += (sector - end%sector) % sector
	b := make([]byte, end-first)
	if _, err := m.node.API.ReadAt(h, b, int64(first)); err != nil {
		return err
	}
	copy(b[w.Offset-first:], w.Data)
	_, err := m.node.API.WriteAt(h, b, int64(first))
	return err
}

// The partition types that conformance has names for (winioctl.h, and the UEFI
// specification for the first).
var partitionTypes = map[string]win32.GUID{
	"basic":    win32.PARTITION_BASIC_DATA_GUID,
	"esp":      win32.PARTITION_SYSTEM_GUID,
	"recovery": win32.PARTITION_MSFT_RECOVERY_GUID,
}

// table returns the partition table of d.
func table(d conformance.Disk, sector uint32) ([]ptable.Write, error) {
	const mib = 1 << 20
	geometry := ptable.Disk{Size: uint64(d.Size), Sector: sector}
	var l win32.Layout
	var err error
	at := uint64(mib)
	switch d.Content {
	case "", nodespec.ContentBlank:
		return nil, nil
	case nodespec.ContentMBR:
		l = win32.Layout{Style: win32.PARTITION_STYLE_MBR, Signature: uint32(time.Now().UnixNano())}
	case nodespec.ContentGPT, nodespec.ContentGPTNoMSR:
		id, err := newGUID()
		if err != nil {
			return nil, err
		}
		if l, err = ptable.NewGPT(geometry, id); err != nil {
			return nil, err
		}
		if d.Content == nodespec.ContentGPT {
			if id, err = newGUID(); err != nil {
				return nil, err
			}
			l.Partitions = append(l.Partitions, win32.Partition{
				Style: l.Style, Number: 1, Offset: 34 * uint64(sector), Length: 16 * mib, Type: win32.PARTITION_MSFT_RESERVED_GUID, ID: id, Name: "Microsoft reserved partition",
			})
			at = 17 * mib
		}
	default:
		return nil, fmt.Errorf("content %q: %w", d.Content, errors.ErrUnsupported)
	}
	for _, p := range d.Partitions {
		length := uint64(p.Size)
		if length == 0 {
			length = (uint64(d.Size) - at - mib) / mib * mib
		}
		part := win32.Partition{Style: l.Style, Number: uint32(len(l.Partitions) + 1), Offset: at, Length: length, MBRType: 7}
		if l.Style == win32.PARTITION_STYLE_GPT {
			kind := p.Type
			if kind == "" {
				kind = "basic"
			}
			guid, ok := partitionTypes[kind]
			if !ok {
				return nil, fmt.Errorf("partition type %q: %w", p.Type, errors.ErrUnsupported)
			}
			part.Type = guid
			if part.ID, err = newGUID(); err != nil {
				return nil, err
			}
		}
		l.Partitions = append(l.Partitions, part)
		at += length
	}
	if !ptable.Fits(l, geometry) {
		return nil, errors.New("the partitions do not fit the disk")
	}
	return ptable.Encode(l, geometry, nil), nil
}

func newGUID() (win32.GUID, error) {
	g, err := windows.GenerateGUID()
	if err != nil {
		return win32.GUID{}, err
	}
	return win32.ParseGUID(g.String())
}

// fileSystems formats and mounts partitions as specified, once their volumes have
// arrived.
func (m *Disks) fileSystems(ctx context.Context, number uint32, partitions []conformance.Partition) error {
	want := 0
	for _, p := range partitions {
		if p.Type == "" || p.Type == "basic" {
			want++
		}
	}
	var ids []string
	pace := node.Pace{Pause: 20 * time.Millisecond, Limit: 30 * time.Second}
	err := node.Poll(ctx, m.node.Clock, pace, func() (bool, error) {
		out, err := m.volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
		if err != nil || len(out.VolumeIDs) < want {
			return false, fmt.Errorf("disk %d: want %d volumes, got %+v, %v", number, want, out, err)
		}
		ids = out.VolumeIDs
		return true, nil
	})
	if err != nil {
		return err
	}
	for i, p := range partitions {
		if p.FileSystem == "" && p.Letter == "" {
			continue
		}
		if p.Type != "" && p.Type != "basic" || i >= len(ids) {
			return fmt.Errorf("partition %d: %w", i+1, errors.ErrUnsupported)
		}
		if p.FileSystem == "NTFS" {
			if _, err := m.volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: ids[i]}); err != nil {
				return fmt.Errorf("partition %d: %w", i+1, err)
			}
		}
		if p.Letter != "" {
			root := p.Letter + `:\`
			if kind := windows.GetDriveType(windows.StringToUTF16Ptr(root)); kind != windows.DRIVE_NO_ROOT_DIR {
				return fmt.Errorf("this machine already has a drive %s: %w", p.Letter, errors.ErrUnsupported)
			}
			if err := m.node.API.SetMountPoint(root, ids[i]); err != nil {
				return fmt.Errorf("drive %s: %w", p.Letter, err)
			}
			m.letters = append(m.letters, root)
		}
	}
	return nil
}
