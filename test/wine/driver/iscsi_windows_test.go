package driver

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const (
	address = "192.0.2.77"
	socket  = 3260
)

// iscsiHost returns a host that reaches targets at one address, with a running
// initiator.
func iscsiHost(t *testing.T, targets ...nodespec.ISCSITarget) *host {
	t.Helper()
	config := systemOnly()
	for i := range targets {
		targets[i].Portals = []nodespec.ISCSIPortal{{Address: address}}
	}
	config.ISCSI.Targets = targets
	config.Services = []nodespec.Service{{Name: "MSiSCSI", State: "running"}}
	return newHost(t, config)
}

var portal = &iscsi.TargetPortal{TargetAddress: address, TargetPort: socket}

// discover queries the portal for its targets.
func discover(t *testing.T, h *host) []string {
	t.Helper()
	if _, err := h.iscsi.AddTargetPortal(t.Context(), &iscsi.AddTargetPortalRequest{TargetPortal: portal}); err != nil {
		t.Fatal(err)
	}
	out, err := h.iscsi.DiscoverTargetPortal(t.Context(), &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal})
	if err != nil {
		t.Fatal(err)
	}
	return out.IQNs
}

// The options of a login reach iscsidsc.dll in the fields that it reads.
func TestLoginOptions(t *testing.T) {
	const (
		iqn    = "iqn.2025-01.com.example:chap"
		open   = "iqn.2025-01.com.example:open"
		user   = "somebody"
		secret = "0123456789ab"
	)
	h := iscsiHost(t,
		nodespec.ISCSITarget{IQN: iqn, LUNs: []nodespec.LUN{{Disk: nodespec.Disk{Size: gib}}}, CHAP: &nodespec.CHAP{User: user, Secret: secret}},
		nodespec.ISCSITarget{IQN: open, LUNs: []nodespec.LUN{{Disk: nodespec.Disk{Size: gib}}}})
	discover(t, h)
	connect := func(in iscsi.ConnectTargetRequest) error {
		in.TargetPortal = portal
		_, err := h.iscsi.ConnectTarget(t.Context(), &in)
		return err
	}
	err := connect(iscsi.ConnectTargetRequest{IQN: iqn, AuthType: iscsi.ONE_WAY_CHAP, ChapUsername: user, ChapSecret: "another secret"})
	if !errors.Is(err, hosterr.ErrPermissionDenied) || strings.Contains(err.Error(), "another secret") {
		t.Errorf("a login with a wrong secret: %v, want permission denied without the secret", err)
	}
	if err := connect(iscsi.ConnectTargetRequest{IQN: iqn, AuthType: iscsi.ONE_WAY_CHAP, ChapUsername: user, ChapSecret: secret}); err != nil {
		t.Errorf("a login with CHAP: %v", err)
	}
	if err := connect(iscsi.ConnectTargetRequest{IQN: open, AuthType: iscsi.NONE}); err != nil {
		t.Errorf("a login without CHAP: %v", err)
	}
	want := []Login{
		{iqn, address, socket, win32.ISCSI_CHAP_AUTH_TYPE, 0x20 | 0x40 | 0x80, user, "another secret"},
		{iqn, address, socket, win32.ISCSI_CHAP_AUTH_TYPE, 0x20 | 0x40 | 0x80, user, secret},
		{open, address, socket, win32.ISCSI_NO_AUTH_TYPE, 0x80, "", ""},
	}
	if got := h.server.Logins(); !slices.Equal(got, want) {
		t.Errorf("iscsidsc.dll got %+v, want %+v", got, want)
	}
	disks, err := h.iscsi.GetTargetDisks(t.Context(), &iscsi.GetTargetDisksRequest{TargetPortal: portal, IQN: iqn})
	if err != nil || !slices.Equal(disks.DiskIDs, []string{"1"}) {
		t.Errorf("the target's disks are %+v, %v, want disk 1", disks, err)
	}
}

// More targets, sessions and disks than the first buffers have room for.
func TestISCSIListsGrow(t *testing.T) {
	const known, connected = 40, 18
	var targets []nodespec.ISCSITarget
	var names []string
	small := nodespec.LUN{Disk: nodespec.Disk{Size: 64 << 20}}
	for i := range known {
		names = append(names, fmt.Sprintf("iqn.2025-01.com.example:%s-%02d", strings.Repeat("x", 190), i))
		targets = append(targets, nodespec.ISCSITarget{IQN: names[i], LUNs: []nodespec.LUN{small}})
	}
	for range 21 {
		targets[0].LUNs = append(targets[0].LUNs, small)
	}
	h := iscsiHost(t, targets...)
	found := discover(t, h)
	slices.Sort(found)
	if !slices.Equal(found, names) {
		t.Errorf("found %d targets, want %d", len(found), len(names))
	}
	for _, iqn := range names[:connected] {
		if _, err := h.iscsi.ConnectTarget(t.Context(), &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: iqn, AuthType: iscsi.NONE}); err != nil {
			t.Fatalf("connect: %v", err)
		}
	}
	sessions, err := h.bare.GetIScsiSessionList()
	if err != nil || len(sessions) != connected {
		t.Errorf("%d sessions, %v, want %d", len(sessions), err, connected)
	}
	for _, s := range sessions {
		want := []win32.ISCSIConnection{{TargetAddress: address, TargetSocket: socket}}
		if !slices.Contains(names, s.TargetName) || !slices.Equal(s.Connections, want) {
			t.Errorf("session %+v, want one of the targets at %+v", s, want)
		}
	}
	disks, err := h.iscsi.GetTargetDisks(t.Context(), &iscsi.GetTargetDisksRequest{TargetPortal: portal, IQN: names[0]})
	if err != nil || len(disks.DiskIDs) != len(targets[0].LUNs) {
		t.Errorf("%d disks, %v, want %d", len(disks.DiskIDs), err, len(targets[0].LUNs))
	}
}

// Whatever number iscsidsc.dll returns is the error, known or not.
func TestISCSIStatuses(t *testing.T) {
	h := iscsiHost(t, nodespec.ISCSITarget{IQN: "iqn.2025-01.com.example:data"})
	for _, want := range []error{
		win32.ISDSC_LOGIN_FAILED, win32.ISDSC_AUTHENTICATION_FAILURE, win32.ISDSC_SERVICE_NOT_RUNNING, win32.ISDSC_DEVICE_BUSY_ON_SESSION,
		win32.ISCSIStatus(0xEFFF7777), win32.RPC_S_SERVER_UNAVAILABLE, win32.ERROR_ACCESS_DENIED, win32.Errno(4711),
	} {
		code := reflect.ValueOf(want).Uint() // of an Errno or an ISCSIStatus
		if _, err := h.inside.Add(nodespec.Fault{Call: "GetIScsiSessionList", Error: strconv.FormatUint(code, 10)}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.bare.GetIScsiSessionList(); !errors.Is(err, want) {
			t.Errorf("GetIScsiSessionList: %v, want %v", err, want)
		}
		h.inside.Clear()
	}
}
