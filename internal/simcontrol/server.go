// Package simcontrol lets another process control a simulated node: attach,
// detach and grow disks, make Windows calls fail, reboot. The daemon serves it
// beside the API, on the pipe csi-proxy-simulated-node, only where its node is
// simulated. csi-proxyctl node is its client.
//
// It is no part of the published API and has no promise of stability.
package simcontrol

//go:generate go run ../../hack/simcontrolgen -dir .

import (
	"context"
	"fmt"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// Pipe is the name of the pipe.
const Pipe = "csi-proxy-simulated-node"

// Server is the service over a simulated node.
type Server struct {
	UnimplementedNodeServer
	node *simnode.Node
}

// NewServer makes the service that controls n.
func NewServer(n *simnode.Node) *Server { return &Server{node: n} }

var _ NodeServer = (*Server)(nil)

// Show implements [NodeServer].
func (s *Server) Show(context.Context, *ShowRequest) (*ShowResponse, error) {
	state, err := s.node.Show()
	if err != nil {
		return nil, err
	}
	out := &ShowResponse{OpenHandles: state.OpenHandles, Detached: state.Detached}
	for _, d := range state.Disks {
		out.Disks = append(out.Disks, disk(d))
	}
	for _, v := range state.Volumes {
		out.Volumes = append(out.Volumes, &Volume{
			Id: v.ID, DiskNumbers: v.Disks, OffsetBytes: uint64(v.Offset), SizeBytes: uint64(v.Size),
			Arrived: v.Arrived, FileSystem: v.FileSystem, Entries: uint32(v.Entries), MountedAt: v.MountedAt,
		})
	}
	showServices(out, state)
	for _, s := range state.SMBServers {
		out.SmbServers = append(out.SmbServers, &SmbServer{Name: s.Name, Shares: s.Shares, Users: s.Users, Down: s.Down, Encryption: s.Encryption})
	}
	for _, m := range state.SMBMappings {
		out.SmbMappings = append(out.SmbMappings, &SmbMapping{Remote: m.Remote, User: m.User, Status: m.Status, UsedBy: m.UsedBy})
	}
	for _, f := range state.Faults {
		out.Faults = append(out.Faults, &Fault{
			Call: f.Call, Code: f.Code, Error: f.Error, Times: f.Times, DelayMilliseconds: f.Delay.Milliseconds(), Hits: f.Hits,
		})
	}
	return out, nil
}

func disk(d simnode.DiskInfo) *Disk {
	return &Disk{
		Number: d.Number, Id: d.ID, SizeBytes: uint64(d.Size), SeenSizeBytes: uint64(d.SeenSize), SectorSize: d.SectorSize, Style: d.Style,
		SerialNumber: d.Serial, Page83: d.Page83, Online: d.Online, ReadOnly: d.ReadOnly, System: d.System, Waiting: d.Waiting, Image: d.Image,
	}
}

// AttachDisk implements [NodeServer].
func (s *Server) AttachDisk(_ context.Context, in *AttachDiskRequest) (*AttachDiskResponse, error) {
	d := simnode.Disk{
		ID: in.Id, Size: simnode.Size(in.SizeBytes), SectorSize: in.SectorSize, Serial: in.SerialNumber, Content: in.Content,
	}
	if in.Page83 != "" {
		d.Identifiers = []simnode.Identifier{{CodeSet: "ascii", Text: in.Page83}}
	}
	info, err := s.node.AttachDisk(d)
	if err != nil {
		return nil, err
	}
	return &AttachDiskResponse{Disk: disk(info)}, nil
}

// DetachDisk implements [NodeServer].
func (s *Server) DetachDisk(_ context.Context, in *DetachDiskRequest) (*DetachDiskResponse, error) {
	if err := s.node.DetachDisk(in.DiskNumber); err != nil {
		return nil, err
	}
	return &DetachDiskResponse{}, nil
}

// GrowDisk implements [NodeServer].
func (s *Server) GrowDisk(_ context.Context, in *GrowDiskRequest) (*GrowDiskResponse, error) {
	if err := s.node.GrowDisk(in.DiskNumber, simnode.Size(in.SizeBytes)); err != nil {
		return nil, err
	}
	return &GrowDiskResponse{}, nil
}

// Fail implements [NodeServer].
func (s *Server) Fail(_ context.Context, in *FailRequest) (*FailResponse, error) {
	f := in.Fault
	if f == nil {
		return nil, fmt.Errorf("fail: no fault given: %w", hosterr.ErrInvalid)
	}
	const most = int64(24 * time.Hour / time.Millisecond)
	if f.DelayMilliseconds < 0 {
		return nil, fmt.Errorf("fail %s: a delay of %d ms is negative: %w", f.Call, f.DelayMilliseconds, hosterr.ErrInvalid)
	}
	if f.DelayMilliseconds > most {
		return nil, fmt.Errorf("fail %s: a delay of %d ms is beyond a day: %w", f.Call, f.DelayMilliseconds, hosterr.ErrInvalid)
	}
	_, err := s.node.Fail(simnode.Fault{
		Call: f.Call, Code: f.Code, Error: f.Error, Times: f.Times, Delay: time.Duration(f.DelayMilliseconds) * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	return &FailResponse{}, nil
}

// ClearFaults implements [NodeServer].
func (s *Server) ClearFaults(context.Context, *ClearFaultsRequest) (*ClearFaultsResponse, error) {
	s.node.ClearFaults()
	return &ClearFaultsResponse{}, nil
}

// Reboot implements [NodeServer].
func (s *Server) Reboot(context.Context, *RebootRequest) (*RebootResponse, error) {
	if err := s.node.Reboot(); err != nil {
		return nil, err
	}
	return &RebootResponse{}, nil
}
