package remote

import (
	"context"
	"strconv"

	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
)

// Before v1beta3 disk numbers were decimal strings, also as keys of maps, and identifiers were
// a map.

func diskID(number uint32) string { return strconv.FormatUint(uint64(number), 10) }

// byNumber converts a map with decimal strings as keys to one with disk numbers.
func byNumber[A, B any](c *connection, method string, in map[string]A, convert func(A) B) (map[uint32]B, error) {
	if in == nil {
		return nil, nil
	}
	out := make(map[uint32]B, len(in))
	for id, a := range in {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, c.badResponse(method, "a disk number", err)
		}
		out[uint32(n)] = convert(a)
	}
	return out, nil
}

func v1beta2_ListDiskLocations(ctx context.Context, c *connection, _ *disk.ListDiskLocationsRequest) (*disk.ListDiskLocationsResponse, error) {
	out := new(v1beta2.ListDiskLocationsResponse)
	if err := c.call(ctx, "ListDiskLocations", &v1beta2.ListDiskLocationsRequest{}, out); err != nil {
		return nil, err
	}
	locations, err := byNumber(c, "ListDiskLocations", out.DiskLocations, func(l *v1beta2.DiskLocation) *disk.DiskLocation {
		return &disk.DiskLocation{Adapter: l.GetAdapter(), Bus: l.GetBus(), Target: l.GetTarget(), LUNID: l.GetLUNID()}
	})
	if err != nil {
		return nil, err
	}
	return &disk.ListDiskLocationsResponse{DiskLocations: locations}, nil
}

func v1beta2_ListDiskIDs(ctx context.Context, c *connection, _ *disk.ListDiskIDsRequest) (*disk.ListDiskIDsResponse, error) {
	out := new(v1beta2.ListDiskIDsResponse)
	if err := c.call(ctx, "ListDiskIDs", &v1beta2.ListDiskIDsRequest{}, out); err != nil {
		return nil, err
	}
	ids, err := byNumber(c, "ListDiskIDs", out.DiskIDs, func(ids *v1beta2.DiskIDs) *disk.DiskIDs {
		return &disk.DiskIDs{Page83: ids.GetIdentifiers()["page83"], SerialNumber: ids.GetIdentifiers()["serialNumber"]}
	})
	if err != nil {
		return nil, err
	}
	return &disk.ListDiskIDsResponse{DiskIDs: ids}, nil
}

func v1beta2_PartitionDisk(ctx context.Context, c *connection, in *disk.PartitionDiskRequest) (*disk.PartitionDiskResponse, error) {
	if err := c.call(ctx, "PartitionDisk", &v1beta2.PartitionDiskRequest{DiskID: diskID(in.DiskNumber)}, new(v1beta2.PartitionDiskResponse)); err != nil {
		return nil, err
	}
	return &disk.PartitionDiskResponse{}, nil
}

// GetDiskStats was DiskStats.
func v1beta2_GetDiskStats(ctx context.Context, c *connection, in *disk.GetDiskStatsRequest) (*disk.GetDiskStatsResponse, error) {
	out := new(v1beta2.DiskStatsResponse)
	if err := c.callAs(ctx, "GetDiskStats", "DiskStats", &v1beta2.DiskStatsRequest{DiskID: diskID(in.DiskNumber)}, out); err != nil {
		return nil, err
	}
	return &disk.GetDiskStatsResponse{TotalBytes: out.DiskSize}, nil
}

// SetDiskState was SetAttachState.
func v1beta2_SetDiskState(ctx context.Context, c *connection, in *disk.SetDiskStateRequest) (*disk.SetDiskStateResponse, error) {
	request := &v1beta2.SetAttachStateRequest{DiskID: diskID(in.DiskNumber), IsOnline: in.IsOnline}
	if err := c.callAs(ctx, "SetDiskState", "SetAttachState", request, new(v1beta2.SetAttachStateResponse)); err != nil {
		return nil, err
	}
	return &disk.SetDiskStateResponse{}, nil
}

// GetDiskState was GetAttachState.
func v1beta2_GetDiskState(ctx context.Context, c *connection, in *disk.GetDiskStateRequest) (*disk.GetDiskStateResponse, error) {
	out := new(v1beta2.GetAttachStateResponse)
	if err := c.callAs(ctx, "GetDiskState", "GetAttachState", &v1beta2.GetAttachStateRequest{DiskID: diskID(in.DiskNumber)}, out); err != nil {
		return nil, err
	}
	return &disk.GetDiskStateResponse{IsOnline: out.IsOnline}, nil
}
