package remote_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// recorder implements every group: it keeps the request that it got and
// answers with what it was told to.
type recorder struct {
	mu     sync.Mutex
	method string
	got    any                         // the request
	fill   func(resp any)              // fills the response
	err    error                       // is returned instead of a response
	wait   func(context.Context) error // runs before the answer
}

func (r *recorder) groups() wire.Groups {
	return wire.Groups{Disk: r, Filesystem: r, ISCSI: r, SMB: r, System: r, Volume: r}
}

// set makes the recorder answer anew.
func (r *recorder) set(fill func(resp any), err error, wait func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.method, r.got, r.fill, r.err, r.wait = "", nil, fill, err, wait
}

func (r *recorder) last() (method string, got any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.method, r.got
}

func answer[Out any](ctx context.Context, r *recorder, method string, in any) (*Out, error) {
	r.mu.Lock()
	r.method, r.got = method, in
	fill, err, wait := r.fill, r.err, r.wait
	r.mu.Unlock()
	if wait != nil {
		if err := wait(ctx); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	out := new(Out)
	if fill != nil {
		fill(out)
	}
	return out, nil
}

func (r *recorder) GetDiskState(ctx context.Context, in *disk.GetDiskStateRequest) (*disk.GetDiskStateResponse, error) {
	return answer[disk.GetDiskStateResponse](ctx, r, "GetDiskState", in)
}

func (r *recorder) GetDiskStats(ctx context.Context, in *disk.GetDiskStatsRequest) (*disk.GetDiskStatsResponse, error) {
	return answer[disk.GetDiskStatsResponse](ctx, r, "GetDiskStats", in)
}

func (r *recorder) ListDiskIDs(ctx context.Context, in *disk.ListDiskIDsRequest) (*disk.ListDiskIDsResponse, error) {
	return answer[disk.ListDiskIDsResponse](ctx, r, "ListDiskIDs", in)
}

func (r *recorder) ListDiskLocations(ctx context.Context, in *disk.ListDiskLocationsRequest) (*disk.ListDiskLocationsResponse, error) {
	return answer[disk.ListDiskLocationsResponse](ctx, r, "ListDiskLocations", in)
}

func (r *recorder) PartitionDisk(ctx context.Context, in *disk.PartitionDiskRequest) (*disk.PartitionDiskResponse, error) {
	return answer[disk.PartitionDiskResponse](ctx, r, "PartitionDisk", in)
}

func (r *recorder) Rescan(ctx context.Context, in *disk.RescanRequest) (*disk.RescanResponse, error) {
	return answer[disk.RescanResponse](ctx, r, "Rescan", in)
}

func (r *recorder) SetDiskState(ctx context.Context, in *disk.SetDiskStateRequest) (*disk.SetDiskStateResponse, error) {
	return answer[disk.SetDiskStateResponse](ctx, r, "SetDiskState", in)
}

func (r *recorder) CreateSymlink(ctx context.Context, in *filesystem.CreateSymlinkRequest) (*filesystem.CreateSymlinkResponse, error) {
	return answer[filesystem.CreateSymlinkResponse](ctx, r, "CreateSymlink", in)
}

func (r *recorder) IsSymlink(ctx context.Context, in *filesystem.IsSymlinkRequest) (*filesystem.IsSymlinkResponse, error) {
	return answer[filesystem.IsSymlinkResponse](ctx, r, "IsSymlink", in)
}

func (r *recorder) Mkdir(ctx context.Context, in *filesystem.MkdirRequest) (*filesystem.MkdirResponse, error) {
	return answer[filesystem.MkdirResponse](ctx, r, "Mkdir", in)
}

func (r *recorder) PathExists(ctx context.Context, in *filesystem.PathExistsRequest) (*filesystem.PathExistsResponse, error) {
	return answer[filesystem.PathExistsResponse](ctx, r, "PathExists", in)
}

func (r *recorder) PathValid(ctx context.Context, in *filesystem.PathValidRequest) (*filesystem.PathValidResponse, error) {
	return answer[filesystem.PathValidResponse](ctx, r, "PathValid", in)
}

func (r *recorder) Rmdir(ctx context.Context, in *filesystem.RmdirRequest) (*filesystem.RmdirResponse, error) {
	return answer[filesystem.RmdirResponse](ctx, r, "Rmdir", in)
}

func (r *recorder) RmdirContents(ctx context.Context, in *filesystem.RmdirContentsRequest) (*filesystem.RmdirContentsResponse, error) {
	return answer[filesystem.RmdirContentsResponse](ctx, r, "RmdirContents", in)
}

func (r *recorder) AddTargetPortal(ctx context.Context, in *iscsi.AddTargetPortalRequest) (*iscsi.AddTargetPortalResponse, error) {
	return answer[iscsi.AddTargetPortalResponse](ctx, r, "AddTargetPortal", in)
}

func (r *recorder) ConnectTarget(ctx context.Context, in *iscsi.ConnectTargetRequest) (*iscsi.ConnectTargetResponse, error) {
	return answer[iscsi.ConnectTargetResponse](ctx, r, "ConnectTarget", in)
}

func (r *recorder) DisconnectTarget(ctx context.Context, in *iscsi.DisconnectTargetRequest) (*iscsi.DisconnectTargetResponse, error) {
	return answer[iscsi.DisconnectTargetResponse](ctx, r, "DisconnectTarget", in)
}

func (r *recorder) DiscoverTargetPortal(ctx context.Context, in *iscsi.DiscoverTargetPortalRequest) (*iscsi.DiscoverTargetPortalResponse, error) {
	return answer[iscsi.DiscoverTargetPortalResponse](ctx, r, "DiscoverTargetPortal", in)
}

func (r *recorder) GetTargetDisks(ctx context.Context, in *iscsi.GetTargetDisksRequest) (*iscsi.GetTargetDisksResponse, error) {
	return answer[iscsi.GetTargetDisksResponse](ctx, r, "GetTargetDisks", in)
}

func (r *recorder) ListTargetPortals(ctx context.Context, in *iscsi.ListTargetPortalsRequest) (*iscsi.ListTargetPortalsResponse, error) {
	return answer[iscsi.ListTargetPortalsResponse](ctx, r, "ListTargetPortals", in)
}

func (r *recorder) RemoveTargetPortal(ctx context.Context, in *iscsi.RemoveTargetPortalRequest) (*iscsi.RemoveTargetPortalResponse, error) {
	return answer[iscsi.RemoveTargetPortalResponse](ctx, r, "RemoveTargetPortal", in)
}

func (r *recorder) SetMutualChapSecret(ctx context.Context, in *iscsi.SetMutualChapSecretRequest) (*iscsi.SetMutualChapSecretResponse, error) {
	return answer[iscsi.SetMutualChapSecretResponse](ctx, r, "SetMutualChapSecret", in)
}

func (r *recorder) NewSMBGlobalMapping(ctx context.Context, in *smb.NewSMBGlobalMappingRequest) (*smb.NewSMBGlobalMappingResponse, error) {
	return answer[smb.NewSMBGlobalMappingResponse](ctx, r, "NewSMBGlobalMapping", in)
}

func (r *recorder) RemoveSMBGlobalMapping(ctx context.Context, in *smb.RemoveSMBGlobalMappingRequest) (*smb.RemoveSMBGlobalMappingResponse, error) {
	return answer[smb.RemoveSMBGlobalMappingResponse](ctx, r, "RemoveSMBGlobalMapping", in)
}

func (r *recorder) GetBIOSSerialNumber(ctx context.Context, in *system.GetBIOSSerialNumberRequest) (*system.GetBIOSSerialNumberResponse, error) {
	return answer[system.GetBIOSSerialNumberResponse](ctx, r, "GetBIOSSerialNumber", in)
}

func (r *recorder) GetService(ctx context.Context, in *system.GetServiceRequest) (*system.GetServiceResponse, error) {
	return answer[system.GetServiceResponse](ctx, r, "GetService", in)
}

func (r *recorder) StartService(ctx context.Context, in *system.StartServiceRequest) (*system.StartServiceResponse, error) {
	return answer[system.StartServiceResponse](ctx, r, "StartService", in)
}

func (r *recorder) StopService(ctx context.Context, in *system.StopServiceRequest) (*system.StopServiceResponse, error) {
	return answer[system.StopServiceResponse](ctx, r, "StopService", in)
}

func (r *recorder) FormatVolume(ctx context.Context, in *volume.FormatVolumeRequest) (*volume.FormatVolumeResponse, error) {
	return answer[volume.FormatVolumeResponse](ctx, r, "FormatVolume", in)
}

func (r *recorder) GetClosestVolumeIDFromTargetPath(ctx context.Context, in *volume.GetClosestVolumeIDFromTargetPathRequest) (*volume.GetClosestVolumeIDFromTargetPathResponse, error) {
	return answer[volume.GetClosestVolumeIDFromTargetPathResponse](ctx, r, "GetClosestVolumeIDFromTargetPath", in)
}

func (r *recorder) GetDiskNumberFromVolumeID(ctx context.Context, in *volume.GetDiskNumberFromVolumeIDRequest) (*volume.GetDiskNumberFromVolumeIDResponse, error) {
	return answer[volume.GetDiskNumberFromVolumeIDResponse](ctx, r, "GetDiskNumberFromVolumeID", in)
}

func (r *recorder) GetVolumeIDFromTargetPath(ctx context.Context, in *volume.GetVolumeIDFromTargetPathRequest) (*volume.GetVolumeIDFromTargetPathResponse, error) {
	return answer[volume.GetVolumeIDFromTargetPathResponse](ctx, r, "GetVolumeIDFromTargetPath", in)
}

func (r *recorder) GetVolumeStats(ctx context.Context, in *volume.GetVolumeStatsRequest) (*volume.GetVolumeStatsResponse, error) {
	return answer[volume.GetVolumeStatsResponse](ctx, r, "GetVolumeStats", in)
}

func (r *recorder) IsVolumeFormatted(ctx context.Context, in *volume.IsVolumeFormattedRequest) (*volume.IsVolumeFormattedResponse, error) {
	return answer[volume.IsVolumeFormattedResponse](ctx, r, "IsVolumeFormatted", in)
}

func (r *recorder) ListVolumesOnDisk(ctx context.Context, in *volume.ListVolumesOnDiskRequest) (*volume.ListVolumesOnDiskResponse, error) {
	return answer[volume.ListVolumesOnDiskResponse](ctx, r, "ListVolumesOnDisk", in)
}

func (r *recorder) MountVolume(ctx context.Context, in *volume.MountVolumeRequest) (*volume.MountVolumeResponse, error) {
	return answer[volume.MountVolumeResponse](ctx, r, "MountVolume", in)
}

func (r *recorder) ResizeVolume(ctx context.Context, in *volume.ResizeVolumeRequest) (*volume.ResizeVolumeResponse, error) {
	return answer[volume.ResizeVolumeResponse](ctx, r, "ResizeVolume", in)
}

func (r *recorder) UnmountVolume(ctx context.Context, in *volume.UnmountVolumeRequest) (*volume.UnmountVolumeResponse, error) {
	return answer[volume.UnmountVolumeResponse](ctx, r, "UnmountVolume", in)
}

func (r *recorder) WriteVolumeCache(ctx context.Context, in *volume.WriteVolumeCacheRequest) (*volume.WriteVolumeCacheResponse, error) {
	return answer[volume.WriteVolumeCacheResponse](ctx, r, "WriteVolumeCache", in)
}

// filler puts values into Go structs, each field another one.
type filler struct {
	n     uint64
	bools int  // how many there are
	only  int  // which of them is true
	most  bool // numbers are the largest of their type
}

// fill fills the struct that p points to, and tells how many bools there are.
// Of them, only the one with the number given is true.
func fill(p any, trueBool int, most bool) (bools int) {
	f := &filler{n: 16, only: trueBool, most: most}
	f.value(reflect.ValueOf(p).Elem())
	return f.bools
}

func (f *filler) value(x reflect.Value) {
	f.n++
	switch x.Kind() {
	case reflect.Struct:
		for i := range x.NumField() {
			f.value(x.Field(i))
		}
	case reflect.Pointer:
		x.Set(reflect.New(x.Type().Elem()))
		f.value(x.Elem())
	case reflect.Slice:
		x.Set(reflect.MakeSlice(x.Type(), 2, 2))
		f.value(x.Index(0))
		f.value(x.Index(1))
	case reflect.Map:
		x.Set(reflect.MakeMap(x.Type()))
		for range 2 {
			key, value := reflect.New(x.Type().Key()).Elem(), reflect.New(x.Type().Elem()).Elem()
			x.SetMapIndex(f.filled(key), f.filled(value))
			f.most = false // keys differ
		}
	case reflect.Bool:
		x.SetBool(f.bools == f.only)
		f.bools++
	case reflect.String:
		x.SetString(fmt.Sprintf(`text %d "ÄÖ\`+"\n", f.n))
	case reflect.Uint32:
		n := f.n
		if f.most {
			n = 1<<32 - 1
		}
		x.SetUint(n)
	case reflect.Int64:
		n := int64(f.n) << 32
		if f.most {
			n = -1 << 63
		}
		x.SetInt(n)
	default:
		panic("teach this test " + x.Type().String())
	}
}

func (f *filler) filled(x reflect.Value) reflect.Value { f.value(x); return x }
