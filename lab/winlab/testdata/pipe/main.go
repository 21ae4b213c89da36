// Command pipe is a driver that serves its node service on a named pipe.
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/Microsoft/go-winio"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

type node struct{ csi.UnimplementedNodeServer }

func (node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: os.Args[1]}, nil
}

func main() {
	path := strings.ReplaceAll(strings.TrimPrefix(os.Getenv("CSI_ENDPOINT"), "npipe://"), "/", `\`)
	l, err := winio.ListenPipe(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer()
	csi.RegisterNodeServer(s, node{})
	log.Fatal(s.Serve(l))
}
