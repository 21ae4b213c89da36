package wire_test

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// recorder implements every group: it keeps the request that it got and
// answers with what it was told to. It stands in for the services so that rows
// are tested alone.
type recorder struct {
	method string
	got    any            // the request
	fill   func(resp any) // fills the response
	err    error          // is returned instead of a response
	silent bool           // returns neither
}

func groups(r *recorder) wire.Groups {
	return wire.Groups{Disk: r, Filesystem: r, ISCSI: r, SMB: r, System: r, Volume: r}
}

func answer[Out any](r *recorder, method string, in any) (*Out, error) {
	r.method, r.got = method, in
	switch {
	case r.err != nil:
		return nil, r.err
	case r.silent:
		return nil, nil
	}
	out := new(Out)
	if r.fill != nil {
		r.fill(out)
	}
	return out, nil
}

func (r *recorder) GetDiskState(_ context.Context, in *disk.GetDiskStateRequest) (*disk.GetDiskStateResponse, error) {
	return answer[disk.GetDiskStateResponse](r, "GetDiskState", in)
}

func (r *recorder) GetDiskStats(_ context.Context, in *disk.GetDiskStatsRequest) (*disk.GetDiskStatsResponse, error) {
	return answer[disk.GetDiskStatsResponse](r, "GetDiskStats", in)
}

func (r *recorder) ListDiskIDs(_ context.Context, in *disk.ListDiskIDsRequest) (*disk.ListDiskIDsResponse, error) {
	return answer[disk.ListDiskIDsResponse](r, "ListDiskIDs", in)
}

func (r *recorder) ListDiskLocations(_ context.Context, in *disk.ListDiskLocationsRequest) (*disk.ListDiskLocationsResponse, error) {
	return answer[disk.ListDiskLocationsResponse](r, "ListDiskLocations", in)
}

func (r *recorder) PartitionDisk(_ context.Context, in *disk.PartitionDiskRequest) (*disk.PartitionDiskResponse, error) {
	return answer[disk.PartitionDiskResponse](r, "PartitionDisk", in)
}

func (r *recorder) Rescan(_ context.Context, in *disk.RescanRequest) (*disk.RescanResponse, error) {
	return answer[disk.RescanResponse](r, "Rescan", in)
}

func (r *recorder) SetDiskState(_ context.Context, in *disk.SetDiskStateRequest) (*disk.SetDiskStateResponse, error) {
	return answer[disk.SetDiskStateResponse](r, "SetDiskState", in)
}

func (r *recorder) CreateSymlink(_ context.Context, in *filesystem.CreateSymlinkRequest) (*filesystem.CreateSymlinkResponse, error) {
	return answer[filesystem.CreateSymlinkResponse](r, "CreateSymlink", in)
}

func (r *recorder) IsSymlink(_ context.Context, in *filesystem.IsSymlinkRequest) (*filesystem.IsSymlinkResponse, error) {
	return answer[filesystem.IsSymlinkResponse](r, "IsSymlink", in)
}

func (r *recorder) Mkdir(_ context.Context, in *filesystem.MkdirRequest) (*filesystem.MkdirResponse, error) {
	return answer[filesystem.MkdirResponse](r, "Mkdir", in)
}

func (r *recorder) PathExists(_ context.Context, in *filesystem.PathExistsRequest) (*filesystem.PathExistsResponse, error) {
	return answer[filesystem.PathExistsResponse](r, "PathExists", in)
}

func (r *recorder) PathValid(_ context.Context, in *filesystem.PathValidRequest) (*filesystem.PathValidResponse, error) {
	return answer[filesystem.PathValidResponse](r, "PathValid", in)
}

func (r *recorder) Rmdir(_ context.Context, in *filesystem.RmdirRequest) (*filesystem.RmdirResponse, error) {
	return answer[filesystem.RmdirResponse](r, "Rmdir", in)
}

func (r *recorder) RmdirContents(_ context.Context, in *filesystem.RmdirContentsRequest) (*filesystem.RmdirContentsResponse, error) {
	return answer[filesystem.RmdirContentsResponse](r, "RmdirContents", in)
}

func (r *recorder) AddTargetPortal(_ context.Context, in *iscsi.AddTargetPortalRequest) (*iscsi.AddTargetPortalResponse, error) {
	return answer[iscsi.AddTargetPortalResponse](r, "AddTargetPortal", in)
}

func (r *recorder) ConnectTarget(_ context.Context, in *iscsi.ConnectTargetRequest) (*iscsi.ConnectTargetResponse, error) {
	return answer[iscsi.ConnectTargetResponse](r, "ConnectTarget", in)
}

func (r *recorder) DisconnectTarget(_ context.Context, in *iscsi.DisconnectTargetRequest) (*iscsi.DisconnectTargetResponse, error) {
	return answer[iscsi.DisconnectTargetResponse](r, "DisconnectTarget", in)
}

func (r *recorder) DiscoverTargetPortal(_ context.Context, in *iscsi.DiscoverTargetPortalRequest) (*iscsi.DiscoverTargetPortalResponse, error) {
	return answer[iscsi.DiscoverTargetPortalResponse](r, "DiscoverTargetPortal", in)
}

func (r *recorder) GetTargetDisks(_ context.Context, in *iscsi.GetTargetDisksRequest) (*iscsi.GetTargetDisksResponse, error) {
	return answer[iscsi.GetTargetDisksResponse](r, "GetTargetDisks", in)
}

func (r *recorder) ListTargetPortals(_ context.Context, in *iscsi.ListTargetPortalsRequest) (*iscsi.ListTargetPortalsResponse, error) {
	return answer[iscsi.ListTargetPortalsResponse](r, "ListTargetPortals", in)
}

func (r *recorder) RemoveTargetPortal(_ context.Context, in *iscsi.RemoveTargetPortalRequest) (*iscsi.RemoveTargetPortalResponse, error) {
	return answer[iscsi.RemoveTargetPortalResponse](r, "RemoveTargetPortal", in)
}

func (r *recorder) SetMutualChapSecret(_ context.Context, in *iscsi.SetMutualChapSecretRequest) (*iscsi.SetMutualChapSecretResponse, error) {
	return answer[iscsi.SetMutualChapSecretResponse](r, "SetMutualChapSecret", in)
}

func (r *recorder) NewSMBGlobalMapping(_ context.Context, in *smb.NewSMBGlobalMappingRequest) (*smb.NewSMBGlobalMappingResponse, error) {
	return answer[smb.NewSMBGlobalMappingResponse](r, "NewSMBGlobalMapping", in)
}

func (r *recorder) RemoveSMBGlobalMapping(_ context.Context, in *smb.RemoveSMBGlobalMappingRequest) (*smb.RemoveSMBGlobalMappingResponse, error) {
	return answer[smb.RemoveSMBGlobalMappingResponse](r, "RemoveSMBGlobalMapping", in)
}

func (r *recorder) GetBIOSSerialNumber(_ context.Context, in *system.GetBIOSSerialNumberRequest) (*system.GetBIOSSerialNumberResponse, error) {
	return answer[system.GetBIOSSerialNumberResponse](r, "GetBIOSSerialNumber", in)
}

func (r *recorder) GetService(_ context.Context, in *system.GetServiceRequest) (*system.GetServiceResponse, error) {
	return answer[system.GetServiceResponse](r, "GetService", in)
}

func (r *recorder) StartService(_ context.Context, in *system.StartServiceRequest) (*system.StartServiceResponse, error) {
	return answer[system.StartServiceResponse](r, "StartService", in)
}

func (r *recorder) StopService(_ context.Context, in *system.StopServiceRequest) (*system.StopServiceResponse, error) {
	return answer[system.StopServiceResponse](r, "StopService", in)
}

func (r *recorder) FormatVolume(_ context.Context, in *volume.FormatVolumeRequest) (*volume.FormatVolumeResponse, error) {
	return answer[volume.FormatVolumeResponse](r, "FormatVolume", in)
}

func (r *recorder) GetClosestVolumeIDFromTargetPath(_ context.Context, in *volume.GetClosestVolumeIDFromTargetPathRequest) (*volume.GetClosestVolumeIDFromTargetPathResponse, error) {
	return answer[volume.GetClosestVolumeIDFromTargetPathResponse](r, "GetClosestVolumeIDFromTargetPath", in)
}

func (r *recorder) GetDiskNumberFromVolumeID(_ context.Context, in *volume.GetDiskNumberFromVolumeIDRequest) (*volume.GetDiskNumberFromVolumeIDResponse, error) {
	return answer[volume.GetDiskNumberFromVolumeIDResponse](r, "GetDiskNumberFromVolumeID", in)
}

func (r *recorder) GetVolumeIDFromTargetPath(_ context.Context, in *volume.GetVolumeIDFromTargetPathRequest) (*volume.GetVolumeIDFromTargetPathResponse, error) {
	return answer[volume.GetVolumeIDFromTargetPathResponse](r, "GetVolumeIDFromTargetPath", in)
}

func (r *recorder) GetVolumeStats(_ context.Context, in *volume.GetVolumeStatsRequest) (*volume.GetVolumeStatsResponse, error) {
	return answer[volume.GetVolumeStatsResponse](r, "GetVolumeStats", in)
}

func (r *recorder) IsVolumeFormatted(_ context.Context, in *volume.IsVolumeFormattedRequest) (*volume.IsVolumeFormattedResponse, error) {
	return answer[volume.IsVolumeFormattedResponse](r, "IsVolumeFormatted", in)
}

func (r *recorder) ListVolumesOnDisk(_ context.Context, in *volume.ListVolumesOnDiskRequest) (*volume.ListVolumesOnDiskResponse, error) {
	return answer[volume.ListVolumesOnDiskResponse](r, "ListVolumesOnDisk", in)
}

func (r *recorder) MountVolume(_ context.Context, in *volume.MountVolumeRequest) (*volume.MountVolumeResponse, error) {
	return answer[volume.MountVolumeResponse](r, "MountVolume", in)
}

func (r *recorder) ResizeVolume(_ context.Context, in *volume.ResizeVolumeRequest) (*volume.ResizeVolumeResponse, error) {
	return answer[volume.ResizeVolumeResponse](r, "ResizeVolume", in)
}

func (r *recorder) UnmountVolume(_ context.Context, in *volume.UnmountVolumeRequest) (*volume.UnmountVolumeResponse, error) {
	return answer[volume.UnmountVolumeResponse](r, "UnmountVolume", in)
}

func (r *recorder) WriteVolumeCache(_ context.Context, in *volume.WriteVolumeCacheRequest) (*volume.WriteVolumeCacheResponse, error) {
	return answer[volume.WriteVolumeCacheResponse](r, "WriteVolumeCache", in)
}
