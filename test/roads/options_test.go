package roads

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/test/worlds"
)

// iscsiVolume is a volume of the default iSCSI target. No public driver uses this API on
// Windows, so the road has the calls that the library's documentation recommends.
var iscsiVolume = driver{
	name: "iSCSI",
	ways: []way{inProcess},
	stage: func(v *visit) error {
		if _, err := v.node.System().StartService(v.ctx, &system.StartServiceRequest{Name: "MSiSCSI"}); err != nil {
			return err
		}
		portal := &iscsi.TargetPortal{TargetAddress: "192.0.2.10"}
		const iqn = "iqn.2025-01.com.example:data"
		initiator := v.node.ISCSI()
		if _, err := initiator.AddTargetPortal(v.ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal}); err != nil {
			return err
		}
		if _, err := initiator.DiscoverTargetPortal(v.ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal}); err != nil {
			return err
		}
		if _, err := initiator.ConnectTarget(v.ctx, &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: iqn}); err != nil {
			return err
		}
		out, err := initiator.GetTargetDisks(v.ctx, &iscsi.GetTargetDisksRequest{TargetPortal: portal, IQN: iqn})
		if err != nil {
			return err
		}
		if len(out.DiskIDs) != 1 {
			return fmt.Errorf("the target has the disks %q, want one", out.DiskIDs)
		}
		var number uint32
		if _, err := fmt.Sscan(out.DiskIDs[0], &number); err != nil {
			return err
		}
		if is, err := v.isLink(normal(v.staging)); err == nil && is {
			return v.online(number, true)
		}
		return v.formatAndMount(number, normal(v.staging), true)
	},
	publish: func(v *visit) error {
		if err := v.clear(v.target); err != nil {
			return err
		}
		return v.link(v.staging, v.target)
	},
	stats:     volumeStats,
	unpublish: func(v *visit) error { return v.rmdir(v.target) },
	unstage:   func(v *visit) error { return azureUnmount(v, v.staging) },
}

// Each road is walked, with a restart of Windows on the way, in worlds that cover every two
// values of two options. A road notes nothing that it does not note on the strict node in
// one of the events of TestRoads.
func TestOptions(t *testing.T) {
	all, pairs := worlds.Pairs()
	roads := append(drivers(), iscsiVolume)
	for _, d := range drivers() {
		roads = append(roads, withPackage(d))
	}
	result := func(d driver, w world) (notes []string) {
		synctest.Test(t, func(t *testing.T) {
			j := &journey{v: arrive(t, d, inProcess, w), d: d}
			if err := j.life(w.event, j.twice); err != nil && err != errStuck {
				t.Errorf("%s, %s: %v", d.name, w.name, err)
			}
			notes = j.notes
		})
		return notes
	}
	usual := make([][]string, len(roads))
	for i, d := range roads {
		for _, w := range allWorlds(d) {
			usual[i] = append(usual[i], result(d, w)...)
		}
	}
	for n, windows := range all {
		for i, d := range roads {
			w := world{name: behavior.In("", windows), event: reboot, node: func(c *simnode.Config) {
				attach := c.Attach // of drivers that do not rescan
				c.World, c.Attach = behavior.In("", windows), ""
				if windows.Attach == "" || windows.Attach == nodespec.AttachRescan {
					c.Attach = attach
				}
			}}
			for _, note := range result(d, w) {
				if !slices.Contains(usual[i], note) {
					t.Errorf("%s, world %d (%s): %s", d.name, n, w.name, note)
				}
			}
		}
	}
	t.Attr("measured", fmt.Sprintf("%d roads in %d worlds, which cover %d pairs of values", len(roads)*len(all), len(all), pairs))
}

// allWorlds returns the events of TestRoads that a driver meets.
func allWorlds(d driver) (all []world) {
	for _, w := range append(roadWorlds(), world{name: "restart", event: reboot}) {
		if w.fits(d) || w.event != nil && w.node == nil && d.volume == nil && !w.blocks {
			all = append(all, w)
		}
	}
	return all
}
