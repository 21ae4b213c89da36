// A driver that brings its own implementation of the six interfaces.
package main

import (
	"context"
	"log"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
)

func main() {
	m, err := mounter.New(mounter.Node{}, mounter.Options{})
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
