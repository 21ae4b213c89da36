// Package exampledriver builds the example driver of CSI Proxy, and runs it on Linux, for
// tests of what drives a driver.
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

// Build builds the driver for Windows and returns the path of its .exe.
func Build(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "csi-driver.exe")
	build(t, exe, "GOOS=windows", "GOARCH=amd64")
	return exe
}

// build builds the driver.
func build(t *testing.T, exe string, env ...string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", exe, ".")
	cmd.Dir = filepath.Join("..", "..", "examples", "csi-driver")
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the example driver: %v\n%s", err, out)
	}
}

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
	build(t, exe)
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
