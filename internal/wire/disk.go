package wire

import (
	"context"
	"slices"
	"strconv"

	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v1alpha1"
	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Before v1beta3 disks were identified by decimal strings, in requests and as keys of
// maps.

// diskNumber parses a disk number. It fails for numbers of more than 32 bits, because
// 4294967296 must not become disk 0, and for numbers that Windows never writes so, such
// as 01.
func diskNumber(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err == nil && diskID(uint32(n)) != s {
		err = &strconv.NumError{Func: "ParseUint", Num: s, Err: strconv.ErrSyntax}
	}
	return uint32(n), err
}

func diskID(number uint32) string { return strconv.FormatUint(uint64(number), 10) }

func v1beta2_ListDiskLocations(ctx context.Context, to target[disk.Service], _ *v1beta2.ListDiskLocationsRequest) (*v1beta2.ListDiskLocationsResponse, error) {
	out, err := ask(ctx, to, disk.Service.ListDiskLocations, &disk.ListDiskLocationsRequest{})
	if err != nil {
		return nil, err
	}
	locations := make(map[string]*v1beta2.DiskLocation, len(out.DiskLocations))
	for number, l := range out.DiskLocations {
		if l == nil {
			l = &disk.DiskLocation{}
		}
		locations[diskID(number)] = &v1beta2.DiskLocation{Adapter: l.Adapter, Bus: l.Bus, Target: l.Target, LUNID: l.LUNID}
	}
	return &v1beta2.ListDiskLocationsResponse{DiskLocations: locations}, nil
}

func v1beta2_PartitionDisk(ctx context.Context, to target[disk.Service], in *v1beta2.PartitionDiskRequest) (*v1beta2.PartitionDiskResponse, error) {
	n, err := diskNumber(in.DiskID)
	if err != nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "Failed to convert %s.PartitionDiskRequest.DiskID to uint32: %w", to.version, err)
	}
	if _, err := ask(ctx, to, disk.Service.PartitionDisk, &disk.PartitionDiskRequest{DiskNumber: n}); err != nil {
		return nil, err
	}
	return &v1beta2.PartitionDiskResponse{}, nil
}

func v1beta2_ListDiskIDs(ctx context.Context, to target[disk.Service], _ *v1beta2.ListDiskIDsRequest) (*v1beta2.ListDiskIDsResponse, error) {
	out, err := ask(ctx, to, disk.Service.ListDiskIDs, &disk.ListDiskIDsRequest{})
	if err != nil {
		return nil, err
	}
	disks := make(map[string]*v1beta2.DiskIDs, len(out.DiskIDs))
	for number, ids := range out.DiskIDs {
		if ids == nil {
			ids = &disk.DiskIDs{}
		}
		// Both keys are always set, even if an identifier is empty.
		disks[diskID(number)] = &v1beta2.DiskIDs{Identifiers: map[string]string{
			"page83":       ids.Page83,
			"serialNumber": ids.SerialNumber,
		}}
	}
	return &v1beta2.ListDiskIDsResponse{DiskIDs: disks}, nil
}

func v1beta2_DiskStats(ctx context.Context, to target[disk.Service], in *v1beta2.DiskStatsRequest) (*v1beta2.DiskStatsResponse, error) {
	n, err := diskNumber(in.DiskID)
	if err != nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "Failed to format DiskStatsRequest.DiskID with err: %w", err)
	}
	out, err := ask(ctx, to, disk.Service.GetDiskStats, &disk.GetDiskStatsRequest{DiskNumber: n})
	if err != nil {
		return nil, err
	}
	return &v1beta2.DiskStatsResponse{DiskSize: out.TotalBytes}, nil
}

func v1beta2_SetAttachState(ctx context.Context, to target[disk.Service], in *v1beta2.SetAttachStateRequest) (*v1beta2.SetAttachStateResponse, error) {
	n, err := diskNumber(in.DiskID)
	if err != nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "Failed to format SetAttachStateRequest.DiskID with err: %w", err)
	}
	if _, err := ask(ctx, to, disk.Service.SetDiskState, &disk.SetDiskStateRequest{DiskNumber: n, IsOnline: in.IsOnline}); err != nil {
		return nil, err
	}
	return &v1beta2.SetAttachStateResponse{}, nil
}

func v1beta2_GetAttachState(ctx context.Context, to target[disk.Service], in *v1beta2.GetAttachStateRequest) (*v1beta2.GetAttachStateResponse, error) {
	n, err := diskNumber(in.DiskID)
	if err != nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "Failed to format GetAttachStateRequest.DiskID with err: %w", err)
	}
	out, err := ask(ctx, to, disk.Service.GetDiskState, &disk.GetDiskStateRequest{DiskNumber: n})
	if err != nil {
		return nil, err
	}
	return &v1beta2.GetAttachStateResponse{IsOnline: out.IsOnline}, nil
}

// v1alpha1_GetDiskNumberByName finds a disk by its page 83h identifier. Only this
// version has the method; with later versions the driver searches itself. If several
// disks have the identifier, it returns the lowest number. An empty name matches no
// disk, not even a disk without an identifier.
func v1alpha1_GetDiskNumberByName(ctx context.Context, to target[disk.Service], in *v1alpha1.GetDiskNumberByNameRequest) (*v1alpha1.GetDiskNumberByNameResponse, error) {
	out, err := ask(ctx, to, disk.Service.ListDiskIDs, &disk.ListDiskIDsRequest{})
	if err != nil {
		return nil, err
	}
	var found []uint32
	for number, ids := range out.DiskIDs {
		if ids != nil && ids.Page83 != "" && ids.Page83 == in.DiskName {
			found = append(found, number)
		}
	}
	if len(found) == 0 {
		return nil, hosterr.Text(hosterr.ErrNotFound, "could not find disk with Page83 ID %s: not found", in.DiskName)
	}
	return &v1alpha1.GetDiskNumberByNameResponse{DiskNumber: diskID(slices.Min(found))}, nil
}
