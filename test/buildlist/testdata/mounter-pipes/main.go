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
	if _, err := mounter.New(c.Node, mounter.Options{}); err != nil {
		log.Fatal(err)
	}
}
