package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"

	"example.com/csi-driver/driver"
)

// A call ends at its deadline although Windows is still formatting. The next call joins
// the work or finds it done.
func TestDeadline(t *testing.T) {
	for _, s := range []setup{{kind: driver.KindDisk}, {kind: driver.KindDisk, inProcess: true}} {
		t.Run(s.String(), func(t *testing.T) {
			e := start(t, s, klog.Logger{})
			if _, err := e.node.AttachDisk(simnode.Disk{Size: gib, Serial: "slow"}); err != nil {
				t.Fatal(err)
			}
			slow, err := e.node.Fail(simnode.Fault{Call: winapi.Format, Times: 1, Delay: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			node := csi.NewNodeClient(e.connect())
			stage := func(ctx context.Context) error {
				_, err := node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
					VolumeId: driver.DiskID("slow"), StagingTargetPath: kubelet + `\slow`, VolumeCapability: capability(),
					PublishContext: map[string]string{driver.SerialNumber: "slow"},
				})
				return err
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := stage(ctx); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("stage during a slow format = %v, want DeadlineExceeded", err)
			}
			slow.Clear()
			if err := eventually(t.Context(), func() error { return stage(t.Context()) }); err != nil {
				t.Errorf("stage after the deadline: %v", err)
			}
		})
	}
}
