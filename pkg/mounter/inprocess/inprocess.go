// Package inprocess opens the node of a driver in a HostProcess container: the work is done in
// this process, without a CSI Proxy. It links no gRPC.
package inprocess

import (
	"context"
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// Open returns the node that this process runs on. Links to shares are counted below the
// kubelet's directory; empty means C:\var\lib\kubelet. On other systems than Windows, all
// calls fail with errors.ErrUnsupported.
func Open(kubeletDir string) (mounter.Node, error) {
	d, errDisk := disk.New(diskapi.New())
	v, errVolume := volume.New(volumeapi.New())
	f, errFiles := filesystem.New(filesystemapi.New())
	s, errSMB := smb.New(smbapi.NewBelow(kubeletDir), f)
	i, errISCSI := iscsi.New(iscsiapi.New())
	sys, errSystem := system.New(systemapi.New())
	if err := errors.Join(errDisk, errVolume, errFiles, errSMB, errISCSI, errSystem); err != nil {
		return mounter.Node{}, err
	}
	can := func(ctx context.Context) (context.Context, mounter.Abilities, error) {
		return ctx, mounter.AllAbilities(), nil
	}
	return mounter.Node{Disk: d, Volume: v, Files: f, SMB: s, ISCSI: i, System: sys, KubeletDir: kubeletDir, Can: can}, nil
}
