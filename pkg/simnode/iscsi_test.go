package simnode_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

func TestNodeServices(t *testing.T) {
	n := open(t, simnode.Config{
		Services: []simnode.Service{{Name: "agent", StartType: "auto"}}, Firmware: simnode.Firmware{SerialNumber: "S-1"},
		Rules: rules.Rules{AllowedServices: []string{"agent", "helper"}},
	})
	ctx := t.Context()
	must(t, n.SetService(simnode.Service{Name: "helper", DependsOn: []string{"agent"}}))
	if err := n.SetService(simnode.Service{Name: "helper", State: "odd"}); !errors.Is(err, hosterr.ErrInvalid) {
		t.Errorf("an unknown service state = %v", err)
	}
	must(t, ignore(n.System().StartService(ctx, &system.StartServiceRequest{Name: "helper"})))
	if _, err := n.System().StopService(ctx, &system.StopServiceRequest{Name: "kubelet"}); !errors.Is(err, hosterr.ErrPermissionDenied) {
		t.Errorf("stop of a service that may not be stopped = %v", err)
	}
	serial, err := n.System().GetBIOSSerialNumber(ctx, &system.GetBIOSSerialNumberRequest{})
	if err != nil || serial.SerialNumber != "S-1" {
		t.Errorf("serial number = %v, %v", serial, err)
	}
	status := map[string]string{}
	for _, s := range show(t, n).Services {
		status[s.Name] = s.Status
	}
	if status["agent"] != "running" || status["helper"] != "running" || status["MSiSCSI"] != "stopped" {
		t.Errorf("services = %v", status)
	}
}

func TestAccountPrintsNoSecrets(t *testing.T) {
	target := simnode.ISCSITarget{IQN: "iqn.x", CHAP: &simnode.CHAP{User: "csi", Secret: "marked-secret", MutualSecret: "marked-mutual"}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(verb, target.CHAP) + fmt.Sprintf(verb, *target.CHAP); strings.Contains(got, "marked") || strings.Contains(got, "6d61726b6564") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

// A state directory does not grow with the lives of volumes: the images of disks that are
// discarded, and those of targets that are removed, are gone. Others stay.
func TestImagesOfDeletedDisksAreRemoved(t *testing.T) {
	synctest.Test(t, testImagesOfDeletedDisksAreRemoved)
}

func testImagesOfDeletedDisksAreRemoved(t *testing.T) {
	dir := t.TempDir()
	n := open(t, simnode.Config{StateDir: dir})
	images := func() int {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(dir, "*.img"))
		must(t, err)
		return len(found)
	}
	ctx := t.Context()
	must(t, ignore(n.System().StartService(ctx, &system.StartServiceRequest{Name: "MSiSCSI"})))
	portal := &iscsi.TargetPortal{TargetAddress: "192.0.2.10"}
	begun := images()
	const lives = 50
	for i := range lives {
		d, err := n.AttachDisk(simnode.Disk{ID: fmt.Sprint("vol-", i), Size: 64 << 20})
		must(t, err)
		if err := n.DiscardDisk(d.ID); !errors.Is(err, hosterr.ErrInvalid) {
			t.Errorf("DiscardDisk of an attached disk = %v", err)
		}
		must(t, n.DetachDisk(d.Number))
		if images() != begun+1 {
			t.Fatalf("%d images, want that of the detached disk and %d", images(), begun)
		}
		must(t, n.DiscardDisk(d.ID))

		iqn := fmt.Sprint("iqn.2025-01.com.example:", i)
		target := simnode.ISCSITarget{IQN: iqn, Portals: []simnode.ISCSIPortal{{Address: "192.0.2.10"}}, LUNs: []simnode.LUN{{Disk: simnode.Disk{Size: 64 << 20}}, {Disk: simnode.Disk{Size: 64 << 20}}}}
		must(t, n.SetISCSITarget(target))
		_, add := n.ISCSI().AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal})
		_, discover := n.ISCSI().DiscoverTargetPortal(ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal})
		_, connect := n.ISCSI().ConnectTarget(ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: iqn})
		if err := errors.Join(add, discover, connect); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			must(t, ignore(n.ISCSI().DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: portal, IQN: iqn})))
		}
		if images() != begun+2 {
			t.Fatalf("%d images, want those of the target and %d", images(), begun)
		}
		must(t, n.RemoveISCSITarget(iqn))
	}
	if state := show(t, n); images() != begun || len(state.Detached) != 0 {
		t.Errorf("%d images after %d lives, want %d; detached: %q", images(), lives, begun, state.Detached)
	}
}
