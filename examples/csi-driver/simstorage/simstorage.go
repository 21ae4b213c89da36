// Package simstorage is a storage system for simulated nodes: it attaches each disk to one node
// at a time, and makes directories on their SMB server and targets on their iSCSI portal. Tests
// and demonstrations use it where a real driver calls the API of a cloud or an array.
//
// What a volume is on a disk moves with it to another node: partitions, boot sectors, sizes. The
// names of files do not: a simulated node keeps them beside the disk. In the same way each node
// has an SMB server and targets of its own, with the same names and other files.
package simstorage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"

	"example.com/csi-driver/driver"
)

// What the storage system has on the network of the node.
const (
	SMBServer   = "files.example.com"
	SMBShare    = "volumes"
	SMBUser     = "csi"
	SMBPassword = "smb-password-1234"
	Portal      = "192.0.2.20"
	PortalPort  = 3260
	CHAPUser    = "csi"
	CHAPSecret  = "csi-secret-1234"
)

// Node is what a storage system does to a node, and what it sees of it. *[simnode.Node]
// implements it, and so can a client of csi-proxy-sim.
type Node interface {
	Show() (simnode.State, error)
	AttachDisk(simnode.Disk) (simnode.DiskInfo, error)
	DetachDisk(number uint32) error
	DiscardDisk(id string) error
	GrowDisk(number uint32, size simnode.Size) error
	AddShareDirectory(server, share, path string) error
	SetISCSITarget(simnode.ISCSITarget) error
	RemoveISCSITarget(iqn string) error
}

// Config is what a storage system is made with.
type Config struct {
	// FindBy is what its disks are to be found by: driver.Page83, driver.SerialNumber or driver.LUN.
	FindBy string
	// Dir is the directory of the disks that no node has. Without it a disk stays on the node from
	// which it was detached, and there can be only one.
	Dir string
	// Share is the share of SMBServer with the directories, "" for SMBShare.
	Share string
}

// Storage is a storage system. Its methods may be called concurrently. It remembers volumes, and
// asks the nodes which of them are attached. So a call whose answer was lost can be repeated.
type Storage struct {
	c Config

	mu      sync.Mutex
	made    int                // disks, ever
	nodes   map[string]Node    // by ID
	volumes map[string]*volume // by ID
}

var _ driver.Storage = (*Storage)(nil)

type volume struct {
	driver.Volume
	kind string
	name string // of the disk, the directory or the target

	// A disk also has:
	disk string // its ID on a node; no other volume ever has it
	lun  int
	at   string // the node that has it, or may have it
}

const (
	maxSize  = 16 << 40 // of a volume
	maxDisks = 256      // as many as there are LUNs
	adapter  = 9        // the adapter of the node that has the disks
)

// Describe adds the SMB server with SMBShare to the description of a node.
func Describe(c *simnode.Config) {
	c.SMBServers = append(c.SMBServers, simnode.SMBServer{
		Name: SMBServer, Shares: []string{SMBShare}, Accounts: []simnode.SMBAccount{{User: SMBUser, Password: SMBPassword}},
	})
}

// New returns a storage system without nodes.
func New(c Config) *Storage {
	c.Share = cmp.Or(c.Share, SMBShare)
	return &Storage{c: c, nodes: map[string]Node{}, volumes: map[string]*volume{}}
}

// AddNode adds a node.
func (s *Storage) AddNode(id string, n Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[id] = n
}

// Volumes returns how many volumes there are.
func (s *Storage) Volumes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.volumes)
}

// Create implements [driver.Storage].
func (s *Storage) Create(_ context.Context, name, kind string, size int64) (driver.Volume, error) {
	// Names have up to 128 characters, more than an ID could hold.
	v := &volume{kind: kind, name: fmt.Sprintf("vol-%x", sha256.Sum256([]byte(kind+" "+name)))[:20]}
	v.Size = size
	switch kind {
	case driver.KindDisk:
		v.ID = driver.DiskID(v.name)
	case driver.KindSMB:
		v.ID = driver.SMBID(SMBServer, s.c.Share, v.name)
	case driver.KindISCSI:
		v.ID = driver.ISCSIID(Portal, PortalPort, v.iqn(), 0)
	default:
		return driver.Volume{}, status.Errorf(codes.InvalidArgument, "unknown kind of volume %q", kind)
	}
	if size > maxSize {
		return driver.Volume{}, status.Errorf(codes.OutOfRange, "%d bytes are too much, want at most %d", size, int64(maxSize))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.volumes[v.ID]; there != nil {
		return there.Volume, nil
	}
	if err := s.make(v); err != nil {
		return driver.Volume{}, err
	}
	s.volumes[v.ID] = v
	return v.Volume, nil
}

// make makes what a volume has on the network. A disk comes with Attach.
func (s *Storage) make(v *volume) error {
	switch v.kind {
	case driver.KindSMB:
		return s.each(func(n Node) error { return n.AddShareDirectory(SMBServer, s.c.Share, v.name) })
	case driver.KindISCSI:
		return s.each(func(n Node) error { return n.SetISCSITarget(v.target(v.Size)) })
	}
	s.made++
	v.disk = fmt.Sprintf("%s-%d", v.name, s.made)
	if v.lun = s.freeLUN(); v.lun == maxDisks {
		return status.Errorf(codes.ResourceExhausted, "there are %d disks already", maxDisks)
	}
	return nil
}

// each calls f for every node, until one fails.
func (s *Storage) each(f func(Node) error) error {
	for _, n := range s.nodes {
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

func (v *volume) iqn() string { return "iqn.2025-01.com.example:" + v.name }

func (v *volume) target(size int64) simnode.ISCSITarget {
	return simnode.ISCSITarget{
		IQN:     v.iqn(),
		Portals: []simnode.ISCSIPortal{{Address: Portal, Port: PortalPort}},
		LUNs:    []simnode.LUN{{Disk: simnode.Disk{Size: simnode.Size(size)}}},
		CHAP:    &simnode.CHAP{User: CHAPUser, Secret: CHAPSecret},
	}
}

// freeLUN returns the lowest LUN that no disk has.
func (s *Storage) freeLUN() int {
	used := map[int]bool{}
	for _, v := range s.volumes {
		if v.kind == driver.KindDisk {
			used[v.lun] = true
		}
	}
	lun := 0
	for used[lun] {
		lun++
	}
	return lun
}

// Delete implements [driver.Storage].
func (s *Storage) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[id]
	if v == nil {
		return nil
	}
	if err := s.each(func(n Node) error { return s.discard(n, v) }); err != nil {
		return err
	}
	if err := s.removeImage(v); err != nil {
		return err
	}
	delete(s.volumes, id)
	return nil
}

// discard removes from a node what it has of a volume, unless that is an attached disk.
func (s *Storage) discard(n Node, v *volume) error {
	state, err := n.Show()
	if err != nil {
		return err
	}
	switch {
	case attached(state, v) != nil:
		return status.Errorf(codes.FailedPrecondition, "volume %q is attached to node %q", v.ID, v.at)
	case target(state, v) != nil:
		return n.RemoveISCSITarget(v.iqn())
	case v.kind == driver.KindDisk && slices.Contains(state.Detached, v.disk):
		return n.DiscardDisk(v.disk)
	}
	return nil
}

// image returns the file that has the content of a disk while no node has it.
func (s *Storage) image(v *volume) string { return filepath.Join(s.c.Dir, v.name) }

func (s *Storage) removeImage(v *volume) error {
	if s.c.Dir == "" || v.kind != driver.KindDisk {
		return nil
	}
	if err := os.Remove(s.image(v)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Get implements [driver.Storage].
func (s *Storage) Get(_ context.Context, id string) (driver.Volume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.get(id)
	if err != nil {
		return driver.Volume{}, err
	}
	return v.Volume, nil
}

func (s *Storage) get(id string) (*volume, error) {
	v := s.volumes[id]
	if v == nil {
		return nil, status.Errorf(codes.NotFound, "no volume %q", id)
	}
	return v, nil
}

// Attach implements [driver.Storage]. A disk that another node has is refused, as a cloud refuses
// it. Nodes reach SMB and iSCSI volumes by themselves.
func (s *Storage) Attach(_ context.Context, id, to string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.get(id)
	if err != nil {
		return nil, err
	}
	n := s.nodes[to]
	if n == nil {
		return nil, status.Errorf(codes.NotFound, "no node %q", to)
	}
	if v.kind != driver.KindDisk {
		return nil, nil
	}
	if v.at != "" && v.at != to {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is attached to node %q", id, v.at)
	}
	v.at = to
	if err := s.attach(n, v); err != nil {
		return nil, err
	}
	switch s.c.FindBy {
	case driver.LUN:
		return map[string]string{driver.Adapter: strconv.Itoa(adapter), driver.LUN: strconv.Itoa(v.lun)}, nil
	case driver.Page83:
		return map[string]string{driver.Page83: v.name}, nil
	}
	return map[string]string{driver.SerialNumber: v.name}, nil
}

// attach attaches the disk of a volume, unless it is attached.
func (s *Storage) attach(n Node, v *volume) error {
	state, err := n.Show()
	if err != nil {
		return err
	}
	disk := attached(state, v)
	if disk == nil {
		d := simnode.Disk{ID: v.disk} // enough for a disk that was attached before
		if !slices.Contains(state.Detached, v.disk) {
			d.Size, d.Serial = simnode.Size(v.Size), v.name
			d.Identifiers = []simnode.Identifier{{CodeSet: "ascii", Text: v.name}}
			d.Address = &simnode.Address{Port: adapter, Lun: uint8(v.lun)}
			if s.c.Dir != "" {
				if _, err := os.Stat(s.image(v)); err == nil {
					d.Image, d.Size = s.image(v), 0
				} else if !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		info, err := n.AttachDisk(d)
		if err != nil {
			return err
		}
		disk = &info
	}
	return growDisk(n, disk, v.Size)
}

// attached returns the attached disk of a volume, or nil.
func attached(state simnode.State, v *volume) *simnode.DiskInfo {
	for i, d := range state.Disks {
		if v.kind == driver.KindDisk && d.ID == v.disk {
			return &state.Disks[i]
		}
	}
	return nil
}

// target returns the target of a volume, or nil.
func target(state simnode.State, v *volume) *simnode.ISCSITargetInfo {
	for i, t := range state.ISCSITargets {
		if v.kind == driver.KindISCSI && t.IQN == v.iqn() {
			return &state.ISCSITargets[i]
		}
	}
	return nil
}

// growDisk grows a disk of a node, unless it has the size.
func growDisk(n Node, d *simnode.DiskInfo, size int64) error {
	whole := simnode.Size(size) - simnode.Size(size)%simnode.Size(d.SectorSize)
	if d.Size >= whole {
		return nil
	}
	return n.GrowDisk(d.Number, whole)
}

// Detach implements [driver.Storage].
func (s *Storage) Detach(_ context.Context, id, from string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[id]
	if v == nil || v.kind != driver.KindDisk || v.at != from {
		return nil
	}
	n := s.nodes[from]
	state, err := n.Show()
	if err != nil {
		return err
	}
	if d := attached(state, v); d != nil {
		if s.c.Dir != "" {
			// A second name of the file keeps the content when the node discards the disk.
			if err := errors.Join(s.removeImage(v), os.Link(d.Image, s.image(v))); err != nil {
				return err
			}
		}
		if err := n.DetachDisk(d.Number); err != nil {
			return err
		}
		state.Detached = append(state.Detached, v.disk)
	}
	if s.c.Dir != "" && slices.Contains(state.Detached, v.disk) {
		if err := n.DiscardDisk(v.disk); err != nil {
			return err
		}
	}
	v.at = ""
	return nil
}

// Grow implements [driver.Storage].
func (s *Storage) Grow(_ context.Context, id string, size int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.get(id)
	if err != nil {
		return 0, err
	}
	if size > maxSize {
		return 0, status.Errorf(codes.OutOfRange, "%d bytes are too much, want at most %d", size, int64(maxSize))
	}
	if size <= v.Size {
		return v.Size, nil
	}
	if err := s.grow(v, size); err != nil {
		return 0, err
	}
	v.Size = size
	return size, nil
}

// grow grows the disk of a volume where it is attached, or the LUN, and its disk where a node is
// logged in.
func (s *Storage) grow(v *volume, size int64) error {
	return s.each(func(n Node) error {
		if v.kind == driver.KindISCSI {
			if err := n.SetISCSITarget(v.target(size)); err != nil {
				return err
			}
		}
		state, err := n.Show()
		if err != nil {
			return err
		}
		disk, lun := attached(state, v), target(state, v)
		for i, d := range state.Disks {
			if disk != nil && d.Number == disk.Number || lun != nil && slices.Contains(lun.Disks, d.Number) {
				if err := growDisk(n, &state.Disks[i], size); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
