package localprovisioner

import (
	"context"
	"fmt"

	filesystemapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta2"
	volumeapi "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta2"
	filesystemclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta2"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta2"
)

// V1Beta uses beta versions.
type V1Beta struct {
	VolumeClient     *volumeclient.Client
	FilesystemClient *filesystemclient.Client
}

// NewV1Beta connects to the proxy.
func NewV1Beta() (*V1Beta, error) {
	volumes, err := volumeclient.NewClient()
	if err != nil {
		return nil, err
	}
	files, err := filesystemclient.NewClient()
	if err != nil {
		return nil, err
	}
	return &V1Beta{VolumeClient: volumes, FilesystemClient: files}, nil
}

// Versions implements Proxy.
func (p *V1Beta) Versions() string { return fmt.Sprintf("volume %s", volumeclient.Version) }

// VolumeAt implements Proxy.
func (p *V1Beta) VolumeAt(ctx context.Context, path string) (string, error) {
	out, err := p.VolumeClient.GetVolumeIDFromMount(ctx, &volumeapi.VolumeIDFromMountRequest{Mount: path})
	if err != nil {
		return "", err
	}
	return out.VolumeId, nil
}

// Stats implements Proxy.
func (p *V1Beta) Stats(ctx context.Context, id string) (int64, int64, error) {
	out, err := p.VolumeClient.VolumeStats(ctx, &volumeapi.VolumeStatsRequest{VolumeId: id})
	if err != nil {
		return 0, 0, err
	}
	return out.VolumeSize, out.VolumeUsedSize, nil
}

// Format formats a volume.
func (p *V1Beta) Format(ctx context.Context, id string) error {
	_, err := p.VolumeClient.FormatVolume(ctx, &volumeapi.FormatVolumeRequest{VolumeId: id})
	return err
}

// IsSymlink implements Proxy.
func (p *V1Beta) IsSymlink(ctx context.Context, path string) (bool, error) {
	out, err := p.FilesystemClient.IsSymlink(ctx, &filesystemapi.IsSymlinkRequest{Path: path})
	if err != nil {
		return false, err
	}
	return out.IsSymlink, nil
}

// Mkdir makes a directory.
func (p *V1Beta) Mkdir(ctx context.Context, path string) error {
	_, err := p.FilesystemClient.Mkdir(ctx, &filesystemapi.MkdirRequest{Path: path})
	return err
}

// Rmdir removes a directory.
func (p *V1Beta) Rmdir(ctx context.Context, path string, force bool) error {
	_, err := p.FilesystemClient.Rmdir(ctx, &filesystemapi.RmdirRequest{Path: path, Force: force})
	return err
}
