package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	fsapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/admindir"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/sddl"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire/wiretest"
)

func TestMain(m *testing.M) {
	if winsvc.Asked(os.Args) {
		if err := linger(); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// allServed is what status prints if every version of the API is served.
var allServed = fmt.Sprintf("%[1]d of %[1]d are served", len(wire.Services(wiretest.Groups(nil))))

// lingered is the file that linger makes in the end, beside the program.
const lingered = "lingered"

// linger is a version of csi-proxy that does not serve: its service runs, reports at once that it
// has stopped, and its process ends when another program has its place.
func linger() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	own, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := svc.Run(ServiceName, stopped{}); err != nil {
		return err
	}
	if _, err := os.Stat(path + oldSuffix); err != nil {
		return nil // it was installed, and nothing will replace it
	}
	if err := await(10*time.Minute, func() error {
		now, err := os.Stat(path)
		if err == nil && os.SameFile(own, now) {
			err = errors.New("nothing has replaced this program")
		}
		return err
	}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(path), lingered), nil, 0o600)
}

type stopped struct{}

func (stopped) Execute(_ []string, _ <-chan svc.ChangeRequest, states chan<- svc.Status) (bool, uint32) {
	states <- svc.Status{State: svc.Running}
	return false, 0
}

// proxy returns the csi-proxy.exe to test. It skips the test if there is none, or if this
// machine has a service that the test would replace.
func proxy(t *testing.T) string {
	t.Helper()
	t.TempDir() // it is removed after the service
	path := os.Getenv("CSI_PROXY_BINARY")
	if path == "" {
		t.Skip("needs Windows or Wine and CSI_PROXY_BINARY, the path of csi-proxy.exe; the stage wine of make test builds it and sets that")
	}
	if s, err := openService(ServiceName); !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		if err == nil {
			s.Close()
		}
		t.Fatalf("this machine has a service %s: %v", ServiceName, err)
	}
	t.Cleanup(func() {
		if err := deleteService(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
			t.Error(err)
		}
	})
	return path
}

// home returns a new directory below one that only administrators may change.
func home(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv("ProgramFiles"), "csi-proxy-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := deleteService(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
			t.Error(err)
		}
		if err := await(stopTime, func() error { return os.RemoveAll(dir) }); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// verb runs csi-proxy.exe, and checks its exit code.
func verb(t *testing.T, want int, exe string, args ...string) string {
	t.Helper()
	c := exec.Command(exe, args...)
	out, err := c.CombinedOutput()
	t.Logf("csi-proxy %s\n%s", strings.Join(args, " "), out)
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	if code := c.ProcessState.ExitCode(); code != want {
		t.Fatalf("csi-proxy %s: exit code %d, want %d", strings.Join(args, " "), code, want)
	}
	return string(out)
}

func contains(t *testing.T, output string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(output, w) {
			t.Errorf("the output lacks %q", w)
		}
	}
}

func processOf(t *testing.T) uint32 {
	t.Helper()
	s, err := openService(ServiceName)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	status, err := s.Query()
	if err != nil || status.State != svc.Running {
		t.Fatalf("the service is in state %d: %v", status.State, err)
	}
	return status.ProcessId
}

func copyOf(t *testing.T, exe string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "csi-proxy.exe")
	in, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestInstalledService takes a service through its life: install, calls, upgrades of which
// one fails, uninstall.
func TestInstalledService(t *testing.T) {
	exe := proxy(t)
	dir := filepath.Join(home(t), "with blank", "csi-proxy")
	installed := filepath.Join(dir, "csi-proxy.exe")

	contains(t, verb(t, exitOK, exe, "install", "-dir", dir, "-dry-run"), "would create service csiproxy (auto)", "would copy ")
	contains(t, verb(t, exitNotInstalled, exe, "status"), "not installed")
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("a dry run made the directory")
	}
	contains(t, verb(t, exitUsage, exe, "install", "-dir", dir, "--", "-kubelet-pth=x"), "-kubelet-pth")
	config := filepath.Join(t.TempDir(), "csi-proxy.yaml")
	if err := os.WriteFile(config, []byte("v: 1\r\nkubelet-pth: C:\\k\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, verb(t, exitUsage, exe, "install", "-dir", dir, "--", "-config", config), config+":2: key kubelet-pth: unknown")
	contains(t, verb(t, exitUsage, exe, "config", "check", "-config", config), config+":2: key kubelet-pth: unknown")
	contains(t, verb(t, exitUsage, exe, "install", "-dir", dir, "--", "-config=csi-proxy.yaml"), "csi-proxy.yaml")
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("a refused install made the directory")
	}

	verb(t, exitOK, exe, "install", "-dir", dir, "-start=delayed-auto", "--", "-v=1", `-working-dir=D:\with blank`)
	contains(t, verb(t, exitOK, exe, "status"), "csiproxy, running", "delayed-auto", "failure   restarts after a crash",
		`"`+installed+`" -windows-service`, `"-working-dir=D:\with blank"`, allServed)
	first := processOf(t)
	settings(t)
	contains(t, verb(t, exitFailure, exe, "install", "-dir", dir), "there is a service csiproxy already")
	contains(t, verb(t, exitFailure, installed, "upgrade"), "this is the program of the service")

	client, err := filesystem.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	call := func() {
		t.Helper()
		for begin := time.Now(); ; time.Sleep(pollTime) {
			_, err := client.PathExists(context.Background(), &fsapi.PathExistsRequest{Path: `C:\var\lib\kubelet`})
			if err == nil {
				t.Logf("the client was served after %v", time.Since(begin))
				return
			}
			if time.Since(begin) > 5*time.Minute {
				t.Fatal(err)
			}
		}
	}
	call()

	contains(t, verb(t, exitOK, copyOf(t, exe), "upgrade", "-dry-run"), "would stop service")
	if now := processOf(t); now != first {
		t.Fatal("a dry run replaced the process")
	}
	contains(t, verb(t, exitOK, copyOf(t, exe), "upgrade"), "service csiproxy runs version ")
	second := processOf(t)
	if second == first {
		t.Error("the upgrade kept the process")
	}
	call()
	contains(t, verb(t, exitOK, exe, "status"), allServed, "-v=1")

	// The new program is this test (linger): the upgrade is undone while its process still runs.
	was, err := os.ReadFile(installed)
	if err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	broken := Program{Version: "broken", Pipes: func([]string) ([]string, error) { return []string{`\\.\pipe\csi-proxy-disk-v1`}, nil }}
	code, _ := Run(broken, []string{"upgrade"}, &out, &stderr)
	t.Logf("an upgrade to a broken version\n%s%s", &out, &stderr)
	if code != exitFailure || !strings.Contains(out.String(), "undo: keep ") {
		t.Errorf("exit code %d of an upgrade to a program that does not serve", code)
	}
	if is, err := os.ReadFile(installed); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the old program is not back: %v", err)
	}
	if err := await(serveTime, func() error { return os.Remove(filepath.Join(dir, lingered)) }); err != nil {
		t.Errorf("the new process did not outlive the undo: %v", err)
	}
	call()
	contains(t, verb(t, exitOK, exe, "status"), "csiproxy, running", allServed)
	if left, _ := filepath.Glob(filepath.Join(dir, "*.*")); len(left) != 2 { // with csi-proxyctl.exe
		t.Errorf("the directory has %q", left)
	}

	if log, err := os.ReadFile(filepath.Join(dir, "logs", "csi-proxy.log")); t.Failed() || err != nil {
		t.Logf("the service's log (%v):\n%s", err, log)
	}
	contains(t, verb(t, exitOK, exe, "uninstall"), "delete service csiproxy", "left the program")
	verb(t, exitNotInstalled, exe, "status")
	verb(t, exitOK, exe, "uninstall")
	if _, _, err := pipes.ServerOf(`\\.\pipe\csi-proxy-disk-v1`); !errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
		t.Errorf("a pipe is served after the service was removed: %v", err)
	}
}

// settings checks the settings that status does not show.
func settings(t *testing.T) {
	t.Helper()
	s, err := openService(ServiceName)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	actions, err := s.RecoveryActions()
	if errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		t.Log("this Windows, which is Wine, does not say what the service does after failures")
	} else if err != nil || len(actions) == 0 || actions[len(actions)-1].Type != mgr.ServiceRestart {
		t.Errorf("after failures the service does %+v: %v", actions, err)
	}
	buf := make([]byte, 4<<10)
	var needed uint32
	if err := windows.QueryServiceConfig2(s.Handle, windows.SERVICE_CONFIG_DESCRIPTION, &buf[0], uint32(len(buf)), &needed); err != nil {
		t.Fatal(err)
	}
	if text := windows.UTF16PtrToString((*windows.SERVICE_DESCRIPTION)(unsafe.Pointer(&buf[0])).Description); text != description {
		t.Errorf("the service's description is %q", text)
	}
}

// TestInstallRefusesServedPipes has another csi-proxy on the node.
func TestInstallRefusesServedPipes(t *testing.T) {
	exe := proxy(t)
	other := exec.Command(exe)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		other.Process.Kill()
		other.Wait()
	}()
	if err := await(serveTime, func() error { _, _, err := pipes.ServerOf(`\\.\pipe\csi-proxy-volume-v1`); return err }); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home(t), "csi-proxy")
	contains(t, verb(t, exitFailure, exe, "install", "-dir", dir), "is served by process", "csi-proxy.exe", "nothing was changed")
	if _, err := os.Stat(dir); err == nil {
		t.Error("a refused install made its directory")
	}
}

// TestServiceWaitsForPipes starts the service while another csi-proxy has the pipes. It runs
// without serving, and serves when the other one ends.
func TestServiceWaitsForPipes(t *testing.T) {
	exe := proxy(t)
	dir := filepath.Join(home(t), "csi-proxy")
	verb(t, exitOK, exe, "install", "-dir", dir, "-no-start")
	other := exec.Command(copyOf(t, exe))
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			other.Process.Kill()
			other.Wait()
		}
	}
	defer end()
	if err := await(serveTime, func() error { _, _, err := pipes.ServerOf(`\\.\pipe\csi-proxy-volume-v1`); return err }); err != nil {
		t.Fatal(err)
	}
	s, err := openService(ServiceName)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := await(serveTime, func() error {
		status, err := s.Query()
		if err == nil && status.State != svc.Running {
			err = errors.New("the service is not reported as running")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	contains(t, verb(t, exitNotServing, exe, "status"), "csiproxy, running", strings.Replace(allServed, strings.Fields(allServed)[0], "0", 1)+" by the service", "waiting   ", "is served by process ")
	process := processOf(t)
	end()
	if err := await(serveTime, func() error {
		pid, _, err := pipes.ServerOf(`\\.\pipe\csi-proxy-volume-v1`)
		if err == nil && pid != process {
			err = errors.New("another process serves the pipe")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	contains(t, verb(t, exitOK, exe, "status"), allServed)
	verb(t, exitOK, exe, "uninstall") // the log is complete
	log, err := os.ReadFile(filepath.Join(dir, "logs", "csi-proxy.log"))
	if err != nil || !bytes.Contains(log, []byte("Waiting for another process to close its pipe")) || !bytes.Contains(log, []byte("is served by process")) {
		t.Errorf("the log does not say who has the pipes (%v):\n%s", err, log)
	}
}

// A service may run, or be stopped, with a configuration file that became wrong later, and
// its next start would fail.
func TestStatusShowsWrongSettings(t *testing.T) {
	exe := proxy(t)
	file := filepath.Join(t.TempDir(), "csi-proxy.yaml")
	if err := os.WriteFile(file, []byte("v: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	verb(t, exitOK, exe, "install", "-dir", filepath.Join(home(t), "csi-proxy"), "--", "-config="+file)
	contains(t, verb(t, exitOK, exe, "status"), allServed)
	if err := os.WriteFile(file, []byte("kubelet-pth: x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	contains(t, verb(t, exitNotServing, exe, "status"), "settings  version ", "csi-proxy.yaml:1: key kubelet-pth: unknown", "correct them before the service starts again", allServed)

	// The same for a way back to a version that does not know a key of the file.
	process, older := processOf(t), copyOf(t, exe)
	contains(t, verb(t, exitFailure, older, "upgrade"), "this version does not accept the flags of the service, which was not changed", "csi-proxy.yaml:1: key kubelet-pth: unknown")
	if now := processOf(t); now != process {
		t.Errorf("the refused upgrade replaced process %d by %d", process, now)
	}
	if err := os.WriteFile(file, []byte("v: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	verb(t, exitOK, older, "upgrade")
	contains(t, verb(t, exitOK, exe, "status"), allServed)
	verb(t, exitOK, exe, "uninstall")
}

// TestFailedInstallLeavesNothing installs where a file is in the way.
func TestFailedInstallLeavesNothing(t *testing.T) {
	exe := proxy(t)
	dir := filepath.Join(home(t), "csi-proxy")
	if err := os.WriteFile(dir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	verb(t, exitFailure, exe, "install", "-dir", dir)
	verb(t, exitNotInstalled, exe, "status")

	dir = filepath.Join(home(t), "csi-proxy")
	var out, stderr bytes.Buffer
	broken := Program{Pipes: func([]string) ([]string, error) { return []string{`\\.\pipe\csi-proxy-disk-v1`}, nil }}
	code, _ := Run(broken, []string{"install", "-dir", dir}, &out, &stderr)
	t.Logf("an install of a program that does not serve\n%s%s", &out, &stderr)
	if code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory is left")
	}
	verb(t, exitNotInstalled, exe, "status")
}

// Others lose the access to a directory that install takes, so it takes only its own.
func TestInstallTakesOnlyItsOwnDirectory(t *testing.T) {
	exe := proxy(t)
	dir := home(t)
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	contains(t, verb(t, exitFailure, exe, "install", "-dir", dir), "has other files (letter.txt)", "-dir")
	contains(t, verb(t, exitFailure, exe, "install", "-dir", `C:\`), "root of a volume")
	verb(t, exitNotInstalled, exe, "status")
}

// A directory that others may change, or replace, is refused, and stays as it is.
func TestInstallRefusesDirectoriesOfOthers(t *testing.T) {
	exe := proxy(t)
	access := func(dir, text string) {
		t.Helper()
		sd, err := windows.SecurityDescriptorFromString(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(dir, 0o755), admindir.SetAccess(dir, sd)); err != nil {
			t.Fatal(err)
		}
	}
	now := func(dir string) string {
		t.Helper()
		sd, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			t.Fatal(err)
		}
		return sd.String()
	}
	for text, want := range map[string]string{
		admindir.Access + "(A;OICI;FA;;;BU)":      "may be changed by users",
		admindir.Access + "(A;;0x1301bf;;;AU)":    "may be changed by authenticated users",
		admindir.Access + "(A;OICI;FA;;;WD)":      "may be changed by everyone",
		"O:BUD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)": "is owned by users",
	} {
		t.Run(want, func(t *testing.T) {
			dir := filepath.Join(home(t), "csi-proxy")
			access(dir, text)
			before := now(dir)
			if sddl.Owner(before) == "" && sddl.Others(before, sddl.Changes) == nil {
				t.Skip("needs Windows: Wine keeps only the rights that modes of Unix have")
			}
			contains(t, verb(t, exitFailure, exe, "install", "-dir", dir, "-no-start"), "directory "+dir+" "+want)
			contains(t, verb(t, exitFailure, exe, "install", "-dir", filepath.Join(dir, "a", "b"), "-no-start"), "cannot be protected: directory "+dir+" "+want)
			if _, err := admindir.Make(dir); err == nil || now(dir) != before {
				t.Errorf("Make = %v; the access was %s, and is %s", err, before, now(dir))
			}
		})
	}
	verb(t, exitNotInstalled, exe, "status")
}

// An administrator may write the configuration file to the directory before the program is
// there, as docs/run/install.md shows.
func TestInstallWithItsConfigurationFile(t *testing.T) {
	exe := proxy(t)
	dir := home(t)
	file := filepath.Join(dir, "csi-proxy.yaml")
	if err := os.WriteFile(file, []byte("v: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	contains(t, verb(t, exitFailure, exe, "install", "-dir", dir, "-no-start"), "has other files (csi-proxy.yaml)")
	contains(t, verb(t, exitOK, exe, "install", "-dir", dir, "-no-start", "--", "-config="+file), "give only administrators access to "+file)
	verb(t, exitOK, exe, "uninstall")
}

// What someone has put into the directory before is not written to, and does not become the
// program of the service.
func TestInstallIntoPlantedDirectory(t *testing.T) {
	exe := proxy(t)
	dir, victim := filepath.Join(home(t), "csi-proxy"), filepath.Join(home(t), "victim")
	installed := filepath.Join(dir, programFile)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(victim, []byte("mine"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(victim, installed+partial); err != nil {
		t.Fatal(err)
	}
	verb(t, exitOK, exe, "install", "-dir", dir, "-no-start", "-start=demand")
	if is, err := os.ReadFile(victim); err != nil || string(is) != "mine" {
		t.Errorf("the file that a link led to has %d bytes, %v", len(is), err)
	}

	// The uninstalled service has left its program. It can be installed again, and another
	// version is not overwritten.
	// What an upgrade left that was cut off is removed.
	verb(t, exitOK, exe, "uninstall")
	for _, left := range leftovers(installed) {
		if err := os.WriteFile(left, []byte("half"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	verb(t, exitOK, exe, "install", "-dir", dir, "-no-start", "-start=demand")
	for _, left := range leftovers(installed) {
		if exists(left) {
			t.Errorf("%s is left", left)
		}
	}
	verb(t, exitOK, exe, "uninstall")
	if err := os.WriteFile(installed, []byte("another version"), 0o755); err != nil {
		t.Fatal(err)
	}
	contains(t, verb(t, exitFailure, exe, "install", "-dir", dir, "-no-start"), "is another version")
	verb(t, exitNotInstalled, exe, "status")
}

// TestUpgradeOfOtherServices: what cannot be upgraded is refused before it is stopped.
func TestUpgradeOfOtherServices(t *testing.T) {
	exe := proxy(t)
	dir := filepath.Join(home(t), "with blank")
	other := filepath.Join(dir, "nssm.exe")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(other, []byte("another program"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		`"` + other + `"`: "without -windows-service",
		`"` + other + `" -windows-service=false -v=1`: "without -windows-service",
		other + " -windows-service":                   "in quotes if it has blanks",
		`"` + dir + `\gone.exe" -windows-service`:     "is not a file",
		`csi-proxy.exe -windows-service`:              "the full path",
	} {
		m, err := mgr.Connect()
		if err != nil {
			t.Fatal(err)
		}
		h, err := windows.CreateService(m.Handle, utf16(ServiceName), utf16("other"), windows.SERVICE_ALL_ACCESS,
			windows.SERVICE_WIN32_OWN_PROCESS, windows.SERVICE_DEMAND_START, windows.SERVICE_ERROR_NORMAL, utf16(line), nil, nil, nil, nil, nil)
		if err := errors.Join(err, m.Disconnect()); err != nil {
			t.Fatal(err)
		}
		windows.CloseServiceHandle(h)
		contains(t, verb(t, exitFailure, copyOf(t, exe), "upgrade"), want)
		if err := deleteService(); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(other); err != nil || string(is) != "another program" {
		t.Errorf("the program of another service has changed: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

// TestUpgradeAfterCutOff: an upgrade can end at any moment. The next one finishes it, and
// starts the service, which the first one stopped.
func TestUpgradeAfterCutOff(t *testing.T) {
	exe := proxy(t)
	dir := filepath.Join(home(t), "csi-proxy")
	installed := filepath.Join(dir, programFile)
	verb(t, exitOK, exe, "install", "-dir", dir, "-start=demand")
	for name, left := range map[string]func() error{
		"before the old program was kept": func() error { return os.WriteFile(installed+".new", []byte("half"), 0o755) },
		"after the old program was kept":  func() error { return windows.Rename(installed, installed+".old") },
		"before the new program was tried": func() error {
			return errors.Join(windows.Rename(installed, installed+".old"), os.WriteFile(installed, []byte("broken"), 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := openService(ServiceName)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := errors.Join(stop(s), left()); err != nil {
				t.Fatal(err)
			}
			// A new program that does not serve is taken back.
			if name == "before the new program was tried" {
				var out, stderr bytes.Buffer
				broken := Program{Pipes: func([]string) ([]string, error) { return []string{`\\.\pipe\csi-proxy-disk-v1`}, nil }}
				code, _ := Run(broken, []string{"upgrade"}, &out, &stderr)
				t.Logf("an upgrade to a broken version\n%s%s", &out, &stderr)
				if code != exitFailure || !equal(installed, exe) {
					t.Fatalf("exit code %d, and the old program is not back", code)
				}
				if strings.Contains(stderr.String(), "undoing") {
					t.Errorf("not all was undone: %s", &stderr)
				}
				processOf(t)
			} else {
				contains(t, verb(t, exitOK, copyOf(t, exe), "upgrade"), "an upgrade was cut off", "runs version")
			}
			contains(t, verb(t, exitOK, exe, "status"), allServed)
			for _, left := range append(leftovers(installed), installed+partial) {
				if exists(left) {
					t.Errorf("%s is left", left)
				}
			}
		})
	}
	verb(t, exitOK, exe, "uninstall")
}

// TestServiceOfAnotherInstaller has the names and the program with which installers of others
// make the service.
func TestServiceOfAnotherInstaller(t *testing.T) {
	exe := proxy(t)
	dir := home(t)
	installed, tool := filepath.Join(dir, "csi-proxy.exe"), filepath.Join(filepath.Dir(exe), toolFile)
	if err := copyFile(exe, installed); err != nil {
		t.Fatal(err)
	}
	sc := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("sc.exe", args...).CombinedOutput(); err != nil {
			t.Fatalf("sc.exe %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	create := func(name, command string) {
		t.Helper()
		sc("create", name, "binPath=", command)
		t.Cleanup(func() {
			s, err := openService(name)
			if err != nil {
				return // it was removed
			}
			defer s.Close()
			if err := errors.Join(stop(s), s.Delete()); err != nil {
				t.Error(err)
			}
		})
	}
	create("csi-proxy", `"`+installed+`" -windows-service -logtostderr=false "-log_file=`+filepath.Join(dir, "csi-proxy.log")+`"`)
	sc("start", "csi-proxy")
	if err := await(serveTime, func() error { _, _, err := pipes.ServerOf(`\\.\pipe\csi-proxy-volume-v1`); return err }); err != nil {
		t.Fatal(err)
	}
	contains(t, verb(t, exitOK, exe, "status"), "csi-proxy, running", allServed, filepath.Join(dir, "csi-proxy.log"))
	contains(t, verb(t, exitFailure, exe, "install", "-dir", filepath.Join(dir, "other")), "there is a service csi-proxy already", "-service-name=csi-proxy")
	contains(t, verb(t, exitFailure, exe, "upgrade"), "made by another installer", "nothing was changed", "upgrade -service-name=csi-proxy")
	contains(t, verb(t, exitOK, exe, "upgrade", "-service-name=CSI-Proxy"), "service csi-proxy runs version ")
	contains(t, verb(t, exitFailure, exe, "uninstall"), "made by another installer", "uninstall -service-name=csi-proxy")
	contains(t, verb(t, exitUsage, exe, "install", "-service-name=csi-proxy"), "service-name")
	contains(t, verb(t, exitFailure, exe, "status", "-service-name=wuauserv"), "want a service that runs csi-proxy: csi-proxy (")

	doctor, err := exec.Command(tool, "doctor").CombinedOutput()
	t.Logf("csi-proxyctl doctor: %v\n%s", err, doctor)
	if strings.Contains(string(doctor), "there is no service") || !strings.Contains(string(doctor), "the service csi-proxy does not start with Windows") {
		t.Error("doctor does not find the service")
	}
	// The name is the one that Windows passes.
	refused, err := exec.Command(tool, "stop").CombinedOutput()
	if err == nil || !strings.Contains(string(refused), "Stop-Service csi-proxy") {
		t.Errorf("csi-proxyctl stop: %v\n%s", err, refused)
	}

	create(ServiceName, `"`+installed+`" -windows-service`)
	contains(t, verb(t, exitFailure, exe, "status"), "several services run csi-proxy", "csi-proxy (", ServiceName+" (")
	contains(t, verb(t, exitFailure, exe, "uninstall"), "several services run csi-proxy")
	contains(t, verb(t, exitOK, exe, "status", "-service-name=csi-proxy"), "csi-proxy, running")
	doctor, _ = exec.Command(tool, "doctor").CombinedOutput()
	contains(t, string(doctor), "several services run csi-proxy")
	verb(t, exitOK, exe, "uninstall", "-service-name", ServiceName)
	contains(t, verb(t, exitOK, exe, "uninstall", "-service-name=csi-proxy"), "delete service csi-proxy", "left the program, "+installed)
	verb(t, exitNotInstalled, exe, "status")

	// As nssm.exe does, which starts the program that its parameters name.
	nssm := filepath.Join(dir, "nssm.exe")
	create("csi-proxy-server", `"`+nssm+`"`)
	k, _, err := registry.CreateKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\csi-proxy-server\Parameters`, registry.SET_VALUE)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := errors.Join(k.SetExpandStringValue("Application", installed), k.SetExpandStringValue("AppParameters", `-v=3 -log_file=C:\k\csi-proxy.log`)); err != nil {
		t.Fatal(err)
	}
	contains(t, verb(t, exitNotServing, exe, "status"), "csi-proxy-server, stopped", "program   "+installed, `log       C:\k\csi-proxy.log`)
	contains(t, verb(t, exitFailure, exe, "upgrade", "-service-name=csi-proxy-server"), nssm, "nothing was changed")
	contains(t, verb(t, exitOK, exe, "uninstall", "-service-name=csi-proxy-server"), "delete service csi-proxy-server")
}
