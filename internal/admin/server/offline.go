package server

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// addOfflineReasons adds why Windows keeps disks offline. One limit is for all disks, because
// all are asked of one storage provider. That it does not answer is no error of a disk: a
// Windows may lack it, and the reason is all that is missing.
func (s *Server) addOfflineReasons(ctx context.Context, n *node.Node, disks []*admin.Disk) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	admin.EachDevice(len(disks), func(i int) {
		if disks[i].Online || disks[i].Error != "" {
			return
		}
		d := proto.Clone(disks[i]).(*admin.Disk) // other calls may describe the same disk
		disks[i] = d
		var err error
		d.OfflineReason, err = ask(ctx, &s.questions, fmt.Sprintf("offline reason of disk %d", d.Number), func(context.Context) (string, error) {
			reason, err := n.API.DiskOfflineReason(d.Number)
			return offlineReasonName(reason), err
		})
		if err != nil {
			n.Log.Debug("Did not learn why a disk is offline", "disk", d.Number, "err", err)
		}
	})
}

// offlineReasonName returns the name that Get-Disk has for an OfflineReason of MSFT_Disk.
func offlineReasonName(reason uint16) string {
	names := []string{"None", "Policy", "Redundant Path", "Snapshot", "Collision", "Resource Exhaustion", "Critical Write Failures", "Data Integrity Scan Required",
		"Lost Data Persistence"} // the last one is of VDS
	if int(reason) < len(names) {
		return names[reason]
	}
	return fmt.Sprintf("reason %d", reason)
}
