//go:build !windows

package published

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	disk "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/test/published/script"
)

func TestIdleConnections(t *testing.T) {
	t.Parallel() // it mostly waits
	script.Idle(t, func(socket func(pipe string) string) (*grpc.ClientConn, error) {
		return dial("disk", "v1", socket)
	}, func(conn *grpc.ClientConn) error {
		_, err := disk.NewDiskClient(conn).Rescan(context.Background(), &disk.RescanRequest{})
		return err
	})
}

// A driver with the published client finds the next daemon.
func TestRollout(t *testing.T) {
	t.Parallel() // it mostly waits
	script.Rollout(t, func(socket func(pipe string) string) (*grpc.ClientConn, error) {
		return dial("disk", "v1", socket)
	}, func(conn *grpc.ClientConn) error {
		_, err := disk.NewDiskClient(conn).Rescan(context.Background(), &disk.RescanRequest{})
		return err
	})
}
