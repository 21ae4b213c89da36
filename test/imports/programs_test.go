package imports_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const project = "github.com/kubernetes-csi/csi-proxy/v2/"

// simulator are the directories with the code of simulated nodes. csi-proxy runs as
// LocalSystem on nodes and must not link any of it.
var simulator = []string{"internal/win32/emulated", "internal/faults", "internal/simcontrol", "pkg/simnode", "cmd/internal/simhost", "cmd/csi-proxy-sim"}

// linkedFrom returns the directories in simulator that pkgs have a package of.
func linkedFrom(pkgs []string) []string {
	var found []string
	for _, dir := range simulator {
		if slices.ContainsFunc(pkgs, func(pkg string) bool { return pkg == project+dir || strings.HasPrefix(pkg, project+dir+"/") }) {
			found = append(found, dir)
		}
	}
	return found
}

// deps returns the packages that a program of the cmd module depends on.
func deps(t *testing.T, system, program string) []string {
	t.Helper()
	c := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace,nethttpomithttp2", "./"+program)
	c.Dir = "../../cmd"
	c.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

func TestCSIProxyDependsOnNoSimulator(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"windows", "linux"} {
		product, sim := deps(t, system, "csi-proxy"), deps(t, system, "csi-proxy-sim")
		if found := linkedFrom(product); len(found) > 0 {
			t.Errorf("for %s csi-proxy depends on %q, which is for csi-proxy-sim only", system, found)
		}
		// If a directory was renamed, the test would not find it in csi-proxy either.
		if found := linkedFrom(sim); !slices.Equal(found, simulator) {
			t.Errorf("for %s csi-proxy-sim depends on %q, want all of %q: update the list", system, found, simulator)
		}
		for _, pkg := range sim {
			if strings.HasPrefix(pkg, project) && !slices.Contains(product, pkg) && len(linkedFrom([]string{pkg})) == 0 {
				t.Errorf("for %s only csi-proxy-sim depends on %s: add it to the list", system, pkg)
			}
		}
	}
}

// csi-proxyctl describes simulated nodes and asks for changes of one. It links none.
func TestCSIProxyctlDependsOnNoSimulatedNode(t *testing.T) {
	t.Parallel()
	all := deps(t, "windows", "csi-proxyctl")
	for _, pkg := range []string{"internal/simcontrol", "internal/similar", "pkg/simnode/nodespec"} {
		if !slices.Contains(all, project+pkg) {
			t.Errorf("csi-proxyctl does not depend on %s: update the test", pkg)
		}
	}
	for _, pkg := range []string{"internal/win32/emulated", "internal/simcontrol/server", "pkg/simnode"} {
		if slices.Contains(all, project+pkg) {
			t.Errorf("csi-proxyctl depends on %s, which has a simulated node", pkg)
		}
	}
	// It asks the daemon through its pipes, so it links neither services nor their Win32 calls.
	for _, pkg := range []string{"internal/wire", "internal/storage", "internal/winfs", "internal/node", "internal/win32", "internal/apiserver/calls", "pkg/smb", "pkg/disk"} {
		if slices.Contains(all, project+pkg) {
			t.Errorf("csi-proxyctl depends on %s, which is of the daemon", pkg)
		}
	}
}
