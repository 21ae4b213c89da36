// Package server is the service by which another process controls a simulated
// node: package simcontrol over package simnode.
package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Server is the service over a simulated node.
type Server struct {
	simcontrol.UnimplementedNodeServer
	node *simnode.Node
}

// New makes the service that controls n.
func New(n *simnode.Node) *Server { return &Server{node: n} }

var _ simcontrol.NodeServer = (*Server)(nil)

// read reads the description in a request.
func read[T any](op, text string) (T, error) {
	v, err := nodespec.Decode[T]([]byte(text))
	if err != nil {
		return v, fmt.Errorf("%s: %w: %w", op, err, hosterr.ErrInvalid)
	}
	return v, nil
}

// describe writes the description in an answer.
func describe(v any) (*simcontrol.Description, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &simcontrol.Description{Json: string(text)}, nil
}

// done is the answer of a method that returns nothing.
func done(err error) (*simcontrol.Empty, error) {
	if err != nil {
		return nil, err
	}
	return &simcontrol.Empty{}, nil
}

// withinADay checks a delay that a caller has to wait for.
func withinADay(op, what string, d time.Duration) error {
	if d < 0 || d > 24*time.Hour {
		return fmt.Errorf("%s: %s of %v, want 0 to a day: %w", op, what, d, hosterr.ErrInvalid)
	}
	return nil
}

// Show implements [simcontrol.NodeServer].
func (s *Server) Show(context.Context, *simcontrol.Empty) (*simcontrol.Description, error) {
	state, err := s.node.Show()
	if err != nil {
		return nil, err
	}
	return describe(state)
}

// AttachDisk implements [simcontrol.NodeServer].
func (s *Server) AttachDisk(_ context.Context, in *simcontrol.Description) (*simcontrol.Description, error) {
	d, err := read[nodespec.Disk]("attach disk", in.Json)
	if err != nil {
		return nil, err
	}
	info, err := s.node.AttachDisk(d)
	if err != nil {
		return nil, err
	}
	return describe(info)
}

// DetachDisk implements [simcontrol.NodeServer].
func (s *Server) DetachDisk(_ context.Context, in *simcontrol.DetachDiskRequest) (*simcontrol.Empty, error) {
	return done(s.node.DetachDisk(in.DiskNumber))
}

// DiscardDisk implements [simcontrol.NodeServer].
func (s *Server) DiscardDisk(_ context.Context, in *simcontrol.DiscardDiskRequest) (*simcontrol.Empty, error) {
	return done(s.node.DiscardDisk(in.Id))
}

// GrowDisk implements [simcontrol.NodeServer].
func (s *Server) GrowDisk(_ context.Context, in *simcontrol.GrowDiskRequest) (*simcontrol.Empty, error) {
	return done(s.node.GrowDisk(in.DiskNumber, nodespec.Size(in.SizeBytes)))
}

// Fail implements [simcontrol.NodeServer].
func (s *Server) Fail(_ context.Context, in *simcontrol.Description) (*simcontrol.Empty, error) {
	f, err := read[nodespec.Fault]("fail", in.Json)
	if err != nil {
		return nil, err
	}
	if err := withinADay("fail "+f.Call, "a delay", f.Delay); err != nil {
		return nil, err
	}
	_, err = s.node.Fail(f)
	return done(err)
}

// ClearFaults implements [simcontrol.NodeServer].
func (s *Server) ClearFaults(context.Context, *simcontrol.Empty) (*simcontrol.Empty, error) {
	s.node.ClearFaults()
	return done(nil)
}

// SetService implements [simcontrol.NodeServer].
func (s *Server) SetService(_ context.Context, in *simcontrol.Description) (*simcontrol.Empty, error) {
	d, err := read[nodespec.Service]("set service", in.Json)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		what string
		d    nodespec.Duration
	}{{"a start delay", d.StartDelay}, {"a stop delay", d.StopDelay}, {"a wait hint", d.WaitHint}} {
		if err := withinADay("set service "+hosterr.Quote(d.Name), f.what, time.Duration(f.d)); err != nil {
			return nil, err
		}
	}
	return done(s.node.SetService(d))
}

// SetIscsiTarget implements [simcontrol.NodeServer].
func (s *Server) SetIscsiTarget(_ context.Context, in *simcontrol.SecretDescription) (*simcontrol.Empty, error) {
	const op = "set iSCSI target"
	t, err := read[nodespec.ISCSITarget](op, in.SecretJson)
	if err != nil {
		return nil, err
	}
	if err := withinADay(op+" "+hosterr.Quote(t.IQN), "an arrival delay", time.Duration(t.ArrivalDelay)); err != nil {
		return nil, err
	}
	return done(hosterr.Wrap(op, hosterr.Quote(t.IQN), s.node.SetISCSITarget(t)))
}

// RemoveIscsiTarget implements [simcontrol.NodeServer].
func (s *Server) RemoveIscsiTarget(_ context.Context, in *simcontrol.RemoveIscsiTargetRequest) (*simcontrol.Empty, error) {
	return done(s.node.RemoveISCSITarget(in.Iqn))
}

// AddSmbServer implements [simcontrol.NodeServer].
func (s *Server) AddSmbServer(_ context.Context, in *simcontrol.SecretDescription) (*simcontrol.Empty, error) {
	server, err := read[nodespec.SMBServer]("add SMB server", in.SecretJson)
	if err != nil {
		return nil, err
	}
	return done(s.node.AddSMBServer(server))
}

// ChangeSmbServer implements [simcontrol.NodeServer].
func (s *Server) ChangeSmbServer(_ context.Context, in *simcontrol.ChangeSmbServerRequest) (*simcontrol.Empty, error) {
	var changes []func() error
	if in.AddShare != "" {
		changes = append(changes, func() error { return s.node.AddSMBShare(in.Name, in.AddShare) })
	}
	if in.AddDirectory != "" {
		share, path, _ := strings.Cut(strings.ReplaceAll(in.AddDirectory, "/", `\`), `\`)
		changes = append(changes, func() error { return s.node.AddShareDirectory(in.Name, share, path) })
	}
	if in.User != "" {
		changes = append(changes, func() error { return s.node.SetSMBPassword(in.Name, in.User, in.Password) })
	}
	if in.Encryption != nil {
		changes = append(changes, func() error { return s.node.SetSMBEncryption(in.Name, *in.Encryption) })
	}
	if in.Down != nil {
		changes = append(changes, func() error { return s.node.SetSMBServerDown(in.Name, *in.Down) })
	}
	if len(changes) == 0 {
		return nil, fmt.Errorf("SMB server %q: no change given: %w", in.Name, hosterr.ErrInvalid)
	}
	for _, change := range changes {
		if err := change(); err != nil {
			return nil, err
		}
	}
	return done(nil)
}

// SetSmbMappingStatus implements [simcontrol.NodeServer].
func (s *Server) SetSmbMappingStatus(_ context.Context, in *simcontrol.SetSmbMappingStatusRequest) (*simcontrol.Empty, error) {
	return done(s.node.SetSMBMappingStatus(in.Remote, in.Status))
}

// Reboot implements [simcontrol.NodeServer].
func (s *Server) Reboot(context.Context, *simcontrol.Empty) (*simcontrol.Empty, error) {
	return done(s.node.Reboot())
}
