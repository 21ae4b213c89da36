package conformance_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// newNode brings one's own node to the contract. This one has disks and nothing
// else: what a node leaves nil it does not have, and the cases that need it are
// skipped.
func newNode(t *testing.T, setup conformance.Setup) *conformance.Node {
	n := simnode.New(t, func(c *simnode.Config) {
		c.VolumeArrivalDelay = simnode.Duration(setup.ArrivalDelay)
		c.AttachNeedsRescan = setup.AttachNeedsRescan
	})
	var disks disk.Interface = n.Disk() // one's own in its place
	return &conformance.Node{
		Disk: disks, Volume: n.Volume(), Filesystem: n.Filesystem(),
		Dir: `C:\var\lib\kubelet`,
		Attach: func(d conformance.Disk) (uint32, error) {
			info, err := n.AttachDisk(simnode.Disk{Size: simnode.Size(d.Size), SectorSize: d.SectorSize, Content: string(d.Table)})
			return info.Number, err
		},
	}
}

// A test runs the contract with
//
//	func TestContract(t *testing.T) { conformance.Run(t, newNode) }
//
// and this example, which is none, tells what it is about.
func Example() {
	var _ conformance.NewNode = newNode
	groups := conformance.Groups()
	fmt.Println(slices.Contains(groups, "format"), slices.Contains(groups, "at once"), slices.Contains(groups, "faults"))

	// Output:
	// true true true
}
