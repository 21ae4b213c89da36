package smb

import (
	"context"
	"fmt"

	fs "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	smb "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1beta1"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta1"
	smbclient "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1beta1"
)

// V1Beta is the driver's mounter for beta versions.
type V1Beta struct {
	FsClient  *fsclient.Client
	SMBClient *smbclient.Client
}

// NewV1Beta connects to the proxy.
func NewV1Beta() (*V1Beta, error) {
	files, err := fsclient.NewClient()
	if err != nil {
		return nil, err
	}
	shares, err := smbclient.NewClient()
	if err != nil {
		return nil, err
	}
	return &V1Beta{FsClient: files, SMBClient: shares}, nil
}

func (m *V1Beta) versions() string { return fmt.Sprintf("%s, %s", fsclient.Version, smbclient.Version) }

func (m *V1Beta) mount(ctx context.Context, parent, target, remote, user, password string) error {
	there, err := m.FsClient.PathExists(ctx, &fs.PathExistsRequest{Path: parent})
	if err != nil {
		return err
	}
	if !there.Exists {
		if _, err := m.FsClient.Mkdir(ctx, &fs.MkdirRequest{Path: parent, Context: fs.PathContext_PLUGIN}); err != nil {
			return err
		}
	}
	_, err = m.SMBClient.NewSmbGlobalMapping(ctx, &smb.NewSmbGlobalMappingRequest{
		LocalPath: target, RemotePath: remote, Username: user, Password: password})
	return err
}

func (m *V1Beta) publish(ctx context.Context, source, target string) error {
	if out, err := m.FsClient.IsMountPoint(ctx, &fs.IsMountPointRequest{Path: target}); err != nil || out.IsMountPoint {
		return err
	}
	_, err := m.FsClient.LinkPath(ctx, &fs.LinkPathRequest{SourcePath: source, TargetPath: target})
	return err
}

func (m *V1Beta) unmount(ctx context.Context, target, remote string) error {
	_, err := m.FsClient.Rmdir(ctx, &fs.RmdirRequest{Path: target, Context: fs.PathContext_POD, Force: true})
	return err
}
