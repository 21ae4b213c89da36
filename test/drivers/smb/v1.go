// Package smb uses the identifiers that the SMB CSI driver uses
// (kubernetes-csi/csi-driver-smb, pkg/mounter): v1.go those of safe_mounter_windows.go
// at b2d2d0094773, v1beta.go those of safe_mounter_v1beta_windows.go at 08a0c5bb78fb.
// Its go.mod at 030cc4988428 has client v1.0.1. In HostProcess containers the driver
// makes Windows calls itself.
package smb

import (
	"context"
	"fmt"

	fs "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	smb "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	smbclient "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
)

// V1 is the driver's mounter for the stable versions.
type V1 struct {
	FsClient  *fsclient.Client
	SMBClient *smbclient.Client
}

// NewV1 connects to the proxy.
func NewV1() (*V1, error) {
	files, err := fsclient.NewClient()
	if err != nil {
		return nil, err
	}
	shares, err := smbclient.NewClient()
	if err != nil {
		return nil, err
	}
	return &V1{FsClient: files, SMBClient: shares}, nil
}

func (m *V1) versions() string { return fmt.Sprintf("%s, %s", fsclient.Version, smbclient.Version) }

func (m *V1) mount(ctx context.Context, parent, target, remote, user, password string) error {
	there, err := m.FsClient.PathExists(ctx, &fs.PathExistsRequest{Path: parent})
	if err != nil {
		return err
	}
	if !there.Exists {
		if _, err := m.FsClient.Mkdir(ctx, &fs.MkdirRequest{Path: parent}); err != nil {
			return err
		}
	}
	_, err = m.SMBClient.NewSmbGlobalMapping(ctx, &smb.NewSmbGlobalMappingRequest{
		LocalPath: target, RemotePath: remote, Username: user, Password: password})
	return err
}

func (m *V1) publish(ctx context.Context, source, target string) error {
	if out, err := m.FsClient.IsSymlink(ctx, &fs.IsSymlinkRequest{Path: target}); err != nil || out.IsSymlink {
		return err
	}
	_, err := m.FsClient.CreateSymlink(ctx, &fs.CreateSymlinkRequest{SourcePath: source, TargetPath: target})
	return err
}

func (m *V1) unmount(ctx context.Context, target, remote string) error {
	if _, err := m.SMBClient.RemoveSmbGlobalMapping(ctx, &smb.RemoveSmbGlobalMappingRequest{RemotePath: remote}); err != nil {
		return err
	}
	_, err := m.FsClient.Rmdir(ctx, &fs.RmdirRequest{Path: target, Force: true})
	return err
}

// mounter is implemented for both versions.
type mounter interface {
	versions() string
	mount(ctx context.Context, parent, target, remote, user, password string) error
	publish(ctx context.Context, source, target string) error
	unmount(ctx context.Context, target, remote string) error
}

var (
	_ mounter = (*V1)(nil)
	_ mounter = (*V1Beta)(nil)
)
