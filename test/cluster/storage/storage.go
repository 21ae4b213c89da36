// Package storage is a storage system for the simulated nodes of a cluster: it makes disks,
// attaches each to one node at a time, and moves it with its content to another. It is where
// a real cluster has the API of a cloud or an array. It also makes directories on an SMB server.
//
// There are no iSCSI targets. What a volume is on a disk moves with it: partitions, boot sectors,
// sizes. The names of files do not: a simulated node keeps them beside the disk. In the same way
// each node has an SMB server of its own, with the same directories and other files.
package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/csi-driver/driver"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// Node is what a storage system does to a node. *control.Node implements it.
type Node interface {
	Show() (simnode.State, error)
	AttachDisk(simnode.Disk) (simnode.DiskInfo, error)
	DetachDisk(number uint32) error
	DiscardDisk(id string) error
	GrowDisk(number uint32, size simnode.Size) error
	AddShareDirectory(server, share, path string) error
}

// The SMB server that every simulated node has ([simnode.Config]).
const (
	SMBServer   = "files.example.com"
	SMBShare    = "data"
	SMBUser     = "csi"
	SMBPassword = "csi"
)

// Storage is a storage system. Its methods may be called concurrently and repeated: what
// they find on the nodes says how far an earlier call came.
type Storage struct {
	dir string

	mu      sync.Mutex
	nodes   map[string]Node
	volumes map[string]*volume // by ID
}

var _ driver.Storage = (*Storage)(nil)

type volume struct {
	driver.Volume
	kind string
	name string // of the disk or the directory, on each node
	at   string // the node that has the disk, or may have it
}

// New returns a storage system that keeps the disks that no node has in a directory.
func New(dir string) *Storage {
	return &Storage{dir: dir, nodes: map[string]Node{}, volumes: map[string]*volume{}}
}

// AddNode adds a node.
func (s *Storage) AddNode(name string, n Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[name] = n
}

// Volumes returns how many volumes there are.
func (s *Storage) Volumes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.volumes)
}

// maxSize is the size of the largest volume.
const maxSize = 16 << 40

// Create implements [driver.Storage].
func (s *Storage) Create(_ context.Context, name, kind string, size int64) (driver.Volume, error) {
	if size > maxSize {
		return driver.Volume{}, status.Errorf(codes.OutOfRange, "%d bytes are too much, want at most %d", size, int64(maxSize))
	}
	v := &volume{name: fmt.Sprintf("vol-%x", sha256.Sum256([]byte(name)))[:20]}
	v.kind, v.Size = kind, size
	switch kind {
	case driver.KindDisk:
		v.ID = driver.DiskID(v.name)
	case driver.KindSMB:
		v.ID = driver.SMBID(SMBServer, SMBShare, v.name)
	default:
		return driver.Volume{}, status.Errorf(codes.InvalidArgument, "kind of volume %q, want %q or %q", kind, driver.KindDisk, driver.KindSMB)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.volumes[v.ID]; there != nil {
		return there.Volume, nil
	}
	if kind == driver.KindSMB {
		for _, n := range s.nodes {
			if err := n.AddShareDirectory(SMBServer, SMBShare, v.name); err != nil {
				return driver.Volume{}, err
			}
		}
	}
	s.volumes[v.ID] = v
	return v.Volume, nil
}

// Delete implements [driver.Storage]. A directory of a share stays on the server.
func (s *Storage) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[id]
	if v == nil {
		return nil
	}
	if v.at != "" {
		return status.Errorf(codes.FailedPrecondition, "volume %q is attached to node %q", id, v.at)
	}
	if err := os.Remove(s.image(v)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
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

// Attach implements [driver.Storage]. A disk that another node has is refused, as a cloud
// refuses it. A share is reached by each node.
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
	if v.kind == driver.KindSMB {
		return nil, nil
	}
	if v.at != "" && v.at != to {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is attached to node %q", id, v.at)
	}
	v.at = to
	d, err := find(n, v)
	if err != nil {
		return nil, err
	}
	if d == nil {
		if d, err = s.plug(n, v); err != nil {
			return nil, err
		}
	}
	if err := grow(n, d, v.Size); err != nil {
		return nil, err
	}
	return map[string]string{driver.SerialNumber: v.name}, nil
}

// plug attaches a disk with the content that it has.
func (s *Storage) plug(n Node, v *volume) (*simnode.DiskInfo, error) {
	state, err := n.Show()
	if err != nil {
		return nil, err
	}
	// An earlier Detach may have been cut off. Then the node has the content.
	d := simnode.Disk{ID: v.name}
	if !slices.Contains(state.Detached, v.name) {
		d.Size, d.Serial = simnode.Size(v.Size), v.name
		if _, err := os.Stat(s.image(v)); err == nil {
			d.Image, d.Size = s.image(v), 0
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	info, err := n.AttachDisk(d)
	return &info, err
}

// image returns the file that has the content of a volume while no node has it.
func (s *Storage) image(v *volume) string { return filepath.Join(s.dir, v.name) }

// find returns the disk of a volume on a node, or nil.
func find(n Node, v *volume) (*simnode.DiskInfo, error) {
	state, err := n.Show()
	if err != nil {
		return nil, err
	}
	for i, d := range state.Disks {
		if d.ID == v.name {
			return &state.Disks[i], nil
		}
	}
	return nil, nil
}

// grow grows a disk, unless it has the size.
func grow(n Node, d *simnode.DiskInfo, size int64) error {
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
	if v == nil || v.at != from {
		return nil
	}
	n := s.nodes[from]
	d, err := find(n, v)
	if err != nil {
		return err
	}
	if d != nil {
		// A second name of the file keeps the content when the node discards the disk.
		if err := os.Remove(s.image(v)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Link(d.Image, s.image(v)); err != nil {
			return err
		}
		if err := n.DetachDisk(d.Number); err != nil {
			return err
		}
	}
	state, err := n.Show()
	if err != nil {
		return err
	}
	if slices.Contains(state.Detached, v.name) {
		if err := n.DiscardDisk(v.name); err != nil {
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
	if v.at != "" {
		d, err := find(s.nodes[v.at], v)
		if err != nil {
			return 0, err
		}
		if d != nil {
			if err := grow(s.nodes[v.at], d, size); err != nil {
				return 0, err
			}
		}
	}
	v.Size = size
	return size, nil
}
