package smb_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// This example maps a share for the node and links it at the kubelet's staging path. The
// mapping can be removed after its last link.
func Example() {
	ctx := context.Background()
	// The default node can reach \\files.example.com\data, with the account csi.
	node, err := simnode.Open(simnode.Config{Log: slog.New(slog.DiscardHandler)}) // on Windows: smb.New(smbapi.New(), files)
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	var shares smb.Interface = node.SMB()

	const dir = `C:\var\lib\kubelet\plugins\kubernetes.io\csi\pv-1`
	if _, err := node.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: dir}); err != nil {
		log.Fatal(err)
	}
	request := &smb.NewSMBGlobalMappingRequest{
		RemotePath: `\\files.example.com\data`, LocalPath: dir + `\globalmount`,
		Username: "csi", Password: "wrong",
	}
	_, err = shares.NewSMBGlobalMapping(ctx, request)
	fmt.Println("refused:", errors.Is(err, hosterr.ErrPermissionDenied))

	request.Password = "csi"
	if _, err := shares.NewSMBGlobalMapping(ctx, request); err != nil {
		log.Fatal(err)
	}
	mappings(node)

	// The mapping is kept as long as the link exists.
	remove := &smb.RemoveSMBGlobalMappingRequest{RemotePath: `\\files.example.com\data`}
	if _, err := shares.RemoveSMBGlobalMapping(ctx, remove); err != nil {
		log.Fatal(err)
	}
	mappings(node)

	if _, err := node.Filesystem().Rmdir(ctx, &filesystem.RmdirRequest{Path: request.LocalPath, Force: true}); err != nil {
		log.Fatal(err)
	}
	if _, err := shares.RemoveSMBGlobalMapping(ctx, remove); err != nil {
		log.Fatal(err)
	}
	mappings(node)

	// Output:
	// refused: true
	// 1 mappings
	//   \\files.example.com\data by csi: ok
	// 1 mappings
	//   \\files.example.com\data by csi: ok
	// 0 mappings
}

func mappings(node *simnode.Node) {
	state, err := node.Show()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(state.SMBMappings), "mappings")
	for _, m := range state.SMBMappings {
		fmt.Printf("  %s by %s: %s\n", m.Remote, m.User, m.Status)
	}
}
