package pipes

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance/simulated"
)

// A driver that calls the daemon through package remote.
func TestContractThroughPipes(t *testing.T) { conformance.RunConcurrently(t, simulated.ThroughPipes) }
