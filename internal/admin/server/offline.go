package server

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
)

// addOfflineReasons adds why Windows keeps disks offline. A failure is not an error of a disk: a
// Windows may lack the storage provider, and only the reason is missing then.
func (s *Server) addOfflineReasons(ctx context.Context, n *node.Node, disks []*admin.Disk) {
	offline := func(d *admin.Disk) bool { return !d.Online && d.Error == "" }
	if !slices.ContainsFunc(disks, offline) {
		return
	}
	reasons, err := ask(ctx, &s.questions, "offline reasons", func(context.Context) (map[uint32]uint16, error) { return n.API.OfflineReasons() })
	if err != nil {
		n.Log.Debug("Did not learn why disks are offline", "err", err)
	}
	for i, d := range disks {
		if reason, listed := reasons[d.Number]; listed && offline(d) {
			d = proto.CloneOf(d) // other calls may describe the same disk
			d.OfflineReason = storage.OfflineReasonName(reason)
			disks[i] = d
		}
	}
}
