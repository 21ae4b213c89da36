// Package fakes implements what the tests of drivers and of the published library
// implement: fakes of the six Interfaces and HostAPIs with exactly the published
// methods, mocks of generated clients with their call options, servers that embed
// nothing, and functions in variables. This package does not compile if an interface
// gets another method or a constructor gets another parameter.
package fakes

import (
	"context"
	"errors"

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
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/utils"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// diskService is a fake of disk.Interface.
type diskService struct{}

var _ disk.Interface = diskService{}

func (diskService) GetDiskState(context.Context, *disk.GetDiskStateRequest) (*disk.GetDiskStateResponse, error) {
	return &disk.GetDiskStateResponse{}, nil
}

func (diskService) GetDiskStats(context.Context, *disk.GetDiskStatsRequest) (*disk.GetDiskStatsResponse, error) {
	return &disk.GetDiskStatsResponse{}, nil
}

func (diskService) ListDiskIDs(context.Context, *disk.ListDiskIDsRequest) (*disk.ListDiskIDsResponse, error) {
	return &disk.ListDiskIDsResponse{}, nil
}

func (diskService) ListDiskLocations(context.Context, *disk.ListDiskLocationsRequest) (*disk.ListDiskLocationsResponse, error) {
	return &disk.ListDiskLocationsResponse{}, nil
}

func (diskService) PartitionDisk(context.Context, *disk.PartitionDiskRequest) (*disk.PartitionDiskResponse, error) {
	return &disk.PartitionDiskResponse{}, nil
}

func (diskService) Rescan(context.Context, *disk.RescanRequest) (*disk.RescanResponse, error) {
	return &disk.RescanResponse{}, nil
}

func (diskService) SetDiskState(context.Context, *disk.SetDiskStateRequest) (*disk.SetDiskStateResponse, error) {
	return &disk.SetDiskStateResponse{}, nil
}

// diskHost is a fake of disk's HostAPI.
type diskHost struct{}

var _ diskapi.HostAPI = &diskHost{}

func (*diskHost) ListDiskLocations() (map[uint32]diskapi.DiskLocation, error) { return nil, nil }

func (*diskHost) IsDiskInitialized(uint32) (bool, error) { return false, nil }

func (*diskHost) InitializeDisk(uint32) error { return nil }

func (*diskHost) BasicPartitionsExist(uint32) (bool, error) { return false, nil }

func (*diskHost) CreateBasicPartition(uint32) error { return nil }

func (*diskHost) Rescan() error { return nil }

func (*diskHost) ListDiskIDs() (map[uint32]diskapi.DiskIDs, error) { return nil, nil }

func (*diskHost) GetDiskStats(uint32) (int64, error) { return 0, nil }

func (*diskHost) SetDiskState(uint32, bool) error { return nil }

func (*diskHost) GetDiskState(uint32) (bool, error) { return false, nil }

// filesystemService is a fake of filesystem.Interface.
type filesystemService struct{}

var _ filesystem.Interface = filesystemService{}

func (filesystemService) CreateSymlink(context.Context, *filesystem.CreateSymlinkRequest) (*filesystem.CreateSymlinkResponse, error) {
	return &filesystem.CreateSymlinkResponse{}, nil
}

func (filesystemService) IsSymlink(context.Context, *filesystem.IsSymlinkRequest) (*filesystem.IsSymlinkResponse, error) {
	return &filesystem.IsSymlinkResponse{}, nil
}

func (filesystemService) Mkdir(context.Context, *filesystem.MkdirRequest) (*filesystem.MkdirResponse, error) {
	return &filesystem.MkdirResponse{}, nil
}

func (filesystemService) PathExists(context.Context, *filesystem.PathExistsRequest) (*filesystem.PathExistsResponse, error) {
	return &filesystem.PathExistsResponse{}, nil
}

func (filesystemService) PathValid(context.Context, *filesystem.PathValidRequest) (*filesystem.PathValidResponse, error) {
	return &filesystem.PathValidResponse{}, nil
}

func (filesystemService) Rmdir(context.Context, *filesystem.RmdirRequest) (*filesystem.RmdirResponse, error) {
	return &filesystem.RmdirResponse{}, nil
}

func (filesystemService) RmdirContents(context.Context, *filesystem.RmdirContentsRequest) (*filesystem.RmdirContentsResponse, error) {
	return &filesystem.RmdirContentsResponse{}, nil
}

// filesystemHost is a fake of filesystem's HostAPI.
type filesystemHost struct{}

var _ filesystemapi.HostAPI = &filesystemHost{}

func (*filesystemHost) PathExists(string) (bool, error) { return false, nil }

func (*filesystemHost) PathValid(string) (bool, error) { return false, nil }

func (*filesystemHost) Mkdir(string) error { return nil }

func (*filesystemHost) Rmdir(string, bool) error { return nil }

func (*filesystemHost) RmdirContents(string) error { return nil }

func (*filesystemHost) CreateSymlink(string, string) error { return nil }

func (*filesystemHost) IsSymlink(string) (bool, error) { return false, nil }

// iscsiService is a fake of iscsi.Interface.
type iscsiService struct{}

var _ iscsi.Interface = iscsiService{}

func (iscsiService) AddTargetPortal(context.Context, *iscsi.AddTargetPortalRequest) (*iscsi.AddTargetPortalResponse, error) {
	return &iscsi.AddTargetPortalResponse{}, nil
}

func (iscsiService) ConnectTarget(context.Context, *iscsi.ConnectTargetRequest) (*iscsi.ConnectTargetResponse, error) {
	return &iscsi.ConnectTargetResponse{}, nil
}

func (iscsiService) DisconnectTarget(context.Context, *iscsi.DisconnectTargetRequest) (*iscsi.DisconnectTargetResponse, error) {
	return &iscsi.DisconnectTargetResponse{}, nil
}

func (iscsiService) DiscoverTargetPortal(context.Context, *iscsi.DiscoverTargetPortalRequest) (*iscsi.DiscoverTargetPortalResponse, error) {
	return &iscsi.DiscoverTargetPortalResponse{}, nil
}

func (iscsiService) GetTargetDisks(context.Context, *iscsi.GetTargetDisksRequest) (*iscsi.GetTargetDisksResponse, error) {
	return &iscsi.GetTargetDisksResponse{}, nil
}

func (iscsiService) ListTargetPortals(context.Context, *iscsi.ListTargetPortalsRequest) (*iscsi.ListTargetPortalsResponse, error) {
	return &iscsi.ListTargetPortalsResponse{}, nil
}

func (iscsiService) RemoveTargetPortal(context.Context, *iscsi.RemoveTargetPortalRequest) (*iscsi.RemoveTargetPortalResponse, error) {
	return &iscsi.RemoveTargetPortalResponse{}, nil
}

func (iscsiService) SetMutualChapSecret(context.Context, *iscsi.SetMutualChapSecretRequest) (*iscsi.SetMutualChapSecretResponse, error) {
	return &iscsi.SetMutualChapSecretResponse{}, nil
}

// iscsiHost is a fake of iscsi's HostAPI.
type iscsiHost struct{}

var _ iscsiapi.HostAPI = &iscsiHost{}

func (*iscsiHost) AddTargetPortal(*iscsiapi.TargetPortal) error { return nil }

func (*iscsiHost) DiscoverTargetPortal(*iscsiapi.TargetPortal) ([]string, error) { return nil, nil }

func (*iscsiHost) ListTargetPortals() ([]iscsiapi.TargetPortal, error) { return nil, nil }

func (*iscsiHost) RemoveTargetPortal(*iscsiapi.TargetPortal) error { return nil }

func (*iscsiHost) ConnectTarget(*iscsiapi.TargetPortal, string, string, string, string) error {
	return nil
}

func (*iscsiHost) DisconnectTarget(*iscsiapi.TargetPortal, string) error { return nil }

func (*iscsiHost) GetTargetDisks(*iscsiapi.TargetPortal, string) ([]string, error) { return nil, nil }

func (*iscsiHost) SetMutualChapSecret(string) error { return nil }

// smbService is a fake of smb.Interface.
type smbService struct{}

var _ smb.Interface = smbService{}

func (smbService) NewSMBGlobalMapping(context.Context, *smb.NewSMBGlobalMappingRequest) (*smb.NewSMBGlobalMappingResponse, error) {
	return &smb.NewSMBGlobalMappingResponse{}, nil
}

func (smbService) RemoveSMBGlobalMapping(context.Context, *smb.RemoveSMBGlobalMappingRequest) (*smb.RemoveSMBGlobalMappingResponse, error) {
	return &smb.RemoveSMBGlobalMappingResponse{}, nil
}

// smbHost is a fake of smb's HostAPI.
type smbHost struct{}

var _ smbapi.HostAPI = &smbHost{}

func (*smbHost) IsSMBMapped(string) (bool, error) { return false, nil }

func (*smbHost) NewSMBLink(string, string) error { return nil }

func (*smbHost) NewSMBGlobalMapping(string, string, string) error { return nil }

func (*smbHost) RemoveSMBGlobalMapping(string) error { return nil }

// systemService is a fake of system.Interface.
type systemService struct{}

var _ system.Interface = systemService{}

func (systemService) GetBIOSSerialNumber(context.Context, *system.GetBIOSSerialNumberRequest) (*system.GetBIOSSerialNumberResponse, error) {
	return &system.GetBIOSSerialNumberResponse{}, nil
}

func (systemService) GetService(context.Context, *system.GetServiceRequest) (*system.GetServiceResponse, error) {
	return &system.GetServiceResponse{}, nil
}

func (systemService) StartService(context.Context, *system.StartServiceRequest) (*system.StartServiceResponse, error) {
	return &system.StartServiceResponse{}, nil
}

func (systemService) StopService(context.Context, *system.StopServiceRequest) (*system.StopServiceResponse, error) {
	return &system.StopServiceResponse{}, nil
}

// systemHost is a fake of system's HostAPI.
type systemHost struct{}

var _ systemapi.HostAPI = &systemHost{}

func (*systemHost) GetBIOSSerialNumber() (string, error) { return "", nil }

func (*systemHost) GetService(string) (*systemapi.ServiceInfo, error) { return nil, nil }

func (*systemHost) StartService(string) error { return nil }

func (*systemHost) StopService(string, bool) error { return nil }

// volumeService is a fake of volume.Interface.
type volumeService struct{}

var _ volume.Interface = volumeService{}

func (volumeService) FormatVolume(context.Context, *volume.FormatVolumeRequest) (*volume.FormatVolumeResponse, error) {
	return &volume.FormatVolumeResponse{}, nil
}

func (volumeService) GetClosestVolumeIDFromTargetPath(context.Context, *volume.GetClosestVolumeIDFromTargetPathRequest) (*volume.GetClosestVolumeIDFromTargetPathResponse, error) {
	return &volume.GetClosestVolumeIDFromTargetPathResponse{}, nil
}

func (volumeService) GetDiskNumberFromVolumeID(context.Context, *volume.GetDiskNumberFromVolumeIDRequest) (*volume.GetDiskNumberFromVolumeIDResponse, error) {
	return &volume.GetDiskNumberFromVolumeIDResponse{}, nil
}

func (volumeService) GetVolumeIDFromTargetPath(context.Context, *volume.GetVolumeIDFromTargetPathRequest) (*volume.GetVolumeIDFromTargetPathResponse, error) {
	return &volume.GetVolumeIDFromTargetPathResponse{}, nil
}

func (volumeService) GetVolumeStats(context.Context, *volume.GetVolumeStatsRequest) (*volume.GetVolumeStatsResponse, error) {
	return &volume.GetVolumeStatsResponse{}, nil
}

func (volumeService) IsVolumeFormatted(context.Context, *volume.IsVolumeFormattedRequest) (*volume.IsVolumeFormattedResponse, error) {
	return &volume.IsVolumeFormattedResponse{}, nil
}

func (volumeService) ListVolumesOnDisk(context.Context, *volume.ListVolumesOnDiskRequest) (*volume.ListVolumesOnDiskResponse, error) {
	return &volume.ListVolumesOnDiskResponse{}, nil
}

func (volumeService) MountVolume(context.Context, *volume.MountVolumeRequest) (*volume.MountVolumeResponse, error) {
	return &volume.MountVolumeResponse{}, nil
}

func (volumeService) ResizeVolume(context.Context, *volume.ResizeVolumeRequest) (*volume.ResizeVolumeResponse, error) {
	return &volume.ResizeVolumeResponse{}, nil
}

func (volumeService) UnmountVolume(context.Context, *volume.UnmountVolumeRequest) (*volume.UnmountVolumeResponse, error) {
	return &volume.UnmountVolumeResponse{}, nil
}

func (volumeService) WriteVolumeCache(context.Context, *volume.WriteVolumeCacheRequest) (*volume.WriteVolumeCacheResponse, error) {
	return &volume.WriteVolumeCacheResponse{}, nil
}

// volumeHost is a fake of volume's HostAPI.
type volumeHost struct{}

var _ volumeapi.HostAPI = &volumeHost{}

func (*volumeHost) ListVolumesOnDisk(uint32, uint32) ([]string, error) { return nil, nil }

func (*volumeHost) MountVolume(string, string) error { return nil }

func (*volumeHost) UnmountVolume(string, string) error { return nil }

func (*volumeHost) IsVolumeFormatted(string) (bool, error) { return false, nil }

func (*volumeHost) FormatVolume(string) error { return nil }

func (*volumeHost) ResizeVolume(string, int64) error { return nil }

func (*volumeHost) GetVolumeStats(string) (int64, int64, error) { return 0, 0, nil }

func (*volumeHost) GetDiskNumberFromVolumeID(string) (uint32, error) { return 0, nil }

func (*volumeHost) GetVolumeIDFromTargetPath(string) (string, error) { return "", nil }

func (*volumeHost) WriteVolumeCache(string) error { return nil }

func (*volumeHost) GetClosestVolumeIDFromTargetPath(string) (string, error) { return "", nil }

// Services with fake hosts, as in the published library's tests.
func services() error {
	_, d := disk.New(&diskHost{})
	files, f := filesystem.New(&filesystemHost{})
	_, i := iscsi.New(&iscsiHost{})
	_, s := smb.New(&smbHost{}, files)
	_, s2 := smb.New(&smbHost{}, filesystemService{})
	_, y := system.New(&systemHost{})
	_, v := volume.New(&volumeHost{})
	return errors.Join(d, f, i, s, s2, y, v)
}

// Functions that a driver keeps in variables, to replace them in tests.
var (
	_ func(diskapi.HostAPI) (*disk.Disk, error)                                            = disk.New
	_ func(filesystemapi.HostAPI) (*filesystem.Filesystem, error)                          = filesystem.New
	_ func(iscsiapi.HostAPI) (*iscsi.ISCSI, error)                                         = iscsi.New
	_ func(smbapi.HostAPI, filesystem.Interface) (*smb.SMB, error)                         = smb.New
	_ func(systemapi.HostAPI) (*system.System, error)                                      = system.New
	_ func(volumeapi.HostAPI) (*volume.Volume, error)                                      = volume.New
	_ func() diskapi.DiskAPI                                                               = diskapi.New
	_ func() volumeapi.HostAPI                                                             = volumeapi.New
	_ func(string) error                                                                   = filesystem.ValidatePathWindows
	_ func(iscsi.AuthenticationType) (string, error)                                       = iscsi.AuthTypeToString
	_ func(string) string                                                                  = utils.EnsureLongPath
	_ func(link, target string, isDir bool) error                                          = utils.CreateSymlink
	_ func(*disk.Disk, context.Context, *disk.RescanRequest) (*disk.RescanResponse, error) = (*disk.Disk).Rescan
)

var _ = services

// Names and types that drivers use.
var (
	_ system.StartType              = system.START_TYPE_AUTOMATIC
	_ uint32                        = iscsi.MUTUAL_CHAP // untyped
	_                               = iscsi.ConnectTargetRequest{AuthType: iscsi.NONE}
	_                               = volumeapi.VolumeRegexp.FindString
	_ diskapi.StorageIdentifierType = diskapi.StorageIDTypeEUI64
	_                               = diskapi.StoragePropertyQuery{PropertyID: diskapi.StorageDeviceIDProperty, QueryType: diskapi.PropertyStandardQuery}
)
