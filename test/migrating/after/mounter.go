// Package after is the result of the migrations in docs/drivers/migrating: a driver's own mounter
// over pkg/mounter, in process or through the pipes of CSI Proxy.
package after

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/inprocess"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
)

// Mounter does a node plugin's work. Publish and Unpublish are those of pkg/mounter.
type Mounter struct{ *mounter.Mounter }

// InProcess returns the mounter of a HostProcess container.
func InProcess() (Mounter, error) {
	node, err := inprocess.Open("")
	if err != nil {
		return Mounter{}, err
	}
	m, err := mounter.New(node, mounter.Options{})
	return Mounter{m}, err
}

// ThroughPipes returns the mounter of a container that calls the CSI Proxy of its
// node. The connections stay open as long as the driver runs.
func ThroughPipes(ctx context.Context, opts ...remote.Option) (Mounter, error) {
	conn, err := pipes.Open(ctx, []string{"disk", "volume", "filesystem", "smb"}, opts...)
	if err != nil {
		return Mounter{}, err
	}
	m, err := mounter.New(conn.Node, mounter.Options{})
	return Mounter{m}, err
}

// FormatAndMount mounts the volume of the disk with a serial number at target, and formats it
// if it is blank. It waits until ctx ends for a disk that was just attached.
func (m Mounter) FormatAndMount(ctx context.Context, serial, target string) error {
	d, err := m.FindDisk(ctx, mounter.Identity{SerialNumber: serial})
	if err != nil {
		return err
	}
	_, err = m.StageDisk(ctx, d, target, mounter.StageOptions{})
	return err
}

// Unmount unmounts the volume at target and removes the directory.
func (m Mounter) Unmount(ctx context.Context, target string) error {
	return m.UnstageDisk(ctx, target, mounter.UnstageOptions{})
}

// Expand grows the volume at target to the end of its disk.
func (m Mounter) Expand(ctx context.Context, target string) error {
	_, err := m.Mounter.Expand(ctx, target, 0)
	return err
}

// MountShare maps a share and makes a link to it at target, also with a new password.
func (m Mounter) MountShare(ctx context.Context, share, target, user, password string) error {
	return m.StageShare(ctx, mounter.Share{Remote: share, User: user, Password: mounter.Secret(password)}, target)
}

// UnmountShare removes the link, and the mapping if no other link uses it.
func (m Mounter) UnmountShare(ctx context.Context, share, target string) error {
	return m.UnstageShare(ctx, target, share)
}
