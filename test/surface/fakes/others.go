package fakes

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// What v2.0.0-alpha.1 has and its successor does not.
var _ system.Startype = system.START_TYPE_AUTOMATIC

// What the library has since its pull request 438, which is in no release.

func (diskService) GetDiskReadOnly(context.Context, *disk.GetDiskReadOnlyRequest) (*disk.GetDiskReadOnlyResponse, error) {
	return &disk.GetDiskReadOnlyResponse{}, nil
}

func (diskService) SetDiskReadOnly(context.Context, *disk.SetDiskReadOnlyRequest) (*disk.SetDiskReadOnlyResponse, error) {
	return &disk.SetDiskReadOnlyResponse{}, nil
}

func (*diskHost) SetDiskReadOnly(uint32, bool) error { return nil }

func (*diskHost) GetDiskReadOnly(uint32) (bool, error) { return false, nil }
