package translation

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrar registers a driver with the kubelet.
type registrar struct {
	registration.UnimplementedRegistrationServer
	name, socket string
}

// GetInfo implements [registration.RegistrationServer].
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.name, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus implements [registration.RegistrationServer].
func (r *registrar) NotifyRegistrationStatus(context.Context, *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	return &registration.RegistrationStatusResponse{}, nil
}

// forward passes calls to the driver.
type forward struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	identity csi.IdentityClient
	node     csi.NodeClient
}

// GetPluginInfo implements [csi.IdentityServer].
func (f *forward) GetPluginInfo(ctx context.Context, in *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return f.identity.GetPluginInfo(ctx, in)
}

// GetPluginCapabilities implements [csi.IdentityServer].
func (f *forward) GetPluginCapabilities(ctx context.Context, in *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return f.identity.GetPluginCapabilities(ctx, in)
}

// Probe implements [csi.IdentityServer].
func (f *forward) Probe(ctx context.Context, in *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return f.identity.Probe(ctx, in)
}

// NodeStageVolume implements [csi.NodeServer].
func (f *forward) NodeStageVolume(ctx context.Context, in *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	return f.node.NodeStageVolume(ctx, in)
}

// NodeUnstageVolume implements [csi.NodeServer].
func (f *forward) NodeUnstageVolume(ctx context.Context, in *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return f.node.NodeUnstageVolume(ctx, in)
}

// NodePublishVolume implements [csi.NodeServer].
func (f *forward) NodePublishVolume(ctx context.Context, in *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	return f.node.NodePublishVolume(ctx, in)
}

// NodeUnpublishVolume implements [csi.NodeServer].
func (f *forward) NodeUnpublishVolume(ctx context.Context, in *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return f.node.NodeUnpublishVolume(ctx, in)
}

// NodeGetVolumeStats implements [csi.NodeServer].
func (f *forward) NodeGetVolumeStats(ctx context.Context, in *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	return f.node.NodeGetVolumeStats(ctx, in)
}

// NodeExpandVolume implements [csi.NodeServer].
func (f *forward) NodeExpandVolume(ctx context.Context, in *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	return f.node.NodeExpandVolume(ctx, in)
}

// NodeGetCapabilities implements [csi.NodeServer].
func (f *forward) NodeGetCapabilities(ctx context.Context, in *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return f.node.NodeGetCapabilities(ctx, in)
}

// NodeGetInfo implements [csi.NodeServer].
func (f *forward) NodeGetInfo(ctx context.Context, in *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return f.node.NodeGetInfo(ctx, in)
}
