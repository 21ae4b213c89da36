// Package alpha is the mounter of a driver that uses an alpha version of the library
// in a HostProcess container. It compiles unchanged with our library.
package alpha

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// Mounter does a node plugin's work on disks, shares and directories.
type Mounter struct {
	Disk       disk.Interface
	Volume     volume.Interface
	Filesystem filesystem.Interface
	SMB        smb.Interface

	mu    sync.Mutex
	users map[string]int // links by share, because the library removes mappings that are in use
}

// NewMounter returns a mounter for this node.
func NewMounter() (*Mounter, error) {
	d, err := disk.New(diskapi.New())
	if err != nil {
		return nil, err
	}
	v, err := volume.New(volumeapi.New())
	if err != nil {
		return nil, err
	}
	f, err := filesystem.New(filesystemapi.New())
	if err != nil {
		return nil, err
	}
	s, err := smb.New(smbapi.New(), f)
	if err != nil {
		return nil, err
	}
	return &Mounter{Disk: d, Volume: v, Filesystem: f, SMB: s}, nil
}

// Unmount unmounts the volume at target and removes the directory.
func (m *Mounter) Unmount(ctx context.Context, target string) error {
	id, err := m.Volume.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		if strings.Contains(err.Error(), "not a mounted folder") || strings.Contains(err.Error(), "cannot find") {
			return nil
		}
		return err
	}
	if _, err := m.Volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: id.VolumeID, TargetPath: target}); err != nil {
		return err
	}
	_, err = m.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: target, Force: true})
	return err
}

// MountShare maps a share and makes a link to it at target.
func (m *Mounter) MountShare(ctx context.Context, share, target, user, password string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.SMB.NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: share, LocalPath: target, Username: user, Password: password})
	if err != nil {
		return fmt.Errorf("map %s: %w", share, err)
	}
	if m.users == nil {
		m.users = map[string]int{}
	}
	m.users[share]++
	return nil
}

// UnmountShare removes the link, and with the last link also the mapping. After a
// restart of the driver the count is wrong.
func (m *Mounter) UnmountShare(ctx context.Context, share, target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: target, Force: true}); err != nil {
		return err
	}
	if m.users[share]--; m.users[share] > 0 {
		return nil
	}
	delete(m.users, share)
	_, err := m.SMB.RemoveSMBGlobalMapping(ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: share})
	return err
}
