// A driver in a HostProcess container.
package main

import (
	"log"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/inprocess"
)

func main() {
	n, err := inprocess.Open("")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := mounter.New(n, mounter.Options{}); err != nil {
		log.Fatal(err)
	}
}
