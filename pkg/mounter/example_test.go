package mounter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

// simulate returns a simulated Windows node with a CSI Proxy, and the option with which a driver
// finds its pipes. On Windows it needs none.
func simulate() (n *simnode.Node, proxy remote.Option, stop func()) {
	n, err := simnode.Open(simnode.Config{
		Log:        slog.New(slog.DiscardHandler),
		SMBServers: []simnode.SMBServer{{Name: "files", Shares: []string{"data"}, Accounts: []simnode.SMBAccount{{User: "ann", Password: "ann-1"}}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	s, err := serve.Open(n, serve.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return n, remote.WithPipePath(s.PipePath), func() { s.Close(); n.Close() }
}

// stageEBS is NodeStageVolume of a driver for EBS.
func stageEBS(ctx context.Context, volumeID, stagingPath string, opts ...remote.Option) error {
	// Once, when the driver starts. In a HostProcess container: inprocess.Open.
	conn, err := pipes.Open(ctx, []string{"disk", "volume", "filesystem"}, opts...)
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := mounter.New(conn.Node, mounter.Options{})
	if err != nil {
		return err
	}
	can, err := m.Abilities(ctx)
	if err != nil {
		return err
	}
	for _, lack := range can.Lacks() {
		slog.Warn("The CSI Proxy of this node guarantees less", "lack", lack)
	}

	// In each call.
	d, err := m.FindDisk(ctx, mounter.EBS(volumeID))
	if err != nil {
		return err
	}
	_, err = m.StageDisk(ctx, d, stagingPath, mounter.StageOptions{FSType: "ntfs"})
	return err
}

// The disk of a volume is staged.
func Example() {
	node, proxy, stop := simulate()
	defer stop()
	if _, err := node.AttachDisk(simnode.Disk{Size: 10 << 30, Bus: "nvme", Serial: "vol02190fee5da4d75e3_00000001."}); err != nil {
		log.Fatal(err)
	}
	if err := stageEBS(context.Background(), "vol-02190fee5da4d75e3", `C:\var\lib\kubelet\plugins\staging`, proxy); err != nil {
		log.Fatal(err)
	}
	state, err := node.Show()
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range state.Mounts {
		fmt.Println("mounted at", m.Path)
	}
	// Output: mounted at \var\lib\kubelet\plugins\staging
}

// onNode returns a Mounter on a simulated node in process. In a HostProcess container the
// node is that of inprocess.Open.
func onNode(n *simnode.Node) *mounter.Mounter {
	p, err := n.NewProcess(rules.Rules{})
	if err != nil {
		log.Fatal(err)
	}
	m, err := mounter.New(mounter.Node{
		Disk: p.Disk(), Volume: p.Volume(), Files: p.Filesystem(), SMB: p.SMB(), ISCSI: p.ISCSI(), System: p.System(),
		Can: func(ctx context.Context) (context.Context, mounter.Abilities, error) {
			return ctx, mounter.AllAbilities(), nil
		},
	}, mounter.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// A volume is published to a pod, grows, and goes again.
func ExampleMounter_Publish() {
	node, _, stop := simulate()
	defer stop()
	ctx, m := context.Background(), onNode(node)
	const staging, target = `C:\var\lib\kubelet\plugins\staging`, `C:\var\lib\kubelet\pods\1\volumes\kubernetes.io~csi\pvc-1\mount`
	attached, err := node.AttachDisk(simnode.Disk{Size: 1 << 30, Serial: "vol-1"})
	if err != nil {
		log.Fatal(err)
	}
	id := mounter.Identity{SerialNumber: "vol-1"}
	d, err := m.FindDisk(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("publish before stage:", errors.Is(m.Publish(ctx, staging, target), hosterr.ErrFailedPrecondition))
	if _, err := m.StageDisk(ctx, d, staging, mounter.StageOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := m.Publish(ctx, staging, target); err != nil {
		log.Fatal(err)
	}
	// The storage system grows the disk, then the node the volume.
	if err := node.GrowDisk(attached.Number, 2<<30); err != nil {
		log.Fatal(err)
	}
	bytes, err := m.Expand(ctx, target, 2<<30)
	fmt.Println("expanded to", bytes, err)
	// Each call may be repeated.
	for range 2 {
		if err := m.Unpublish(ctx, target); err != nil {
			log.Fatal(err)
		}
		if err := m.UnstageDisk(ctx, staging, mounter.UnstageOptions{Offline: &id}); err != nil {
			log.Fatal(err)
		}
	}
	state, err := m.State(ctx, staging)
	fmt.Println("the staging path is", state, err)
	// Output:
	// publish before stage: true
	// expanded to 2147483648 <nil>
	// the staging path is absent <nil>
}

// Two volumes are directories of one share. Its mapping goes with the last.
func ExampleMounter_StageShare() {
	node, _, stop := simulate()
	defer stop()
	ctx, m := context.Background(), onNode(node)
	share := mounter.Share{Remote: `\\files\data`, User: "ann", Password: "ann-1"}
	paths := []string{`C:\var\lib\kubelet\plugins\kubernetes.io\csi\smb\1\globalmount`, `C:\var\lib\kubelet\plugins\kubernetes.io\csi\smb\2\globalmount`}
	for _, path := range paths {
		if err := m.MakeDir(ctx, path); err != nil { // as the kubelet does
			log.Fatal(err)
		}
		if err := m.StageShare(ctx, share, path); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(share)
	for _, path := range paths {
		if err := m.UnstageShare(ctx, path, share.Remote); err != nil {
			log.Fatal(err)
		}
		state, err := node.Show()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("mappings:", len(state.SMBMappings))
	}
	// Output:
	// {\\files\data ann *** false false}
	// mappings: 1
	// mappings: 0
}
