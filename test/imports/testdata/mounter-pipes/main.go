// A driver in an ordinary container.
package main

import (
	"context"
	"log"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
)

func main() {
	c, err := pipes.Open(context.Background(), pipes.Groups())
	if err != nil {
		log.Fatal(err)
	}
	m, err := mounter.New(c.Node, mounter.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := m.StageDisk(context.Background(), mounter.Disk{}, "", mounter.StageOptions{}); err != nil {
		log.Fatal(err)
	}
	var all any = m // the linker then keeps its exported methods
	if _, ok := all.(interface{ Rescan(context.Context) error }); !ok {
		log.Fatal("no Rescan")
	}
}
