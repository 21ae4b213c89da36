// Package localprovisioner uses the identifiers that the local static provisioner uses
// (kubernetes-sigs/sig-storage-local-static-provisioner, pkg/util): v1.go those of
// csi_proxy_v1_windows.go at 3d24e33547b1, v1beta.go those of
// csi_proxy_v1beta_windows.go at 4324dd9e05cf, v2alpha1.go those of
// csi_proxy_v2alpha1_windows.go at 600a184ce6e4. csi_proxy_windows.go tries one after
// the other.
package localprovisioner

import (
	"context"
	"fmt"

	filesystemapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	volumeapi "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	filesystemclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
)

// Proxy is implemented for all versions.
type Proxy interface {
	Versions() string
	VolumeAt(ctx context.Context, path string) (id string, err error)
	Stats(ctx context.Context, id string) (total, used int64, err error)
	IsSymlink(ctx context.Context, path string) (bool, error)
}

var (
	_ Proxy = (*V1)(nil)
	_ Proxy = (*V1Beta)(nil)
	_ Proxy = (*V2Alpha1)(nil)
)

// V1 uses the stable versions.
type V1 struct {
	VolumeClient     *volumeclient.Client
	FilesystemClient *filesystemclient.Client
}

// NewV1 connects to the proxy.
func NewV1() (*V1, error) {
	volumes, err := volumeclient.NewClient()
	if err != nil {
		return nil, err
	}
	files, err := filesystemclient.NewClient()
	if err != nil {
		return nil, err
	}
	return &V1{VolumeClient: volumes, FilesystemClient: files}, nil
}

// Versions implements Proxy.
func (p *V1) Versions() string { return fmt.Sprintf("volume %s", volumeclient.Version) }

// VolumeAt implements Proxy.
func (p *V1) VolumeAt(ctx context.Context, path string) (string, error) {
	out, err := p.VolumeClient.GetVolumeIDFromTargetPath(ctx, &volumeapi.GetVolumeIDFromTargetPathRequest{TargetPath: path})
	if err != nil {
		return "", err
	}
	return out.VolumeId, nil
}

// Stats implements Proxy.
func (p *V1) Stats(ctx context.Context, id string) (int64, int64, error) {
	out, err := p.VolumeClient.GetVolumeStats(ctx, &volumeapi.GetVolumeStatsRequest{VolumeId: id})
	if err != nil {
		return 0, 0, err
	}
	return out.TotalBytes, out.UsedBytes, nil
}

// Format formats a volume.
func (p *V1) Format(ctx context.Context, id string) error {
	_, err := p.VolumeClient.FormatVolume(ctx, &volumeapi.FormatVolumeRequest{VolumeId: id})
	return err
}

// IsSymlink implements Proxy.
func (p *V1) IsSymlink(ctx context.Context, path string) (bool, error) {
	out, err := p.FilesystemClient.IsSymlink(ctx, &filesystemapi.IsSymlinkRequest{Path: path})
	if err != nil {
		return false, err
	}
	return out.IsSymlink, nil
}
