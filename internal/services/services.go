// Package services opens the services of a node: each of the six on its host,
// and the hosts on one [node.Node], so that they share its locks and its work
// in flight.
package services

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// Services are the six services of one process on one node.
type Services struct {
	Disk       *disk.Disk
	Filesystem *filesystem.Filesystem
	ISCSI      *iscsi.ISCSI
	SMB        *smb.SMB
	System     *system.System
	Volume     *volume.Volume
}

// Open opens the services on n, whose rules they keep.
func Open(n *node.Node) (*Services, error) {
	s := &Services{}
	var err error
	if s.Disk, err = disk.New(diskapi.On(n)); err != nil {
		return nil, err
	}
	if s.Filesystem, err = filesystem.New(filesystemapi.On(n)); err != nil {
		return nil, err
	}
	if s.ISCSI, err = iscsi.New(iscsiapi.On(n)); err != nil {
		return nil, err
	}
	if s.SMB, err = smb.New(smbapi.On(n), s.Filesystem); err != nil {
		return nil, err
	}
	if s.System, err = system.New(systemapi.On(n)); err != nil {
		return nil, err
	}
	if s.Volume, err = volume.New(volumeapi.On(n)); err != nil {
		return nil, err
	}
	return s, nil
}
