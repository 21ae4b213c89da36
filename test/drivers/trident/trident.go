// Package trident uses the identifiers that NetApp Trident uses (NetApp/trident): the
// interfaces of utils/mount/mount.go and mount_windows.go at 9ba9d1b2f172, and the
// older package csiutils, which also requests volume statistics. Its go.mod of 2022
// has client v1.1.1.
//
// Trident keeps clients in variables of interfaces that embed the generated
// interfaces, and mocks these; package fakes does the same.
package trident

import (
	"context"
	"fmt"

	fs "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	smb "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	smbclient "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
)

// FilesystemClient is mocked in tests.
type FilesystemClient interface{ fs.FilesystemClient }

// SmbClient is mocked in tests.
type SmbClient interface{ smb.SmbClient }

// Client mounts shares.
type Client struct {
	files  FilesystemClient
	shares SmbClient
}

// New connects to the proxy.
func New() (*Client, error) {
	files, err := fsclient.NewClient()
	if err != nil {
		return nil, err
	}
	shares, err := smbclient.NewClient()
	if err != nil {
		return nil, err
	}
	return With(files, shares), nil
}

// With returns a Client that uses existing clients or mocks.
func With(files FilesystemClient, shares SmbClient) *Client {
	return &Client{files: files, shares: shares}
}

// Mount maps a share to a path.
func (c *Client) Mount(ctx context.Context, remote, parent, path, user, password string) error {
	there, err := c.files.PathExists(ctx, &fs.PathExistsRequest{Path: parent})
	if err != nil {
		return err
	}
	if !there.Exists {
		if _, err := c.files.Mkdir(ctx, &fs.MkdirRequest{Path: parent}); err != nil {
			return err
		}
	}
	_, err = c.shares.NewSmbGlobalMapping(ctx, &smb.NewSmbGlobalMappingRequest{
		LocalPath: path, RemotePath: remote, Username: user, Password: password})
	return err
}

// Bind makes a link at a path to a mounted path.
func (c *Client) Bind(ctx context.Context, source, target string) error {
	if is, err := c.files.IsSymlink(ctx, &fs.IsSymlinkRequest{Path: target}); err == nil && is.IsSymlink {
		return nil
	}
	_, err := c.files.CreateSymlink(ctx, &fs.CreateSymlinkRequest{SourcePath: source, TargetPath: target})
	return err
}

// Unmount removes a path and the mapping.
func (c *Client) Unmount(ctx context.Context, remote, path string) error {
	if _, err := c.files.Rmdir(ctx, &fs.RmdirRequest{Path: path, Force: true}); err != nil {
		return err
	}
	_, err := c.shares.RemoveSmbGlobalMapping(ctx, &smb.RemoveSmbGlobalMappingRequest{RemotePath: remote})
	return err
}

// Utils is the older mounter, which keeps the clients themselves.
type Utils struct {
	FsClient     *fsclient.Client
	SMBClient    *smbclient.Client
	VolumeClient *volumeclient.Client
}

// Versions returns the versions of the clients.
func (u *Utils) Versions() string { return fmt.Sprintf("%s %s", fsclient.Version, smbclient.Version) }

// NewUtils connects to the proxy.
func NewUtils() (*Utils, error) {
	volumes, err := volumeclient.NewClient()
	return &Utils{VolumeClient: volumes}, err
}

// Usage returns the size and the used bytes of the volume at a path.
func (u *Utils) Usage(ctx context.Context, path string) (total, used int64, err error) {
	mounted, err := u.VolumeClient.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: path})
	if err != nil {
		return 0, 0, err
	}
	out, err := u.VolumeClient.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeId: mounted.VolumeId})
	if err != nil {
		return 0, 0, err
	}
	return int64(out.TotalBytes), int64(out.UsedBytes), nil
}
