package driver_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"

	"example.com/csi-driver/driver"
)

// The node restarts while a pod has a volume, and an attached disk comes back offline and read-only with
// another number. The kubelet stages and publishes it again at the same paths, the pod can use it, and
// in the end nothing is left.
func TestReboot(t *testing.T) {
	var all []setup
	for _, s := range setups() {
		if s.beta {
			continue
		}
		if s.kind != driver.KindSMB {
			all = append(all, s)
			continue
		}
		for _, s.world = range []string{nodespec.WorldStrict, nodespec.WorldKind} { // mappings end, or still work
			all = append(all, s)
		}
	}
	for _, s := range all {
		t.Run(s.String()+" "+s.world, func(t *testing.T) { reboot(t, s) })
	}
}

func reboot(t *testing.T, s setup) {
	const staging, pod = pluginDir + `\a`, podsDir + `\a`
	ctx := t.Context()
	e := start(t, s, klog.Logger{})
	c := newCluster(e, e.connect(), nil)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	v, err := e.storage.Create(ctx, "a", s.kind, gib)
	must("create", err)
	publish, err := e.storage.Attach(ctx, v.ID, nodeID)
	must("attach", err)
	for _, dir := range []string{staging, pod} {
		must("mkdir", e.mkdir(dir))
	}
	use := func(name string) {
		t.Helper()
		_, err := c.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
			VolumeId: v.ID, StagingTargetPath: staging, VolumeCapability: capability(), PublishContext: publish, Secrets: stageSecrets(),
		})
		must("stage", err)
		must("publish", c.publish(ctx, v.ID, staging, pod))
		must("write to the volume", e.mkdir(pod+target+`\`+name))
	}
	use("before")
	if state, err := e.node.Show(); s.kind == driver.KindDisk {
		must("look at the node", err)
		d, away := state.Disks[len(state.Disks)-1], true
		number := d.Number + 1
		must("detach", e.node.DetachDisk(d.Number))
		_, err = e.node.AttachDisk(simnode.Disk{ID: d.ID, Number: &number, Offline: &away, ReadOnly: &away})
		must("attach", err)
	}
	must("reboot", e.node.Reboot())
	must("start CSI Proxy", e.restart())
	use("after")
	there, err := e.exists(pod + target + `\before`)
	must("read the volume", err)
	if !there {
		t.Error("the volume has lost what was written before the restart")
	}
	must("unpublish", c.unpublish(ctx, v.ID, pod))
	_, err = c.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.ID, StagingTargetPath: staging})
	must("unstage", err)
	must("detach", e.storage.Detach(ctx, v.ID, nodeID))
	must("delete", e.storage.Delete(ctx, v.ID))
	for _, dir := range []string{staging, pod} {
		must("rmdir", e.rmdir(dir))
	}
	if left := e.left(); len(left) > 0 {
		t.Errorf("left on the node: %q", left)
	}
}
