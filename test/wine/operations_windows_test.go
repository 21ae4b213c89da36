package wine

import (
	"os"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/test/wine/driver"
)

// The operations over Windows' own calls where the disks, volumes and formats of
// Wine are those of an emulated node (package driver).
func TestOperationsWithDriver(t *testing.T) {
	dir := os.Getenv("CSI_PROXY_WINE_DRIVER")
	if dir == "" || !driver.UnderWine() {
		t.Skip("needs Wine and the driver, which the stage wine of make test builds where mingw-w64 is")
	}
	if err := driver.Load(dir); err != nil {
		t.Fatal(err)
	}
	model, err := emulated.Open(emulated.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	_, stop, err := driver.Serve(model, model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	// csi-proxy.exe formats in a child that is itself; here it is the child.
	n, err := node.OpenNative(node.NativeOptions{FormatHelper: os.Getenv("CSI_PROXY_BINARY")})
	if err != nil {
		t.Fatal(err)
	}
	runOperations(t, newWorld(t, n.API), onDriver)
}
