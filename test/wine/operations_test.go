package wine

import (
	"runtime"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/operations"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/test/wine/driver"
)

const workDir = `C:\var\lib\kubelet\operations`

// The kinds of a world.
const (
	onEmulated = "emulated"
	onWine10   = "Wine"
	onDriver   = "Wine + driver" // with the disks and volumes of an emulated node
	onWindows  = "Windows"
)

// here returns Windows, which may be Wine, if the test runs on it, and otherwise
// the emulated node.
func here(t *testing.T) (api win32.API, on string) {
	t.Helper()
	if runtime.GOOS != "windows" {
		e, err := emulated.Open(nodespec.Config{}, emulated.Machine{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e, onEmulated
	}
	n, err := node.Native()
	if err != nil {
		t.Fatal(err)
	}
	if driver.UnderWine() {
		return n.API, onWine10
	}
	return n.API, onWindows
}

// newWorld creates the services over api.
func newWorld(t *testing.T, api win32.API) *operations.World {
	t.Helper()
	w, err := operations.New(api, 1, workDir)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Why Wine has not what an operation needs.
var wineLacks = map[string]string{
	operations.Disk:      "Wine's disks support no control codes",
	operations.Mounts:    "Wine mounts no volumes",
	operations.Reparse:   "Wine has no reparse points",
	operations.Formatter: "Wine has neither MSFT_Volume nor fmifs.dll",
}

// lacking returns why an operation cannot run in a world, "" if it can.
func lacking(o operations.Operation, on string) string {
	switch {
	case o.Needs == operations.Nothing || on == onEmulated:
		return ""
	case on == onDriver && (o.Needs == operations.Disk || o.Needs == operations.Formatter):
		return ""
	case on == onWindows && o.Needs != operations.Reparse:
		return "needs a disk that may be overwritten, which csi-proxy-verify makes; this test does not use one of a real Windows"
	case on == onWindows:
		return ""
	}
	return "needs real Windows: " + wineLacks[o.Needs]
}

// runOperations runs the operations that a world supports.
func runOperations(t *testing.T, w *operations.World, on string) {
	for _, o := range operations.All() {
		t.Run(o.Name, func(t *testing.T) {
			if why := lacking(o, on); why != "" {
				t.Skip(why)
			}
			if _, err := o.Run(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestOperations runs every operation over the emulated node, and those that
// Windows supports over Windows.
func TestOperations(t *testing.T) {
	api, on := here(t)
	runOperations(t, newWorld(t, api), on)
}
