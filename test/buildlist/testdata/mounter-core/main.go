// A driver that brings its own implementation of the six interfaces.
package main

import (
	"log"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
)

func main() {
	if _, err := mounter.New(mounter.Node{}, mounter.Options{}); err != nil {
		log.Fatal(err)
	}
}
