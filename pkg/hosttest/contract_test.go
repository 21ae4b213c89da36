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
