package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/testbed"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
)

// here is this Windows as a machine.
type here struct {
	*testbed.Disks
	services  testbed.Services
	journal   *journal
	files     string // directory of the VHDX files
	automount *bool  // what to set it to at the end
}

func (p *place) openWindows(b node.Backend, noAutomount bool, open func(win32.API) error) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// A missing backend is replaced by the other one, with a warning. Then the test would
	// be about the wrong one.
	var replaced strings.Builder
	n, err := node.OpenNative(node.NativeOptions{
		Format: b, SMB: b, FormatHelper: self, Log: slog.New(slog.NewTextHandler(&replaced, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	p.Cleanup(func() {
		if replaced.Len() > 0 {
			p.Errorf("log of backend %s: %s", b, replaced.String())
		}
	})
	h := &here{journal: &journal{p.o.Journal}, files: p.dir + "-disks"}
	if err := os.MkdirAll(h.files, 0o700); err != nil {
		return err
	}
	if err := open(n.API); err != nil {
		return err
	}
	h.Disks = testbed.NewDisks(p.node, p.services.Volume, h.files)
	p.machine = h
	if noAutomount {
		return h.disableAutomount()
	}
	return nil
}

// Attach implements machine. Calling Wine's virtdisk.dll would end the process.
func (h *here) Attach(d conformance.Disk) (uint32, error) {
	if underWine() {
		return 0, fmt.Errorf("no virtual disks under Wine: %w", errors.ErrUnsupported)
	}
	return h.Disks.Attach(d)
}

// SetService implements machine.
func (h *here) SetService(s conformance.Service) error {
	if err := h.journal.add(entry{Kind: kindService, Name: s.Name}); err != nil {
		return err
	}
	return h.services.Set(s)
}

// KeepStopped implements machine.
func (h *here) KeepStopped(service string) error {
	return h.journal.add(entry{Kind: kindStopped, Name: service})
}

// MakeFile implements machine.
func (h *here) MakeFile(path string) error { return os.WriteFile(path, nil, 0o600) }

// Close implements machine.
func (h *here) Close() error {
	errs := []error{h.Disks.Close(), h.services.Close(), os.RemoveAll(h.files)}
	if h.automount != nil {
		errs = append(errs, setAutomount(*h.automount))
	}
	return errors.Join(errs...)
}

// disableAutomount turns automatic mounting off until Close.
func (h *here) disableAutomount() error {
	was, err := automount()
	if err != nil {
		return err
	}
	if err := h.journal.add(entry{Kind: kindAutomount, Name: fmt.Sprint(was)}); err != nil {
		return err
	}
	h.automount = &was
	return setAutomount(false)
}

// automount reports whether the mount manager mounts new volumes: its value NoAutoMount,
// which "mountvol /N" sets.
func automount() (bool, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\mountmgr`, registry.QUERY_VALUE)
	if err != nil {
		return false, err
	}
	defer k.Close()
	off, _, err := k.GetIntegerValue("NoAutoMount")
	if errors.Is(err, registry.ErrNotExist) {
		return true, nil
	}
	return off == 0, err
}

func setAutomount(on bool) error {
	flag := "/N"
	if on {
		flag = "/E"
	}
	if out, err := exec.Command("mountvol.exe", flag).CombinedOutput(); err != nil {
		return fmt.Errorf("mountvol %s: %w: %s", flag, err, out)
	}
	return nil
}

// undo undoes what an earlier run left.
func undo(e entry) error {
	switch e.Kind {
	case kindDirectory:
		return removeTree(e.Name)
	case kindService:
		return testbed.RemoveIdleService(e.Name)
	case kindStopped:
		return testbed.StopService(e.Name)
	case kindAutomount:
		return setAutomount(e.Name == "true")
	}
	return fmt.Errorf("unknown entry %+v", e)
}

// removeTree removes a directory of this program, without the volumes that are mounted
// in it.
func removeTree(dir string) error {
	temp, err := systemTemp()
	if err != nil {
		return err
	}
	if !strings.EqualFold(filepath.Dir(dir), temp) || !strings.HasPrefix(filepath.Base(dir), directoryPrefix) {
		return fmt.Errorf("%s is not a directory of this program", dir)
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type()&os.ModeIrregular != 0 {
			name, err := windows.UTF16PtrFromString(path + `\`)
			if err != nil {
				return err
			}
			if err := windows.DeleteVolumeMountPoint(name); err != nil {
				return fmt.Errorf("unmount %s: %w", path, err)
			}
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// systemTemp is the directory for temporary files on the system volume. Unlike a user's,
// its path has no user's name.
func systemTemp() (string, error) {
	windir, err := windows.GetSystemWindowsDirectory()
	return filepath.Join(windir, "Temp"), err
}

func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

// nodePrograms are programs of a Kubernetes node that this program could disturb.
var nodePrograms = []string{"kubelet.exe", "csi-proxy.exe"}

// look looks at this machine.
func look() (facts, error) {
	v := windows.RtlGetVersion()
	wine := underWine()
	f := facts{
		Elevated: wine || windows.GetCurrentProcessToken().IsElevated(), // Wine checks no rights
		Windows:  fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber),
		Server:   v.ProductType != 1, // VER_NT_WORKSTATION
		Wine:     wine,
	}
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return f, fmt.Errorf("list processes: %w", err)
	}
	defer windows.CloseHandle(snapshot)
	p := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(snapshot, &p); err == nil; err = windows.Process32Next(snapshot, &p) {
		name := strings.ToLower(windows.UTF16ToString(p.ExeFile[:]))
		if slices.Contains(nodePrograms, name) && !slices.Contains(f.Running, name) {
			f.Running = append(f.Running, name)
		}
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return f, fmt.Errorf("list processes: %w", err)
	}
	return f, nil
}

func runIdleService(name string) error { return testbed.RunIdleService(name) }
