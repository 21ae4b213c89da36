package verify

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/testbed"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
)

// here is this Windows as a machine.
type here struct {
	*testbed.Disks
	services testbed.Services
	journal  *journal
	api      win32.API
	files    string // directory of the VHDX files
	target   string // -iscsi-target
}

func (p *place) openWindows(b node.Backend, open func(win32.API) error) error {
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
	h := &here{journal: &journal{p.o.Journal}, files: p.dir + "-disks", target: p.o.Target}
	if err := os.MkdirAll(h.files, 0o700); err != nil {
		return err
	}
	if err := open(n.API); err != nil {
		return err
	}
	h.api = p.node.API
	h.Disks = testbed.NewDisks(p.node, p.services.Volume, h.files)
	p.machine = h
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
	return errors.Join(h.Disks.Close(), h.services.Close(), os.RemoveAll(h.files))
}

// KeepMapping implements machine.
func (h *here) KeepMapping(remote string) error {
	return h.journal.add(entry{Kind: kindMapping, Name: remote})
}

// Share implements machine. It makes a share and a local account, which are removed with
// the journal.
func (h *here) Share() (share, error) {
	host, err := h.api.ComputerName(win32.ComputerNameNetBIOS)
	if err != nil {
		return share{}, err
	}
	// Names of accounts have at most 20 characters.
	name := directoryPrefix + strings.ToLower(rand.Text()[:3])
	dir := filepath.Join(h.files, "share")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return share{}, err
	}
	for _, kind := range []string{kindAccount, kindShare} {
		if err := h.journal.add(entry{Kind: kind, Name: name}); err != nil {
			return share{}, err
		}
	}
	s := share{remote: `\\` + host + `\` + name, user: name, domain: host, password: "Aa1-" + rand.Text()}
	const script = `New-LocalUser -Name $env:VERIFY_NAME -Password (ConvertTo-SecureString $env:VERIFY_PASSWORD -AsPlainText -Force) | Out-Null
icacls $env:VERIFY_DIR /grant ($env:VERIFY_NAME + ':(OI)(CI)F') | Out-Null
New-SmbShare -Name $env:VERIFY_NAME -Path $env:VERIFY_DIR -FullAccess $env:VERIFY_NAME -EncryptData $true | Out-Null`
	_, err = powershell(script, "VERIFY_NAME="+name, "VERIFY_PASSWORD="+s.password, "VERIFY_DIR="+dir)
	return s, err
}

// Target implements machine: that of -iscsi-target, with the CHAP user and secret in the
// environment, because arguments are shown to every program.
func (h *here) Target() (login iscsi.ConnectTargetRequest, ok bool) {
	portal, iqn, err := parseTarget(h.target)
	if err != nil { // as options were checked, there is none
		return login, false
	}
	login.TargetPortal, login.IQN = portal, iqn
	if user := os.Getenv(chapUser); user != "" {
		login.AuthType, login.ChapUsername, login.ChapSecret = iscsi.ONE_WAY_CHAP, user, os.Getenv(chapSecret)
	}
	return login, true
}

// undo undoes what an earlier run left.
func undo(e entry) error {
	switch e.Kind {
	case kindDirectory:
		return removeTree(e.Name)
	case kindService:
		return testbed.RemoveService(e.Name)
	case kindStopped:
		if e.Name != initiator {
			return fmt.Errorf("service %s is not one that this program starts", e.Name)
		}
		return testbed.StopService(e.Name)
	case kindMapping:
		return removeMapping(e.Name)
	case kindAccount, kindShare:
		if !strings.HasPrefix(e.Name, directoryPrefix) {
			return fmt.Errorf("%s %s is not one of this program", e.Kind, e.Name)
		}
		remove := `Get-LocalUser | Where-Object Name -eq $env:VERIFY_NAME | Remove-LocalUser`
		if e.Kind == kindShare {
			remove = `Get-SmbShare | Where-Object Name -eq $env:VERIFY_NAME | Remove-SmbShare -Force`
		}
		_, err := powershell(remove, "VERIFY_NAME="+e.Name)
		return err
	}
	return fmt.Errorf("unknown entry %+v", e)
}

// removeMapping removes the mapping of a share of this program.
func removeMapping(remote string) error {
	if !strings.Contains(remote, `\`+directoryPrefix) {
		return fmt.Errorf("%s is not a share of this program", remote)
	}
	n, err := node.OpenNative(node.NativeOptions{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := n.API.UseDel(remote); err != nil && !win32.IsCode(err, win32.ERROR_NOT_CONNECTED) {
		return err
	}
	return nil
}

// removeTree removes a directory of this program, without the volumes that are mounted
// in it.
func removeTree(dir string) error {
	parent, err := systemDir()
	if err != nil {
		return err
	}
	if !strings.EqualFold(filepath.Dir(dir), parent) || !strings.HasPrefix(filepath.Base(dir), directoryPrefix) {
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

// systemDir is the directory for files of programs on the system volume. Unlike the directory
// for temporary files, it is not in that of Windows, where the services change nothing.
func systemDir() (string, error) {
	return windows.KnownFolderPath(windows.FOLDERID_ProgramData, windows.KF_FLAG_DEFAULT)
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
