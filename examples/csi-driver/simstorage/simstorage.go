// Package simstorage is a storage system for a simulated node: it attaches disks to the
// node, and makes directories on its SMB server and targets on its iSCSI portal. Tests
// and demonstrations use it where a real driver calls the API of a cloud or an array.
package simstorage

import (
	"context"
	"crypto/sha256"
	"fmt"
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

// Storage is a storage system with one node. Its methods may be called concurrently.
type Storage struct {
	node   *simnode.Node
	nodeID string
	findBy string

	mu      sync.Mutex
	volumes map[string]*volume // by ID
}

var _ driver.Storage = (*Storage)(nil)

type volume struct {
	driver.Volume
	kind string
	name string // of the disk, the directory or the target
	lun  int    // of an attached disk

	attached bool
	number   uint32       // of the attached disk
	onNode   simnode.Size // size of the disk on the node; 0 if it was never attached
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
func New(node *simnode.Node, nodeID, findBy string) *Storage {
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
		return s.node.SetISCSITarget(v.target())
	}
	if v.lun = s.freeLUN(); v.lun == maxDisks {
		return status.Errorf(codes.ResourceExhausted, "there are %d disks already", maxDisks)
	}
	return nil
}

func (v *volume) iqn() string { return "iqn.2025-01.com.example:" + v.name }

func (v *volume) target() simnode.ISCSITarget {
	return simnode.ISCSITarget{
		IQN:     v.iqn(),
		Portals: []simnode.ISCSIPortal{{Address: Portal, Port: PortalPort}},
		LUNs:    []simnode.LUN{{Disk: simnode.Disk{Size: simnode.Size(v.Size)}}},
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
	if v.attached {
		return status.Errorf(codes.FailedPrecondition, "volume %q is attached to node %q", id, s.nodeID)
	}
	if v.kind == driver.KindISCSI {
		if err := s.node.RemoveISCSITarget(v.iqn()); err != nil {
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
	if !v.attached {
		if err := s.attach(v); err != nil {
			return nil, err
		}
	}
	switch s.findBy {
	case driver.LUN:
		return map[string]string{driver.Adapter: strconv.Itoa(adapter), driver.LUN: strconv.Itoa(v.lun)}, nil
	case driver.Page83:
		return map[string]string{driver.Page83: v.name}, nil
	}
	return map[string]string{driver.SerialNumber: v.name}, nil
}

func (s *Storage) attach(v *volume) error {
	d := simnode.Disk{ID: v.name} // enough for a disk that was attached before
	if v.onNode == 0 {
		d.Size, d.Serial = simnode.Size(v.Size), v.name
		d.Identifiers = []simnode.Identifier{{CodeSet: "ascii", Text: v.name}}
		d.Address = &simnode.Address{Port: adapter, Lun: uint8(v.lun)}
		v.onNode = d.Size
	}
	info, err := s.node.AttachDisk(d)
	if err != nil {
		return err
	}
	v.attached, v.number = true, info.Number
	return s.growDisk(v, v.number)
}

// growDisk grows the node's disk to the size of the volume.
func (s *Storage) growDisk(v *volume, number uint32) error {
	if v.onNode >= simnode.Size(v.Size) {
		return nil
	}
	if err := s.node.GrowDisk(number, simnode.Size(v.Size)); err != nil {
		return err
	}
	v.onNode = simnode.Size(v.Size)
	return nil
}

// Detach implements [driver.Storage].
func (s *Storage) Detach(_ context.Context, id, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[id]
	if v == nil || !v.attached {
		return nil
	}
	if err := s.node.DetachDisk(v.number); err != nil {
		return err
	}
	v.attached = false
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
	v.Size = size
	switch {
	case v.kind == driver.KindISCSI:
		return size, s.growLUN(v)
	case v.attached:
		return size, s.growDisk(v, v.number)
	}
	return size, nil
}

// growLUN grows the LUN of a target, and its disk if the node is logged in.
func (s *Storage) growLUN(v *volume) error {
	if err := s.node.SetISCSITarget(v.target()); err != nil {
		return err
	}
	state, err := s.node.Show()
	if err != nil {
		return err
	}
	for _, t := range state.ISCSITargets {
		if t.IQN != v.iqn() {
			continue
		}
		for _, number := range t.Disks {
			if err := s.node.GrowDisk(number, simnode.Size(v.Size)); err != nil {
				return err
			}
		}
	}
	return nil
}
