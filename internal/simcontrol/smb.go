package simcontrol

import (
	"context"
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// AddSmbServer implements [NodeServer].
func (s *Server) AddSmbServer(_ context.Context, in *AddSmbServerRequest) (*AddSmbServerResponse, error) {
	err := s.node.AddSMBServer(simnode.SMBServer{Name: in.Name, Shares: in.Shares, NoEncryption: in.NoEncryption, NodeAccount: in.NodeAccount})
	if err != nil {
		return nil, err
	}
	return &AddSmbServerResponse{}, nil
}

// ChangeSmbServer implements [NodeServer].
func (s *Server) ChangeSmbServer(_ context.Context, in *ChangeSmbServerRequest) (*ChangeSmbServerResponse, error) {
	var changes []func() error
	if in.AddShare != "" {
		changes = append(changes, func() error { return s.node.AddSMBShare(in.Name, in.AddShare) })
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
	return &ChangeSmbServerResponse{}, nil
}

// SetSmbMappingStatus implements [NodeServer].
func (s *Server) SetSmbMappingStatus(_ context.Context, in *SetSmbMappingStatusRequest) (*SetSmbMappingStatusResponse, error) {
	if err := s.node.SetSMBMappingStatus(in.Remote, in.Status); err != nil {
		return nil, err
	}
	return &SetSmbMappingStatusResponse{}, nil
}
