package driver

import (
	"context"
	"errors"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// Keys of the node stage secrets of an iSCSI volume. Without them the login has no
// authentication.
const (
	CHAPUser   = "chapUser"
	CHAPSecret = "chapSecret"
)

// iscsiVolume is a volume on a LUN of a target. Each target has one volume: unstage
// ends the session of the whole target.
type iscsiVolume struct {
	address string
	port    uint32
	iqn     string
	lun     uint8
}

func (iscsiVolume) shared() bool { return false }

func (v iscsiVolume) portal() *iscsi.TargetPortal {
	return &iscsi.TargetPortal{TargetAddress: v.address, TargetPort: v.port}
}

func (v iscsiVolume) stage(ctx context.Context, d *Driver, in *csi.NodeStageVolumeRequest) error {
	number, err := v.connect(ctx, d, in.GetSecrets())
	if err != nil {
		return err
	}
	return d.stageDisk(ctx, number, in.GetStagingTargetPath())
}

// connect logs in to the target and returns the number of the LUN's disk.
func (v iscsiVolume) connect(ctx context.Context, d *Driver, secrets map[string]string) (uint32, error) {
	h := d.config.Host
	if err := d.startInitiator(ctx); err != nil {
		return 0, err
	}
	if _, err := h.ISCSI.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: v.portal()}); err != nil {
		return 0, err
	}
	// The target may be newer than the portal's registration.
	if _, err := h.ISCSI.DiscoverTargetPortal(ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: v.portal()}); err != nil {
		return 0, err
	}
	login := &iscsi.ConnectTargetRequest{TargetPortal: v.portal(), IQN: v.iqn, AuthType: iscsi.NONE}
	if secrets[CHAPSecret] != "" {
		login.AuthType, login.ChapUsername, login.ChapSecret = iscsi.ONE_WAY_CHAP, secrets[CHAPUser], secrets[CHAPSecret]
	}
	if _, err := h.ISCSI.ConnectTarget(ctx, login); err != nil {
		return 0, err
	}
	disks, err := h.ISCSI.GetTargetDisks(ctx, &iscsi.GetTargetDisksRequest{TargetPortal: v.portal(), IQN: v.iqn})
	if err != nil {
		return 0, err
	}
	locations, err := h.Disk.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{})
	if err != nil {
		return 0, err
	}
	for _, id := range disks.DiskIDs {
		number, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return 0, status.Errorf(codes.Internal, "disk number %q of target %q: %v", id, v.iqn, err)
		}
		if at := locations.DiskLocations[uint32(number)]; at != nil && at.LUNID == strconv.Itoa(int(v.lun)) {
			return uint32(number), nil
		}
	}
	return 0, status.Errorf(codes.Unavailable, "target %q has no disk with LUN %d yet", v.iqn, v.lun)
}

func (v iscsiVolume) unstage(ctx context.Context, d *Driver, path string) error {
	if err := d.unmount(ctx, path); err != nil {
		return err
	}
	if err := d.startInitiator(ctx); err != nil {
		return err
	}
	_, err := d.config.Host.ISCSI.DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: v.portal(), IQN: v.iqn})
	if errors.Is(err, hosterr.ErrNotFound) {
		return nil // the initiator does not know the target, so there is no session
	}
	return err
}

func (iscsiVolume) stats(ctx context.Context, d *Driver, path string) (total, free int64, err error) {
	return d.volumeStats(ctx, path)
}

func (iscsiVolume) expand(ctx context.Context, d *Driver, path string, atLeast int64) (int64, error) {
	return d.expandDisk(ctx, path, atLeast)
}

// startInitiator starts the Windows service without which no iSCSI call works.
func (d *Driver) startInitiator(ctx context.Context) error {
	_, err := d.config.Host.System.StartService(ctx, &system.StartServiceRequest{Name: "MSiSCSI"})
	return err
}
