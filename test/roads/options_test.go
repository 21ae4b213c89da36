package roads

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/test/worlds"
)

const worldsPage = "../../docs/evidence/worlds.md"

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
// one of the events of TestPage.
func TestOptions(t *testing.T) {
	all, pairs := worlds.Pairs()
	roads := append(drivers(), iscsiVolume)
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
	var b bytes.Buffer
	fmt.Fprintf(&b, "| world: differs from the strict one in |")
	for _, d := range roads {
		if d.name == smbBeta.name && d.ways[0].name == smbBeta.ways[0].name {
			d.name += ", " + d.ways[0].name // other calls than with v1
		}
		fmt.Fprintf(&b, " %s |", d.name)
	}
	fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---|", len(roads)))
	for n, windows := range all {
		fmt.Fprintf(&b, "| %s |", strings.ReplaceAll(worlds.Name(windows), " ", ", "))
		for i, d := range roads {
			w := world{name: worlds.Name(windows), event: reboot, node: func(c *simnode.Config) {
				attach := c.Attach // of drivers that do not rescan
				if c.Windows = windows; attach != "" && c.Attach == nodespec.AttachRescan {
					c.Attach = attach
				}
			}}
			text := "as usual"
			for _, note := range result(d, w) {
				if !slices.Contains(usual[i], note) {
					text = note
					t.Errorf("%s, world %d (%s): %s", d.name, n, w.name, note)
				}
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	t.Attr("measured", fmt.Sprintf("%d roads in %d worlds, which cover %d pairs of values", len(roads)*len(all), len(all), pairs))
	text := fmt.Sprintf(worldsHead, len(all), pairs) + b.String() + "\n## What the strict node answers\n\n" + worlds.Answers()
	if *update {
		if err := os.WriteFile(worldsPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(worldsPage); err != nil || string(have) != text {
		t.Errorf("%s is not current: run this test with -update (%v)", worldsPage, err)
	}
}

// allWorlds returns the events of TestPage that a driver meets.
func allWorlds(d driver) (all []world) {
	for _, w := range append(roadWorlds(), world{name: "restart", event: reboot}) {
		if w.fits(d) || w.event != nil && w.node == nil && d.volume == nil && !w.blocks {
			all = append(all, w)
		}
	}
	return all
}

const worldsHead = `<!-- Written by test/roads TestOptions -update. Do not edit. -->

# Tests in other worlds

Where Windows may behave in several ways, the simulated node has an option
([the list](strict.md)). All tests run on the strict node. These %d worlds hold every two
values of two options together (%d pairs). In each of them ` + "`make test`" + ` takes one volume of each
driver through its life: it is staged, published, grown, unpublished and unstaged, and
Windows restarts on the way. The driver runs in process. "As usual" means that nothing is different from the strict node.
A driver that does not rescan gets its disks by plug and play where the world says ` + "`attach: rescan`" + `.

Each case of the contract runs in one of these worlds too (` + "`test/worlds TestContract`" + `).
` + "`make soak`" + ` runs the whole contract in all of them, and ` + "`test/kill`" + ` and ` + "`test/interleave`" + ` with their deaths and changes at every call.
The contract never runs with ` + "`formatKnows: never`" + `, where each format takes 45 s.

`
