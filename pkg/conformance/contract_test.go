package conformance_test

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance/simulated"
)

// The services over a simulated node, as a driver in process has them.
func TestInProcess(t *testing.T) { conformance.Run(t, simulated.InProcess) }

// The same cases through the road of the daemon: socket, server, policy, rows,
// services, the simulated node.
func TestThroughPipes(t *testing.T) { conformance.Run(t, simulated.ThroughPipes) }

// The cases that the oldest families of versions can do, by a driver that asks
// for the newest.
func TestThroughOldPipes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test runs it")
	}
	conformance.Run(t, simulated.ThroughOldPipes)
}
