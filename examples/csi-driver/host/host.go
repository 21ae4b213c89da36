// Package host reaches the Windows node that the driver works on: through the pipes
// of CSI Proxy, or in process.
//
// Both are the same six interfaces, so the driver has one code path. [Remote] is for a
// driver in an ordinary container, [InProcess] for one in a HostProcess container.
package host

import (
	"context"
	"errors"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// Host is a node. Its methods may be called concurrently.
type Host struct {
	Disk       disk.Interface
	Volume     volume.Interface
	Filesystem filesystem.Interface
	SMB        smb.Interface
	ISCSI      iscsi.Interface
	System     system.Interface

	// Versions are the versions that are spoken through pipes, such as "disk/v1".
	Versions []string

	closers []func() error
}

// Remote connects to CSI Proxy. Each group speaks the newest version that the proxy
// serves. Remote waits until ctx ends for a proxy that is still starting.
func Remote(ctx context.Context, opts ...remote.Option) (_ *Host, err error) {
	h := &Host{}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	d, err := remote.NewDisk(ctx, opts...)
	if err != nil {
		return nil, err
	}
	h.Disk = d
	h.connected("disk", d)
	v, err := remote.NewVolume(ctx, opts...)
	if err != nil {
		return nil, err
	}
	h.Volume = v
	h.connected("volume", v)
	f, err := remote.NewFilesystem(ctx, opts...)
	if err != nil {
		return nil, err
	}
	h.Filesystem = f
	h.connected("filesystem", f)
	s, err := remote.NewSMB(ctx, opts...)
	if err != nil {
		return nil, err
	}
	h.SMB = s
	h.connected("smb", s)
	i, err := remote.NewISCSI(ctx, opts...)
	if err != nil {
		return nil, err
	}
	h.ISCSI = i
	h.connected("iscsi", i)
	sys, err := remote.NewSystem(ctx, opts...)
	if err != nil {
		return nil, err
	}
	h.System = sys
	h.connected("system", sys)
	return h, nil
}

// client is what the clients of all groups have in common.
type client interface {
	Version() apiversion.Version
	Close() error
}

func (h *Host) connected(group string, c client) {
	h.Versions = append(h.Versions, group+"/"+c.Version().String())
	h.closers = append(h.closers, c.Close)
}

// InProcess does the work in this process. It needs the rights of a HostProcess
// container, and fails on other systems than Windows.
func InProcess() (*Host, error) {
	d, errDisk := disk.New(diskapi.New())
	v, errVolume := volume.New(volumeapi.New())
	f, errFilesystem := filesystem.New(filesystemapi.New())
	s, errSMB := smb.New(smbapi.New(), f)
	i, errISCSI := iscsi.New(iscsiapi.New())
	sys, errSystem := system.New(systemapi.New())
	if err := errors.Join(errDisk, errVolume, errFilesystem, errSMB, errISCSI, errSystem); err != nil {
		return nil, err
	}
	return &Host{Disk: d, Volume: v, Filesystem: f, SMB: s, ISCSI: i, System: sys}, nil
}

// Close closes the connections to CSI Proxy.
func (h *Host) Close() error {
	var errs []error
	for _, c := range h.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
