package windows

import (
	"errors"
	"flag"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
)

// The target of TestISCSI: it must have at least one LUN that nothing else uses.
// Where the role iSCSI Target Server can be installed, the workflow creates the
// target on the machine itself.
var (
	iscsiPortal = flag.String("iscsi-portal", "", "`address:port` of an iSCSI target for TestISCSI")
	iscsiIQN    = flag.String("iscsi-iqn", "", "its name")
	iscsiUser   = flag.String("iscsi-chap-user", "", "its CHAP user, if it wants one")
	iscsiSecret = flag.String("iscsi-chap-secret", "", "its CHAP secret")
)

// Questions: what does Windows call a discovery mechanism, do our sessions
// survive a restart of the initiator by default, and how long does it take until
// the disks appear?
func TestISCSI(t *testing.T) {
	administrator(t)
	if *iscsiPortal == "" || *iscsiIQN == "" {
		t.Skip("needs -iscsi-portal and -iscsi-iqn, a target that this Windows can reach")
	}
	at, err := netip.ParseAddrPort(*iscsiPortal)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := native(t)
	ctx := t.Context()
	services, err := system.New(systemapi.On(n))
	if err != nil {
		t.Fatal(err)
	}
	i, err := iscsi.New(iscsiapi.On(n))
	if err != nil {
		t.Fatal(err)
	}
	d, err := disk.New(diskapi.On(n))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := services.StartService(ctx, &system.StartServiceRequest{Name: "MSiSCSI"}); err != nil {
		t.Fatal(err)
	}
	portal := &iscsi.TargetPortal{TargetAddress: at.Addr().String(), TargetPort: uint32(at.Port())}
	if _, err := i.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := i.RemoveTargetPortal(ctx, &iscsi.RemoveTargetPortalRequest{TargetPortal: portal}); err != nil {
			t.Errorf("RemoveTargetPortal: %v", err)
		}
	}()
	found, err := i.DiscoverTargetPortal(ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal})
	if err != nil || !slices.Contains(found.IQNs, *iscsiIQN) {
		t.Fatalf("DiscoverTargetPortal: %+v, %v, want %s", found, err, *iscsiIQN)
	}
	login := iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: *iscsiIQN}
	if *iscsiUser != "" {
		login.AuthType, login.ChapUsername, login.ChapSecret = iscsi.ONE_WAY_CHAP, *iscsiUser, "not-the-secret"
		if _, err := i.ConnectTarget(ctx, &login); !errors.Is(err, hosterr.ErrPermissionDenied) {
			t.Errorf("ConnectTarget with a wrong secret: %v, want an error of credentials", err)
		}
		login.ChapSecret = *iscsiSecret
	}
	defer func() {
		for range 2 {
			if _, err := i.DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: portal, IQN: *iscsiIQN}); err != nil && !errors.Is(err, hosterr.ErrNotFound) {
				t.Errorf("DisconnectTarget: %v", err)
			}
		}
	}()
	for range 2 { // repeating it succeeds
		if _, err := i.ConnectTarget(ctx, &login); err != nil {
			t.Fatalf("ConnectTarget: %v", err)
		}
	}
	disks, err := i.GetTargetDisks(ctx, &iscsi.GetTargetDisksRequest{TargetPortal: portal, IQN: *iscsiIQN})
	if err != nil || len(disks.DiskIDs) == 0 {
		t.Errorf("GetTargetDisks: %+v, %v", disks, err)
	}
	for _, id := range disks.DiskIDs {
		number, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			t.Errorf("disk %q: %v", id, err)
			continue
		}
		stats, err := d.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: uint32(number)})
		if err != nil || stats.TotalBytes == 0 {
			t.Errorf("disk %s: %+v, %v", id, stats, err)
		}
	}
	var sessions []struct {
		TargetNodeAddress string
		IsPersistent      bool
	}
	queryList(t, &sessions, "Get-IscsiSession", `@{TargetNodeAddress="$($_.TargetNodeAddress)"; IsPersistent=$_.IsPersistent}`)
	t.Logf("Get-IscsiSession returns %+v", sessions)
}
