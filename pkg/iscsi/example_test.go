package iscsi_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// This example discovers a target at its portal and connects it. The target's LUN becomes a disk.
func Example() {
	ctx := context.Background()
	node, err := simnode.Open(simnode.Config{ISCSI: simnode.ISCSI{Targets: []simnode.ISCSITarget{{
		IQN:     "iqn.2003-01.org.example:vol-1",
		Portals: []simnode.ISCSIPortal{{Address: "10.0.0.1"}},
		LUNs:    []simnode.LUN{{Disk: simnode.Disk{Size: 1 << 30}}},
		CHAP:    &simnode.CHAP{User: "csi", Secret: "for-tests-only"},
	}}}}) // on Windows: iscsi.New(iscsiapi.New())
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	var initiator iscsi.Interface = node.ISCSI()

	// By default Windows does not start the initiator's service.
	if _, err := node.System().StartService(ctx, &system.StartServiceRequest{Name: "MSiSCSI"}); err != nil {
		log.Fatal(err)
	}
	portal := &iscsi.TargetPortal{TargetAddress: "10.0.0.1"} // port 3260
	if _, err := initiator.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal}); err != nil {
		log.Fatal(err)
	}
	found, err := initiator.DiscoverTargetPortal(ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.IQNs)

	connect := &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: found.IQNs[0]}
	_, err = initiator.ConnectTarget(ctx, connect)
	fmt.Println("without CHAP:", errors.Is(err, hosterr.ErrPermissionDenied))
	connect.AuthType, connect.ChapUsername, connect.ChapSecret = iscsi.ONE_WAY_CHAP, "csi", "for-tests-only"
	if _, err := initiator.ConnectTarget(ctx, connect); err != nil {
		log.Fatal(err)
	}
	disks, err := initiator.GetTargetDisks(ctx, &iscsi.GetTargetDisksRequest{TargetPortal: portal, IQN: found.IQNs[0]})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("disks:", disks.DiskIDs)

	if _, err := initiator.DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: portal, IQN: found.IQNs[0]}); err != nil {
		log.Fatal(err)
	}
	if _, err := initiator.RemoveTargetPortal(ctx, &iscsi.RemoveTargetPortalRequest{TargetPortal: portal}); err != nil {
		log.Fatal(err)
	}

	// Output:
	// [iqn.2003-01.org.example:vol-1]
	// without CHAP: true
	// disks: [3]
}
