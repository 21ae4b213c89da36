package mounter

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// Target is a disk of an iSCSI target.
type Target struct {
	Address string // of the portal: an IP address or a host name
	Port    uint32 // 0 means 3260
	IQN     string
	LUN     uint32
	// User and Secret are those of one-way CHAP. Without Secret there is no authentication.
	User   string
	Secret Secret
}

func (t Target) portal() *iscsi.TargetPortal {
	return &iscsi.TargetPortal{TargetAddress: t.Address, TargetPort: t.Port}
}

// Login logs in to a target and returns its disk. It starts the service MSiSCSI, and waits for the
// disk as [Mounter.FindDisk] does. Windows itself takes up to 10 s for the disks of a new session.
func (m *Mounter) Login(ctx context.Context, t Target) (Disk, error) {
	d, err := m.login(ctx, t)
	return d, hosterr.Wrap("log in to target", hosterr.Quote(t.IQN), err)
}

func (m *Mounter) login(ctx context.Context, t Target) (Disk, error) {
	if err := m.startInitiator(ctx); err != nil {
		return Disk{}, err
	}
	if _, err := m.node.ISCSI.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: t.portal()}); err != nil {
		return Disk{}, err
	}
	// The target may be newer than the portal's registration.
	if _, err := m.node.ISCSI.DiscoverTargetPortal(ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: t.portal()}); err != nil {
		return Disk{}, err
	}
	login := &iscsi.ConnectTargetRequest{TargetPortal: t.portal(), IQN: t.IQN, AuthType: iscsi.NONE}
	if t.Secret != "" {
		login.AuthType, login.ChapUsername, login.ChapSecret = iscsi.ONE_WAY_CHAP, t.User, string(t.Secret)
	}
	if _, err := m.node.ISCSI.ConnectTarget(ctx, login); err != nil {
		return Disk{}, err
	}
	return m.await(ctx, false, func(ctx context.Context) (found []Disk, seen int, err error) {
		disks, err := m.node.ISCSI.GetTargetDisks(ctx, &iscsi.GetTargetDisksRequest{TargetPortal: t.portal(), IQN: t.IQN})
		if err != nil {
			return nil, 0, err
		}
		all, err := m.list(ctx, false, true)
		for number, d := range all {
			if slices.Contains(disks.DiskIDs, strconv.FormatUint(uint64(number), 10)) && (Identity{LUN: &t.LUN}).fits(d) {
				found = append(found, d)
			}
		}
		return found, len(disks.DiskIDs), err
	})
}

// Logout ends the session of a target. It succeeds if there is none. Unstage the target's disks
// first.
func (m *Mounter) Logout(ctx context.Context, t Target) error {
	return hosterr.Wrap("log out of target", hosterr.Quote(t.IQN), m.logout(ctx, t))
}

func (m *Mounter) logout(ctx context.Context, t Target) error {
	if err := m.startInitiator(ctx); err != nil {
		return err
	}
	_, err := m.node.ISCSI.DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: t.portal(), IQN: t.IQN})
	if errors.Is(err, hosterr.ErrNotFound) {
		return nil // the initiator does not know the target, so there is no session
	}
	return err
}

// startInitiator starts the Windows service without which no iSCSI call works. Without the
// group system, it must run.
func (m *Mounter) startInitiator(ctx context.Context) error {
	if err := m.needs("iscsi", "disk"); err != nil || m.node.System == nil {
		return err
	}
	_, err := m.node.System.StartService(ctx, &system.StartServiceRequest{Name: "MSiSCSI"})
	return err
}
