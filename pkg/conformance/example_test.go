package conformance_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// newNode provides your own node to the contract. This one supports little more
// than disks: the cases that need a field that is nil are skipped.
func newNode(t *testing.T, setup conformance.Setup) *conformance.Node {
	n := simnode.New(t, func(c *simnode.Config) {
		c.VolumeArrivalDelay = simnode.Duration(setup.ArrivalDelay)
		c.World, c.Windows = setup.World, setup.Windows
	})
	var disks disk.Service = n.Disk() // your implementation here
	return &conformance.Node{
		Disk: disks, Volume: n.Volume(), Filesystem: n.Filesystem(),
		Dir: `C:\var\lib\kubelet`,
		Attach: func(d conformance.Disk) (uint32, error) {
			info, err := n.AttachDisk(d)
			return info.Number, err
		},
	}
}

// A test runs the contract with
//
//	func TestContract(t *testing.T) { conformance.Run(t, newNode) }
//
// and this example only prints some of its groups.
func Example() {
	var _ conformance.NewNode = newNode
	groups := conformance.Groups()
	fmt.Println(slices.Contains(groups, "format"), slices.Contains(groups, "concurrency"), slices.Contains(groups, "faults"))

	// Output:
	// true true true
}
