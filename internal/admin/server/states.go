package server

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// States looks which states the disks and the SMB mappings of a node have, for metrics. A
// device that hangs holds one goroutine, however often States looks.
type States struct {
	Node *node.Node
	SMB  Mappings // may be nil

	questions questions
}

// Mappings is the part of the SMB service that knows the states of mappings.
type Mappings interface {
	// CountMappings returns how many mappings of the node have each status.
	CountMappings(context.Context) (map[smbapi.Status]int, error)
	// CountPending returns how many mappings are removed as soon as no link uses them. It
	// makes no call of Windows.
	CountPending() int
}

// DiskState is the state of a disk.
type DiskState string

// The states of disks.
const (
	DiskOnline     DiskState = "online"
	DiskReadOnly   DiskState = "read-only" // and online
	DiskOffline    DiskState = "offline"
	DiskUnanswered DiskState = "unanswered" // it did not answer in time, or with an error
)

// DiskStates returns all states of disks.
func DiskStates() []DiskState {
	return []DiskState{DiskOnline, DiskReadOnly, DiskOffline, DiskUnanswered}
}

// Disks returns how many disks of the node have each state, as far as they answer before ctx
// ends. It fails if Windows does not list its disks.
func (s *States) Disks(ctx context.Context) (map[DiskState]int, error) {
	paths, err := ask(ctx, &s.questions, "disks", func(context.Context) ([]string, error) { return storage.DiskPaths(s.Node) })
	if err != nil {
		return nil, err
	}
	states := make([]DiskState, len(paths)) // "" for what is no disk
	admin.EachDevice(len(paths), func(i int) {
		state, err := ask(ctx, &s.questions, "state of "+paths[i], func(ctx context.Context) (DiskState, error) { return s.disk(ctx, paths[i]) })
		if err != nil {
			state = DiskUnanswered
		}
		states[i] = state
	})
	counts := map[DiskState]int{}
	for _, state := range states {
		if state != "" {
			counts[state]++
		}
	}
	return counts, nil
}

func (s *States) disk(ctx context.Context, path string) (state DiskState, err error) {
	errVisit := storage.VisitDisk(ctx, s.Node, path, storage.Query, func(_ uint32, d *storage.Disk) {
		var attrs uint64
		if attrs, err = d.Attributes(ctx); err != nil {
			return
		}
		state = DiskOnline
		protected := attrs&win32.DISK_ATTRIBUTE_READ_ONLY != 0
		if attrs&win32.DISK_ATTRIBUTE_OFFLINE != 0 {
			state = DiskOffline
			return
		}
		if !protected {
			protected, err = d.WriteProtected(ctx)
		}
		if protected {
			state = DiskReadOnly
		}
	})
	if errVisit != nil {
		return "", errVisit
	}
	return state, err
}

// Mappings returns how many SMB mappings of the node have each status. It fails if Windows does
// not answer before ctx ends.
func (s *States) Mappings(ctx context.Context) (map[smbapi.Status]int, error) {
	return ask(ctx, &s.questions, "mappings", func(ctx context.Context) (map[smbapi.Status]int, error) {
		// Until Windows answers: with a deadline it would leave its thread behind, and the next
		// question would start another one.
		return s.SMB.CountMappings(context.WithoutCancel(ctx))
	})
}
