package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// Keys of the node stage secrets of an SMB volume.
const (
	Username = "username" // a name, or DOMAIN\name
	Password = "password"
)

// smbVolume is a volume in a directory of a share.
type smbVolume struct{ share, directory string }

func (smbVolume) shared() bool { return true }

func (v smbVolume) remotePath() string { return v.share + `\` + v.directory }

// stage maps the share and makes a link to the volume's directory. The CO has made an
// empty directory where the link goes.
func (v smbVolume) stage(ctx context.Context, d *Driver, in *csi.NodeStageVolumeRequest) error {
	path := in.GetStagingTargetPath()
	// An error may be that of a link to a share whose mapping has lost its credentials
	// with a reboot.
	if staged, err := d.isLink(ctx, path); err == nil && !staged {
		if err := d.remove(ctx, path); err != nil {
			return err
		}
	}
	// If the link is there already, this checks where it leads to, and maps the share
	// again.
	_, err := d.config.Host.SMB.NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{
		RemotePath: v.remotePath(),
		LocalPath:  path,
		Username:   in.GetSecrets()[Username],
		Password:   in.GetSecrets()[Password],
	})
	return err
}

// unstage removes the link, and the mapping unless another volume uses the share.
func (v smbVolume) unstage(ctx context.Context, d *Driver, path string) error {
	if err := d.remove(ctx, path); err != nil {
		return err
	}
	_, err := d.config.Host.SMB.RemoveSMBGlobalMapping(ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: v.remotePath()})
	return err
}

func (smbVolume) stats(_ context.Context, d *Driver, path string) (total, free int64, err error) {
	return d.config.FreeSpace(path)
}

// expand has nothing to do: the server decides how much fits into a directory.
func (smbVolume) expand(_ context.Context, _ *Driver, _ string, atLeast int64) (int64, error) {
	return atLeast, nil
}
