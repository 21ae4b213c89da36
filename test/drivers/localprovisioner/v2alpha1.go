package localprovisioner

import (
	"context"
	"fmt"

	filesystemapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v2alpha1"
	volumeapi "github.com/kubernetes-csi/csi-proxy/client/api/volume/v2alpha1"
	filesystemclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v2alpha1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v2alpha1"
)

// V2Alpha1 uses v2alpha1.
type V2Alpha1 struct {
	VolumeClient     *volumeclient.Client
	FilesystemClient *filesystemclient.Client
}

// NewV2Alpha1 connects to the proxy.
func NewV2Alpha1() (*V2Alpha1, error) {
	volumes, err := volumeclient.NewClient()
	if err != nil {
		return nil, err
	}
	files, err := filesystemclient.NewClient()
	if err != nil {
		return nil, err
	}
	return &V2Alpha1{VolumeClient: volumes, FilesystemClient: files}, nil
}

// Versions implements Proxy.
func (p *V2Alpha1) Versions() string { return fmt.Sprintf("volume %s", volumeclient.Version) }

// VolumeAt implements Proxy.
func (p *V2Alpha1) VolumeAt(ctx context.Context, path string) (string, error) {
	out, err := p.VolumeClient.GetVolumeIDFromTargetPath(ctx, &volumeapi.GetVolumeIDFromTargetPathRequest{TargetPath: path})
	if err != nil {
		return "", err
	}
	return out.VolumeId, nil
}

// Stats implements Proxy.
func (p *V2Alpha1) Stats(ctx context.Context, id string) (int64, int64, error) {
	out, err := p.VolumeClient.GetVolumeStats(ctx, &volumeapi.GetVolumeStatsRequest{VolumeId: id})
	if err != nil {
		return 0, 0, err
	}
	return out.TotalBytes, out.UsedBytes, nil
}

// Empty empties a directory.
func (p *V2Alpha1) Empty(ctx context.Context, path string) error {
	_, err := p.FilesystemClient.RmdirContents(ctx, &filesystemapi.RmdirContentsRequest{Path: path})
	return err
}

// Closest returns the volume that a path is on.
func (p *V2Alpha1) Closest(ctx context.Context, path string) (string, error) {
	out, err := p.VolumeClient.GetClosestVolumeIDFromTargetPath(ctx, &volumeapi.GetClosestVolumeIDFromTargetPathRequest{TargetPath: path})
	if err != nil {
		return "", err
	}
	return out.VolumeId, nil
}

// IsSymlink implements Proxy.
func (p *V2Alpha1) IsSymlink(ctx context.Context, path string) (bool, error) {
	out, err := p.FilesystemClient.IsSymlink(ctx, &filesystemapi.IsSymlinkRequest{Path: path})
	if err != nil {
		return false, err
	}
	return out.IsSymlink, nil
}
