package windows

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	nodeservices "github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// asService is the first argument of the test binary when the service manager
// starts it as a service of the contract.
const asService = "contract-service"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asService {
		if err := svc.Run(os.Args[2], idle{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// idle is a service that does nothing until it is stopped.
type idle struct{}

func (idle) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for r := range requests {
		switch r.Cmd {
		case svc.Interrogate:
			status <- r.CurrentStatus
		case svc.Stop, svc.Shutdown:
			return false, 0
		}
	}
	return false, 0
}

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

// TestContract runs the contract, which the simulated node passes everywhere
// else, over this Windows and our code. A failing case is a place where our
// reading of Windows is wrong.
func TestContract(t *testing.T) {
	administrator(t)
	conformance.Run(t, func(t *testing.T, setup conformance.Setup) *conformance.Node {
		if setup != (conformance.Setup{}) {
			t.Skipf("Windows cannot be set up as %+v; the simulated node runs the case", setup)
		}
		n, open := native(t)
		n.AllowedServices = []string{"contract-base", "contract-left", "contract-right", "contract-top"}
		s, err := nodeservices.Open(n, nodeservices.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(t, n, s.Volume)
		number, err := s.Volume.GetDiskNumberFromVolumeID(t.Context(), &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: volumeOf(t, n, `C:\`)})
		if err != nil {
			t.Fatal(err)
		}
		services := &services{t: t}
		return &conformance.Node{
			Disk: s.Disk, Volume: s.Volume, Filesystem: s.Filesystem, System: s.System,
			Dir:         workingDirectory(t, s.Filesystem),
			SystemDisk:  number.DiskNumber,
			Attach:      m.Attach,
			Detach:      m.Detach,
			Grow:        m.Grow,
			SetService:  services.set,
			MakeFile:    func(path string) error { return os.WriteFile(path, nil, 0o600) },
			OpenHandles: open,
		}
	})
}

func volumeOf(t *testing.T, n *node.Node, root string) string {
	t.Helper()
	id, err := n.API.VolumeNameForMountPoint(root)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// workingDirectory returns an empty directory that is removed after the test,
// without the volumes mounted in it.
func workingDirectory(t *testing.T, f filesystem.Interface) string {
	t.Helper()
	if err := os.MkdirAll(`C:\var\lib\kubelet\plugins`, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(`C:\var\lib\kubelet\plugins`, "csi-proxy-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A case leaves its volumes mounted. Removal refuses mount points, so
		// unmount them first.
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Type()&os.ModeIrregular != 0 {
				windows.DeleteVolumeMountPoint(windows.StringToUTF16Ptr(path + `\`))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// services are the test's Windows services, which run the test's own binary.
type services struct {
	t    *testing.T
	made []string
}

func (s *services) set(want conformance.Service) error {
	m, err := mgr.Connect()
	if err != nil {
		return err
	}
	defer m.Disconnect()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	config := mgr.Config{StartType: mgr.StartManual, Dependencies: want.DependsOn}
	made, err := m.CreateService(want.Name, exe, config, asService, want.Name)
	for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		switch {
		case errors.Is(err, windows.ERROR_SERVICE_EXISTS): // from a run that was killed
			err = discard(m, want.Name)
		case errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE): // a program has it open
			err = nil
		}
		if err != nil {
			break
		}
		made, err = m.CreateService(want.Name, exe, config, asService, want.Name)
	}
	if err != nil {
		return fmt.Errorf("create service %s: %w", want.Name, err)
	}
	defer made.Close()
	if s.made = append(s.made, want.Name); len(s.made) == 1 {
		s.t.Cleanup(s.remove)
	}
	if want.State == "running" {
		if err := made.Start(); err != nil {
			return fmt.Errorf("start service %s: %w", want.Name, err)
		}
		return awaitState(made, svc.Running)
	}
	return nil
}

// remove stops and deletes the services, dependents first.
func (s *services) remove() {
	m, err := mgr.Connect()
	if err != nil {
		s.t.Error(err)
		return
	}
	defer m.Disconnect()
	for _, name := range slices.Backward(s.made) {
		if err := discard(m, name); err != nil {
			s.t.Errorf("remove service %s: %v", name, err)
		}
	}
}

// discard stops a service, after the services that depend on it, and deletes it.
func discard(m *mgr.Mgr, name string) error {
	s, err := m.OpenService(name)
	if err != nil {
		return err
	}
	defer s.Close()
	if dependents, err := s.ListDependentServices(svc.Active); err == nil {
		for _, d := range dependents {
			if err := discard(m, d); err != nil {
				return err
			}
		}
	}
	if _, err := s.Control(svc.Stop); err == nil {
		if err := awaitState(s, svc.Stopped); err != nil {
			return err
		}
	}
	return s.Delete()
}

func awaitState(s *mgr.Service, want svc.State) error {
	return nodetest.Eventually(30*time.Second, func() error {
		status, err := s.Query()
		if err == nil && status.State != want {
			err = fmt.Errorf("the service is in state %d, want %d", status.State, want)
		}
		return err
	})
}
