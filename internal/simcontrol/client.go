// Package simcontrol lets another process control a simulated node: attach,
// detach and grow disks, make Windows calls fail, reboot. csi-proxy-sim serves it
// on the pipe csi-proxy-simulated-node; package server is its side. csi-proxyctl
// node, tests and the demo call it by a [Client].
//
// It is no part of the published API and has no promise of stability.
package simcontrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Pipe is the name of the pipe.
const Pipe = "csi-proxy-simulated-node"

// Client controls the node at the other end of a connection. Several goroutines
// may use it at once.
type Client struct{ node NodeClient }

// NewClient is the client of a connection to the pipe.
func NewClient(conn grpc.ClientConnInterface) *Client { return &Client{NewNodeClient(conn)} }

// Show returns the state of the node.
func (c *Client) Show(ctx context.Context) (nodespec.State, error) {
	out, err := c.node.Show(ctx, &Empty{})
	return described[nodespec.State](out, err)
}

// AttachDisk attaches a disk, or attaches one again that was detached if d.ID is
// its ID.
func (c *Client) AttachDisk(ctx context.Context, d nodespec.Disk) (nodespec.DiskInfo, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nodespec.DiskInfo{}, err
	}
	out, err := c.node.AttachDisk(ctx, &Description{Json: string(text)})
	return described[nodespec.DiskInfo](out, err)
}

// DetachDisk removes a disk, even one that is in use.
func (c *Client) DetachDisk(ctx context.Context, number uint32) error {
	_, err := c.node.DetachDisk(ctx, &DetachDiskRequest{DiskNumber: number})
	return err
}

// DiscardDisk deletes a detached disk with its content.
func (c *Client) DiscardDisk(ctx context.Context, id string) error {
	_, err := c.node.DiscardDisk(ctx, &DiscardDiskRequest{Id: id})
	return err
}

// GrowDisk makes a disk larger.
func (c *Client) GrowDisk(ctx context.Context, number uint32, size nodespec.Size) error {
	_, err := c.node.GrowDisk(ctx, &GrowDiskRequest{DiskNumber: number, SizeBytes: uint64(size)})
	return err
}

// Fail starts a fault.
func (c *Client) Fail(ctx context.Context, f nodespec.Fault) error {
	if f.Do != nil {
		return errors.New("fail: a function cannot be sent to another process")
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_, err = c.node.Fail(ctx, &Description{Json: string(text)})
	return err
}

// ClearFaults ends all faults.
func (c *Client) ClearFaults(ctx context.Context) error {
	_, err := c.node.ClearFaults(ctx, &Empty{})
	return err
}

// SetService makes a Windows service, or replaces the one of that name.
func (c *Client) SetService(ctx context.Context, s nodespec.Service) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = c.node.SetService(ctx, &Description{Json: string(text)})
	return err
}

// SetISCSITarget makes a target, or replaces the one of that name.
func (c *Client) SetISCSITarget(ctx context.Context, t nodespec.ISCSITarget) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = c.node.SetIscsiTarget(ctx, &SecretDescription{SecretJson: string(text)})
	return err
}

// RemoveISCSITarget removes a target with its sessions and disks.
func (c *Client) RemoveISCSITarget(ctx context.Context, iqn string) error {
	_, err := c.node.RemoveIscsiTarget(ctx, &RemoveIscsiTargetRequest{Iqn: iqn})
	return err
}

// AddSMBServer puts a server on the network of the node.
func (c *Client) AddSMBServer(ctx context.Context, s nodespec.SMBServer) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = c.node.AddSmbServer(ctx, &SecretDescription{SecretJson: string(text)})
	return err
}

// ChangeSMBServer makes the changes of a server that the request contains.
func (c *Client) ChangeSMBServer(ctx context.Context, in *ChangeSmbServerRequest) error {
	_, err := c.node.ChangeSmbServer(ctx, in)
	return err
}

// SetSMBMappingStatus makes Windows report a status of a mapping, one of
// [nodespec.SMBStatuses].
func (c *Client) SetSMBMappingStatus(ctx context.Context, remote, status string) error {
	_, err := c.node.SetSmbMappingStatus(ctx, &SetSmbMappingStatusRequest{Remote: remote, Status: status})
	return err
}

// Reboot restarts the node.
func (c *Client) Reboot(ctx context.Context) error {
	_, err := c.node.Reboot(ctx, &Empty{})
	return err
}

// described is the value in an answer.
func described[T any](out *Description, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	v, err := nodespec.Decode[T]([]byte(out.Json))
	if err != nil {
		return v, fmt.Errorf("csi-proxy-sim of another release: %w", err)
	}
	return v, nil
}
