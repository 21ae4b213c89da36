package conformance_test

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance/simulated"
)

// TestInProcess runs the cases over the services in process.
func TestInProcess(t *testing.T) { conformance.RunConcurrently(t, simulated.InProcess) }

// TestThroughPipes runs the cases through the daemon: socket, server, policy,
// conversion between versions, services, simulated node.
func TestThroughPipes(t *testing.T) { conformance.RunConcurrently(t, simulated.ThroughPipes) }
