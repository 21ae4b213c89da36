package serve_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	diskclient "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	diskv1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta2"
	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

// A driver's client calls a simulated node. A test would use simnode.New(t) and
// serve.Start(t, n) instead of the two calls of Open.
func Example() {
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	s, err := serve.Open(n, serve.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	disks, err := diskclient.NewClientWithPipePath(s.PipePath(diskclient.GroupName, diskclient.Version))
	if err != nil {
		log.Fatal(err)
	}
	defer disks.Close()
	if _, err := disks.PartitionDisk(context.Background(), &v1.PartitionDiskRequest{DiskNumber: 1}); err != nil {
		log.Fatal(err)
	}
	state, err := n.Show()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Disks[1].Style)

	// Output:
	// GPT
}

// This example tests a driver on a node with an old proxy.
func ExampleConfig() {
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	s, err := serve.Open(n, serve.Config{APIs: []string{"disk/v1beta1", "disk/v1beta2"}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	speaks := []apiversion.Version{diskclient.Version, diskv1beta2.Version}
	found, err := negotiate.Find(context.Background(), "disk", speaks, negotiate.WithPipePath(s.PipePath))
	fmt.Println(found, err)

	_, err = negotiate.Find(context.Background(), "disk", speaks[:1], negotiate.WithPipePath(s.PipePath))
	fmt.Println("too old:", errors.Is(err, negotiate.ErrTooOld))

	// Output:
	// disk/v1beta2 <nil>
	// too old: true
}
