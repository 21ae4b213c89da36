package driver

import (
	"cmp"
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Storage is a storage system. It makes volumes and attaches them to nodes. Its methods
// may be called concurrently and repeated, and fail with a gRPC status: NotFound for an
// unknown volume or node.
type Storage interface {
	// Create makes a volume of a kind. It returns the same volume for the same name.
	Create(ctx context.Context, name, kind string, size int64) (Volume, error)
	// Delete deletes a volume. It succeeds if there is none.
	Delete(ctx context.Context, id string) error
	// Get returns a volume.
	Get(ctx context.Context, id string) (Volume, error)
	// Attach attaches a volume to a node, and returns how the node finds it.
	Attach(ctx context.Context, id, node string) (publishContext map[string]string, err error)
	// Detach detaches a volume from a node. It succeeds if it is not attached.
	Detach(ctx context.Context, id, node string) error
	// Grow grows a volume. It returns the new size.
	Grow(ctx context.Context, id string, size int64) (int64, error)
}

// Volume is a volume of a storage system.
type Volume struct {
	ID   string // by DiskID, SMBID or ISCSIID
	Size int64
}

// Kind is the parameter of a StorageClass that chooses the kind of its volumes: KindDisk,
// which is the default, KindSMB or KindISCSI.
const Kind = "kind"

// defaultSize is the size of a volume if the request has none.
const defaultSize = 1 << 30

// ControllerGetCapabilities implements [csi.ControllerServer].
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, c := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}},
		})
	}
	return out, nil
}

// CreateVolume implements [csi.ControllerServer].
func (d *Driver) CreateVolume(ctx context.Context, in *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := required("name", in.GetName()); err != nil {
		return nil, err
	}
	if len(in.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume_capabilities is missing in the request")
	}
	if in.GetVolumeContentSource() != nil {
		return nil, status.Error(codes.InvalidArgument, "volumes cannot be made from snapshots or other volumes")
	}
	size, limit := in.GetCapacityRange().GetRequiredBytes(), in.GetCapacityRange().GetLimitBytes()
	if size == 0 {
		size = defaultSize
		if limit > 0 {
			size = min(size, limit)
		}
	}
	if size < 0 || limit < 0 || limit > 0 && size > limit {
		return nil, status.Errorf(codes.OutOfRange, "capacity range: required %d bytes, at most %d", size, limit)
	}
	kind := cmp.Or(in.GetParameters()[Kind], KindDisk)
	for _, c := range in.GetVolumeCapabilities() {
		if reason := unsupported(kind == KindSMB, c); reason != "" {
			return nil, status.Error(codes.InvalidArgument, reason)
		}
	}
	unlock, err := d.lock("name " + in.GetName())
	if err != nil {
		return nil, err
	}
	defer unlock()

	made, err := d.config.Storage.Create(ctx, in.GetName(), kind, size)
	if err != nil {
		return nil, err
	}
	if made.Size < size || limit > 0 && made.Size > limit {
		return nil, status.Errorf(codes.AlreadyExists, "volume %q exists with %d bytes, want %d", in.GetName(), made.Size, size)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: made.ID, CapacityBytes: made.Size}}, nil
}

// DeleteVolume implements [csi.ControllerServer].
func (d *Driver) DeleteVolume(ctx context.Context, in *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if err := required("volume_id", in.GetVolumeId()); err != nil {
		return nil, err
	}
	if err := d.config.Storage.Delete(ctx, in.GetVolumeId()); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// ValidateVolumeCapabilities implements [csi.ControllerServer].
func (d *Driver) ValidateVolumeCapabilities(ctx context.Context, in *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := required("volume_id", in.GetVolumeId()); err != nil {
		return nil, err
	}
	if len(in.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume_capabilities is missing in the request")
	}
	v, err := d.known(ctx, in.GetVolumeId())
	if err != nil {
		return nil, err
	}
	for _, c := range in.GetVolumeCapabilities() {
		if reason := unsupported(v.shared(), c); reason != "" {
			return &csi.ValidateVolumeCapabilitiesResponse{Message: reason}, nil
		}
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeContext: in.GetVolumeContext(), VolumeCapabilities: in.GetVolumeCapabilities(), Parameters: in.GetParameters(),
		},
	}, nil
}

// ControllerPublishVolume implements [csi.ControllerServer].
func (d *Driver) ControllerPublishVolume(ctx context.Context, in *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if err := required("volume_id", in.GetVolumeId(), "node_id", in.GetNodeId()); err != nil {
		return nil, err
	}
	if in.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "volume_capability is missing in the request")
	}
	v, err := d.known(ctx, in.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if reason := unsupported(v.shared(), in.GetVolumeCapability()); reason != "" {
		return nil, status.Error(codes.InvalidArgument, reason)
	}
	publish, err := d.config.Storage.Attach(ctx, in.GetVolumeId(), in.GetNodeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: publish}, nil
}

// ControllerUnpublishVolume implements [csi.ControllerServer].
func (d *Driver) ControllerUnpublishVolume(ctx context.Context, in *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := required("volume_id", in.GetVolumeId()); err != nil {
		return nil, err
	}
	if err := d.config.Storage.Detach(ctx, in.GetVolumeId(), in.GetNodeId()); err != nil {
		return nil, err
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// ControllerExpandVolume implements [csi.ControllerServer].
func (d *Driver) ControllerExpandVolume(ctx context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if err := required("volume_id", in.GetVolumeId()); err != nil {
		return nil, err
	}
	if in.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "capacity_range is missing in the request")
	}
	v, err := d.known(ctx, in.GetVolumeId())
	if err != nil {
		return nil, err
	}
	size, limit := in.GetCapacityRange().GetRequiredBytes(), in.GetCapacityRange().GetLimitBytes()
	if size < 0 || limit < 0 || limit > 0 && size > limit {
		return nil, status.Errorf(codes.OutOfRange, "capacity range: required %d bytes, at most %d", size, limit)
	}
	grown, err := d.config.Storage.Grow(ctx, in.GetVolumeId(), size)
	if err != nil {
		return nil, err
	}
	// A shared volume has no disk on the node that would have to grow, too.
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: grown, NodeExpansionRequired: !v.shared()}, nil
}

// known returns a volume that the storage system has.
func (d *Driver) known(ctx context.Context, id string) (volume, error) {
	v, err := parseVolume(id)
	if err != nil {
		return nil, err
	}
	if _, err := d.config.Storage.Get(ctx, id); err != nil {
		return nil, err
	}
	return v, nil
}
