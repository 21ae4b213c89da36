package driver

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance/simulated"
)

// A driver that uses the library in process, in a HostProcess container.
func TestContractInProcess(t *testing.T) { conformance.RunConcurrently(t, simulated.InProcess) }
