// A driver in a HostProcess container.
package main

import (
	"context"
	"log"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/inprocess"
)

func main() {
	n, err := inprocess.Open("")
	if err != nil {
		log.Fatal(err)
	}
	m, err := mounter.New(n, mounter.Options{})
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
