package driver

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/faults"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

const gib = 1 << 30

// systemOnly is a node with the disk of Windows alone. What is attached is there at once.
func systemOnly() nodespec.Config {
	return nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}}, Windows: nodespec.Windows{Attach: nodespec.AttachSeen, NewVolumes: nodespec.NewVolumesAtOnce}}
}

// load loads the driver. It skips the test where loading would be wrong or is
// impossible.
func load(t *testing.T) {
	t.Helper()
	if !UnderWine() {
		t.Skip("needs Wine: the driver must not be loaded into a real Windows")
	}
	dir := os.Getenv("CSI_PROXY_WINE_DRIVER")
	if dir == "" {
		t.Skip("needs the driver: the stage wine of make test builds it with mingw-w64, and sets CSI_PROXY_WINE_DRIVER")
	}
	if err := Load(dir); err != nil {
		t.Fatal(err)
	}
}

// host is this Windows with the disks and volumes of a model, and the services
// over it.
type host struct {
	model  *emulated.Node
	server *Server
	bare   win32.API  // Windows
	node   *node.Node // Windows, with the test's hooks

	inside, outside faults.Set // of the model's calls and of Windows' calls

	open nodetest.Handles

	disk   *disk.Disk
	volume *volume.Volume
	files  *filesystem.Filesystem
	iscsi  *iscsi.ISCSI
	system *system.System // over the model: Wine has no such services
}

// TestMain lets this program be its own format helper, like csi-proxy.exe.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == node.FormatHelper {
		os.Exit(node.RunFormatHelper(os.Args[2:], os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// openNative opens this Windows, which formats in child processes of this
// program.
func openNative() (*node.Node, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return node.OpenNative(node.NativeOptions{FormatHelper: self, Format: "native", SMB: "native", Log: quiet})
}

// native is this Windows, for all tests that do not change its choice of
// backends.
var native = sync.OnceValues(openNative)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// newHost gives this Windows the disks of a new model.
func newHost(t *testing.T, config nodespec.Config) *host {
	t.Helper()
	load(t)
	config.StateDir = t.TempDir()
	config.Log = quiet
	// Wine has the devices that the model has when it answers a request, so only a disk that
	// waits for a scan can be late.
	config.Attach = cmp.Or(config.Attach, nodespec.AttachSeen)
	config.NewVolumes = cmp.Or(config.NewVolumes, nodespec.NewVolumesAtOnce)
	h := &host{}
	var err error
	if h.model, err = emulated.Open(config, emulated.Machine{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.model.Close(); err != nil {
			t.Error(err)
		}
	})
	server, stop, err := Serve(h.model, win32.Observe(h.model, h.inside.Hook))
	if err != nil {
		t.Fatal(err)
	}
	h.server = server
	t.Cleanup(func() {
		h.heal()
		if err := stop(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})

	windows, err := native()
	if err != nil {
		t.Fatal(err)
	}
	h.bare = lockable{windows.API}
	api := win32.Observe(h.bare, func(c *win32.Call) error {
		err := h.outside.Hook(c)
		h.open.Record(c, err)
		return err
	})
	h.node = node.New(api)
	h.node.Log = quiet
	model := node.New(h.model)
	model.Log = quiet
	var errs [5]error
	h.disk, errs[0] = disk.New(diskapi.On(h.node))
	h.volume, errs[1] = volume.New(volumeapi.On(h.node))
	h.files, errs[2] = filesystem.New(filesystemapi.On(h.node))
	h.iscsi, errs[3] = iscsi.New(iscsiapi.On(h.node))
	h.system, errs[4] = system.New(systemapi.On(model))
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return h
}

// lockable is Windows as the services need it, where Wine's ntdll refuses FSCTL_LOCK_VOLUME
// with error 66 and does not ask the driver. It succeeds here, and so does
// FSCTL_DISMOUNT_VOLUME after it.
type lockable struct{ win32.API }

func (l lockable) DeviceIoControl(h win32.Handle, code uint32, in, out []byte) (int, error) {
	if code == win32.FSCTL_LOCK_VOLUME || code == win32.FSCTL_DISMOUNT_VOLUME {
		return 0, nil
	}
	return l.API.DeviceIoControl(h, code, in, out)
}

// changed makes Windows notice a change of the model.
func (h *host) changed(err error) error { return errors.Join(err, h.server.Sync()) }

func (h *host) heal() {
	h.inside.Clear()
	h.outside.Clear()
}

func (h *host) openHandles() ([]string, error) {
	return append(h.model.OpenHandles(), h.open.Open()...), nil
}

func (h *host) attach(d conformance.Disk) (uint32, error) {
	number, err := h.model.Attach(d)
	return number, h.changed(err)
}

func (h *host) info(number uint32) (nodespec.DiskInfo, error) {
	state, err := h.model.Show()
	for _, d := range state.Disks {
		if d.Number == number {
			return d, err
		}
	}
	return nodespec.DiskInfo{}, errors.Join(err, fmt.Errorf("no disk %d", number))
}

func (h *host) detach(number uint32) (back func() (uint32, error), err error) {
	info, err := h.info(number)
	if err != nil {
		return nil, err
	}
	return func() (uint32, error) {
		number, err := h.model.Attach(nodespec.Disk{ID: info.ID})
		return number, h.changed(err)
	}, h.changed(h.model.Detach(number))
}

// forwarded are the calls that the driver passes on one to one, so that a fault
// of the model comes through it as a status.
var forwarded = []string{"DeviceIoControl", "ReadAt", "WriteAt", "FlushFileBuffers", "Reenumerate", "Format"}

func (h *host) fail(c conformance.Fault) (hits func() uint32, err error) {
	if strings.HasPrefix(c.Error, "STATUS_") || strings.HasPrefix(c.Error, "ISDSC_") {
		return nil, fmt.Errorf("error %q: %w", c.Error, errors.ErrUnsupported)
	}
	at := &h.outside
	if slices.Contains(forwarded, c.Call) || strings.Contains(c.Call, "IScsi") {
		at = &h.inside
	}
	active, err := at.Add(nodespec.Fault{Call: c.Call, Code: c.Code, Error: c.Error, Times: c.Times, Delay: c.Delay})
	if err != nil {
		return nil, err
	}
	return active.Hits, nil
}
