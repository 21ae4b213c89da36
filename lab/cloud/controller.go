package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// Controller is the CSI controller of a cloud with one node. It implements csi.ControllerServer for
// callers that make no mistakes, and of csi.IdentityServer what csi-sanity asks. Its methods may be
// called concurrently.
type Controller struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	node  *simnode.Node
	cloud Cloud

	mu      sync.Mutex
	volumes map[string]*created // by ID
	whole   bool                // the node has the disks of the machine itself
}

// created is a volume that was created.
type created struct {
	volume
	size     int64
	attached bool
	number   uint32 // of the attached disk
	onNode   int64  // the size of the disk on the node; 0 if it was never attached
	diskID   string // of the disk on the node
}

const (
	gib         = 1 << 30
	defaultSize = 10 * gib
)

// New returns a controller of a cloud whose disks are attached to node. For a cloud of SMB
// shares the node must have [SMBServers].
func New(node *simnode.Node, c Cloud) *Controller {
	return &Controller{node: node, cloud: c, volumes: map[string]*created{}}
}

// Start serves the controller on a port of this machine until the context ends, and
// returns its address.
func (c *Controller) Start(ctx context.Context) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, c)
	csi.RegisterControllerServer(s, c)
	context.AfterFunc(ctx, s.Stop)
	go func() { _ = s.Serve(l) }() // ends with Stop
	return l.Addr().String(), nil
}

// GetPluginInfo implements csi.IdentityServer.
func (c *Controller) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: c.cloud.Name + ".lab.example.com", VendorVersion: "lab"}, nil
}

// Probe implements csi.IdentityServer.
func (c *Controller) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (c *Controller) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE},
	}}}}, nil
}

// ControllerGetCapabilities implements csi.ControllerServer.
func (c *Controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	types := []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}
	if c.cloud.attached() {
		types = append(types, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME)
	}
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range types {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: t},
		}})
	}
	return out, nil
}

// CreateVolume implements csi.ControllerServer.
func (c *Controller) CreateVolume(_ context.Context, in *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d := digestOf(c.cloud.Name, in.GetName())
	v := &created{volume: volume{id: c.cloud.id(d), digest: d}, size: cmp.Or(in.GetCapacityRange().GetRequiredBytes(), defaultSize)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if there := c.volumes[v.id]; there != nil {
		v = there
	} else if c.cloud.make != nil {
		if err := c.cloud.make(c.node, v.volume); err != nil {
			return nil, fmt.Errorf("make volume %q: %w", in.GetName(), err)
		}
	}
	c.volumes[v.id] = v
	// As for provisioners of SMB, drivers get the parameters, too.
	out := &csi.Volume{VolumeId: v.id, CapacityBytes: v.size, VolumeContext: maps.Clone(in.GetParameters())}
	if c.cloud.context != nil {
		if out.VolumeContext == nil {
			out.VolumeContext = map[string]string{}
		}
		maps.Copy(out.VolumeContext, c.cloud.context(v.volume))
	}
	return &csi.CreateVolumeResponse{Volume: out}, nil
}

// DeleteVolume implements csi.ControllerServer.
func (c *Controller) DeleteVolume(_ context.Context, in *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.volumes[in.GetVolumeId()]; v != nil && v.attached {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is attached", v.id)
	} else if v != nil && v.diskID != "" {
		if err := c.node.DiscardDisk(v.diskID); err != nil {
			return nil, fmt.Errorf("delete the disk of volume %q: %w", v.id, err)
		}
	}
	delete(c.volumes, in.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
}

// get returns a volume. The caller holds c.mu.
func (c *Controller) get(id string) (*created, error) {
	if v := c.volumes[id]; v != nil {
		return v, nil
	}
	return nil, status.Errorf(codes.NotFound, "no volume %q", id)
}

// ControllerPublishVolume implements csi.ControllerServer: it attaches the disk.
func (c *Controller) ControllerPublishVolume(_ context.Context, in *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.get(in.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if !v.attached {
		if err := c.attach(v); err != nil {
			return nil, err
		}
		v.attached = true
	}
	out := &csi.ControllerPublishVolumeResponse{}
	if c.cloud.publish != nil {
		out.PublishContext = c.cloud.publish(v.volume)
	}
	return out, nil
}

// attach attaches a disk to the node. The caller holds c.mu.
func (c *Controller) attach(v *created) error {
	if !c.cloud.attached() {
		return nil
	}
	if err := c.complete(); err != nil {
		return err
	}
	used := map[int]bool{}
	for _, other := range c.volumes {
		if other.attached {
			used[other.slot] = true
		}
	}
	v.slot = 0
	for used[v.slot] {
		v.slot++
	}
	d := simnode.Disk{ID: v.diskID} // enough for a disk that was attached before
	if v.diskID == "" {
		d = c.cloud.disk(v.volume)
		d.Size = simnode.Size(v.size)
	}
	info, err := c.node.AttachDisk(d)
	if err != nil {
		return fmt.Errorf("attach the disk of volume %q: %w", v.id, err)
	}
	if v.diskID == "" {
		v.diskID, v.onNode = info.ID, v.size
	}
	v.number = info.Number
	return c.growOnNode(v)
}

// complete attaches the disks that machines of the cloud have themselves. The caller holds c.mu.
func (c *Controller) complete() error {
	if c.whole {
		return nil
	}
	for _, d := range c.cloud.own {
		if _, err := c.node.AttachDisk(d); err != nil {
			return fmt.Errorf("attach the machine's own disk: %w", err)
		}
	}
	c.whole = true
	return nil
}

// growOnNode grows the disk of the node to the size of the volume. The caller holds c.mu.
func (c *Controller) growOnNode(v *created) error {
	if v.onNode >= v.size {
		return nil
	}
	if err := c.node.GrowDisk(v.number, simnode.Size(v.size)); err != nil {
		return fmt.Errorf("grow the disk of volume %q: %w", v.id, err)
	}
	v.onNode = v.size
	return nil
}

// ControllerUnpublishVolume implements csi.ControllerServer: it detaches the disk.
func (c *Controller) ControllerUnpublishVolume(_ context.Context, in *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.volumes[in.GetVolumeId()]
	if v == nil || !v.attached {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	if c.cloud.attached() {
		// Clouds find nothing to do if the disk is gone from the machine.
		if err := c.node.DetachDisk(v.number); err != nil && !errors.Is(err, hosterr.ErrNotFound) {
			return nil, fmt.Errorf("detach the disk of volume %q: %w", v.id, err)
		}
	}
	v.attached = false
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// ControllerExpandVolume implements csi.ControllerServer.
func (c *Controller) ControllerExpandVolume(_ context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.get(in.GetVolumeId())
	if err != nil {
		return nil, err
	}
	v.size = max(v.size, in.GetCapacityRange().GetRequiredBytes())
	if v.attached {
		if err := c.growOnNode(v); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.size, NodeExpansionRequired: true}, nil
}

// attached returns the volumes whose disks are attached, in the order of their slots.
func (c *Controller) attached() []volume {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []volume
	for _, v := range c.volumes {
		if v.attached {
			all = append(all, v.volume)
		}
	}
	slices.SortFunc(all, func(a, b volume) int { return a.slot - b.slot })
	return all
}
