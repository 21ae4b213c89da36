// A driver in a HostProcess container that has a mount.Interface.
package main

import (
	"log"

	mount "k8s.io/mount-utils"

	"github.com/kubernetes-csi/csi-proxy/mountutils"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/inprocess"
)

func main() {
	n, err := inprocess.Open("")
	if err != nil {
		log.Fatal(err)
	}
	m, err := mountutils.New(n, mountutils.Options{})
	if err != nil {
		log.Fatal(err)
	}
	var _ mount.Interface = m
}
