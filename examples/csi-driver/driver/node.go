package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeGetInfo implements [csi.NodeServer].
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.config.NodeID}, nil
}

// NodeGetCapabilities implements [csi.NodeServer].
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	out := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
	} {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return out, nil
}

// NodeStageVolume implements [csi.NodeServer].
func (d *Driver) NodeStageVolume(ctx context.Context, in *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	v, unlock, err := d.begin(in.GetVolumeId(), "staging_target_path", in.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := capable(v, in.GetVolumeCapability()); err != nil {
		return nil, err
	}
	if err := v.stage(ctx, d.config.Node, in); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// NodeUnstageVolume implements [csi.NodeServer].
func (d *Driver) NodeUnstageVolume(ctx context.Context, in *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	v, unlock, err := d.begin(in.GetVolumeId(), "staging_target_path", in.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := v.unstage(ctx, d.config.Node, in.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume implements [csi.NodeServer]. It makes a link to the staged volume.
//
// A link cannot be read-only. For a read-only volume the kubelet asks the container
// runtime for a read-only mount.
func (d *Driver) NodePublishVolume(ctx context.Context, in *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	v, unlock, err := d.begin(in.GetVolumeId(), "target_path", in.GetTargetPath(), "staging_target_path", in.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := capable(v, in.GetVolumeCapability()); err != nil {
		return nil, err
	}
	if err := d.config.Node.Publish(ctx, in.GetStagingTargetPath(), in.GetTargetPath()); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume implements [csi.NodeServer].
func (d *Driver) NodeUnpublishVolume(ctx context.Context, in *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	_, unlock, err := d.begin(in.GetVolumeId(), "target_path", in.GetTargetPath())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := d.config.Node.Unpublish(ctx, in.GetTargetPath()); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats implements [csi.NodeServer].
func (d *Driver) NodeGetVolumeStats(ctx context.Context, in *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := required("volume_id", in.GetVolumeId(), "volume_path", in.GetVolumePath()); err != nil {
		return nil, err
	}
	// Two calls for stats do not disturb each other, so this one takes no lock.
	if _, err := parseVolume(in.GetVolumeId()); err != nil {
		return nil, err
	}
	total, used, available, err := d.config.Node.Stats(ctx, in.GetVolumePath())
	if err != nil {
		return nil, err
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{
		Unit: csi.VolumeUsage_BYTES, Total: total, Available: available, Used: used,
	}}}, nil
}

// NodeExpandVolume implements [csi.NodeServer].
func (d *Driver) NodeExpandVolume(ctx context.Context, in *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	v, unlock, err := d.begin(in.GetVolumeId(), "volume_path", in.GetVolumePath())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if c := in.GetVolumeCapability(); c != nil {
		if reason := unsupported(v.shared(), c); reason != "" {
			return nil, status.Error(codes.InvalidArgument, reason)
		}
	}
	size := in.GetCapacityRange().GetRequiredBytes()
	if v.shared() { // the server decides how much fits into a directory
		_, _, _, err = d.config.Node.Stats(ctx, in.GetVolumePath())
	} else {
		size, err = d.config.Node.Expand(ctx, in.GetVolumePath(), size)
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, nil
}

// begin begins a call: it checks that the ID and the fields, which are names and values
// in turn, are not empty, and locks the volume.
func (d *Driver) begin(volumeID string, fields ...string) (volume, func(), error) {
	if err := required(append(fields, "volume_id", volumeID)...); err != nil {
		return nil, nil, err
	}
	v, err := parseVolume(volumeID)
	if err != nil {
		return nil, nil, err
	}
	unlock, err := d.lock(volumeID)
	return v, unlock, err
}

// capable checks the capability of a request to stage or publish a volume.
func capable(v volume, c *csi.VolumeCapability) error {
	if c == nil {
		return status.Error(codes.InvalidArgument, "volume_capability is missing in the request")
	}
	if reason := unsupported(v.shared(), c); reason != "" {
		return status.Error(codes.FailedPrecondition, reason)
	}
	return nil
}
