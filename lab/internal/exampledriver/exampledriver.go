// Package exampledriver runs the example driver of CSI Proxy on Linux, for tests of what
// drives a driver.
package exampledriver

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

// NodeID is the driver's node.
const NodeID = "lab-node"

// Start starts the driver on a node until the test ends, and returns its endpoint.
func Start(t *testing.T, n *simnode.Node) (endpoint string) {
	t.Helper()
	s := serve.Start(t, n)
	dir, err := os.MkdirTemp("", "csi") // short, because of the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	exe := filepath.Join(dir, "csi-driver")
	build := exec.Command("go", "build", "-o", exe, ".")
	build.Dir = filepath.Join("..", "..", "examples", "csi-driver")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	endpoint = "unix://" + filepath.Join(dir, "csi.sock")
	driver := exec.CommandContext(t.Context(), exe, "-endpoint", endpoint, "-node-id", NodeID)
	driver.Env = append(os.Environ(), pipe.DirVariable+"="+s.Dir())
	driver.Stdout, driver.Stderr = t.Output(), t.Output()
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = driver.Wait() }) // it was killed by the test's context
	return endpoint
}
