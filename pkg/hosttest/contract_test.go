package hosttest_test

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosttest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosttest/simulated"
)

// The services over a simulated node, as a driver in process has them.
func TestInProcess(t *testing.T) { hosttest.Run(t, simulated.InProcess) }

// The same cases through the road of the daemon: socket, server, policy, rows,
// services, the simulated node.
func TestThroughPipes(t *testing.T) { hosttest.Run(t, simulated.ThroughPipes) }

// The cases that the oldest families of versions can do, by a driver that asks
// for the newest.
func TestThroughOldPipes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test runs it")
	}
	hosttest.Run(t, simulated.ThroughOldPipes)
}
