// Package simstorage is a storage system for a simulated node: it attaches disks to the
// node, and makes directories on its SMB server and targets on its iSCSI portal. Tests
// and demonstrations use it where a real driver calls the API of a cloud or an array.
package simstorage

import (
	"context"
	"crypto/sha256"
	"fmt"
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

// Storage is a storage system with one node. Its methods may be called concurrently. It
// remembers volumes, and asks the node which of them are attached. So a call whose answer
// was lost can be repeated.
type Storage struct {
	node   Node
	nodeID string
	findBy string

	mu      sync.Mutex
	made    int                // disks, ever
	volumes map[string]*volume // by ID
}

var _ driver.Storage = (*Storage)(nil)

type volume struct {
	driver.Volume
	kind string
	name string // of the disk, the directory or the target

	// A disk also has:
	disk string // its ID on the node; no other volume ever has it
	lun  int
}

const (
	maxSize  = 16 << 40 // of a volume
	maxDisks = 256      // as many as there are LUNs
	adapter  = 9        // the adapter of the node that has the disks
)

// Describe adds the SMB server to the description of a node. [New] needs it.
func Describe(c *simnode.Config) {
	c.SMBServers = append(c.SMBServers, simnode.SMBServer{
		Name: SMBServer, Shares: []string{SMBShare}, Accounts: []simnode.SMBAccount{{User: SMBUser, Password: SMBPassword}},
	})
}

// New returns a storage system. Its disks are to be found by findBy: driver.Page83,
// driver.SerialNumber or driver.LUN.
func New(node Node, nodeID, findBy string) *Storage {
	return &Storage{node: node, nodeID: nodeID, findBy: findBy, volumes: map[string]*volume{}}
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
		v.ID = driver.SMBID(SMBServer, SMBShare, v.name)
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
		return s.node.AddShareDirectory(SMBServer, SMBShare, v.name)
	case driver.KindISCSI:
		return s.node.SetISCSITarget(v.target(v.Size))
	}
	s.made++
	v.disk = fmt.Sprintf("%s-%d", v.name, s.made)
	if v.lun = s.freeLUN(); v.lun == maxDisks {
		return status.Errorf(codes.ResourceExhausted, "there are %d disks already", maxDisks)
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
	state, err := s.node.Show()
	if err != nil {
		return err
	}
	if attached(state, v) != nil {
		return status.Errorf(codes.FailedPrecondition, "volume %q is attached to node %q", id, s.nodeID)
	}
	if target(state, v) != nil {
		if err := s.node.RemoveISCSITarget(v.iqn()); err != nil {
			return err
		}
	}
	if v.kind == driver.KindDisk && slices.Contains(state.Detached, v.disk) {
		if err := s.node.DiscardDisk(v.disk); err != nil {
			return err
		}
	}
	delete(s.volumes, id)
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

// Attach implements [driver.Storage]. Nodes reach SMB and iSCSI volumes by themselves.
func (s *Storage) Attach(_ context.Context, id, node string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.get(id)
	if err != nil {
		return nil, err
	}
	if node != s.nodeID {
		return nil, status.Errorf(codes.NotFound, "no node %q", node)
	}
	if v.kind != driver.KindDisk {
		return nil, nil
	}
	if err := s.attach(v); err != nil {
		return nil, err
	}
	switch s.findBy {
	case driver.LUN:
		return map[string]string{driver.Adapter: strconv.Itoa(adapter), driver.LUN: strconv.Itoa(v.lun)}, nil
	case driver.Page83:
		return map[string]string{driver.Page83: v.name}, nil
	}
	return map[string]string{driver.SerialNumber: v.name}, nil
}

// attach attaches the disk of a volume, unless it is attached.
func (s *Storage) attach(v *volume) error {
	state, err := s.node.Show()
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
		}
		info, err := s.node.AttachDisk(d)
		if err != nil {
			return err
		}
		disk = &info
	}
	return s.growDisk(disk, v.Size)
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

// growDisk grows a disk of the node, unless it has the size.
func (s *Storage) growDisk(d *simnode.DiskInfo, size int64) error {
	whole := simnode.Size(size) - simnode.Size(size)%simnode.Size(d.SectorSize)
	if d.Size >= whole {
		return nil
	}
	return s.node.GrowDisk(d.Number, whole)
}

// Detach implements [driver.Storage].
func (s *Storage) Detach(_ context.Context, id, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[id]
	if v == nil || v.kind != driver.KindDisk {
		return nil
	}
	state, err := s.node.Show()
	if err != nil {
		return err
	}
	disk := attached(state, v)
	if disk == nil {
		return nil
	}
	return s.node.DetachDisk(disk.Number)
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

// grow grows the disk of a volume if it is attached, or the LUN, and its disk if the
// node is logged in.
func (s *Storage) grow(v *volume, size int64) error {
	if v.kind == driver.KindISCSI {
		if err := s.node.SetISCSITarget(v.target(size)); err != nil {
			return err
		}
	}
	state, err := s.node.Show()
	if err != nil {
		return err
	}
	disk, lun := attached(state, v), target(state, v)
	for i, d := range state.Disks {
		if disk != nil && d.Number == disk.Number || lun != nil && slices.Contains(lun.Disks, d.Number) {
			if err := s.growDisk(&state.Disks[i], size); err != nil {
				return err
			}
		}
	}
	return nil
}
