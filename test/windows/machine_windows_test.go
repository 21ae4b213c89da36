package windows

import (
	"testing"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/testbed"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// administrator skips the test for users without the necessary rights.
func administrator(t *testing.T) {
	t.Helper()
	if underWine() {
		t.Skip("needs Windows Server: Wine's disks support no control codes")
	}
	if !windows.GetCurrentProcessToken().IsElevated() {
		t.Skip("needs an administrator: run it from an elevated prompt")
	}
}

func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

// native returns the Windows that the test runs on. At the end of the test no
// handle may be open.
func native(t *testing.T) (n *node.Node, open func() ([]string, error)) {
	t.Helper()
	real, err := node.Native()
	if err != nil {
		t.Fatal(err)
	}
	var handles nodetest.Handles
	return node.New(win32.Observe(real.API, handles.Hook)), func() ([]string, error) { return handles.Open(), nil }
}

// newDisks returns virtual disks that are gone after the test.
func newDisks(t *testing.T, n *node.Node, v volume.Interface) *testbed.Disks {
	t.Helper()
	// Cleanups run in reverse order: the directory is removed after its disks are
	// detached.
	d := testbed.NewDisks(n, v, t.TempDir())
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
