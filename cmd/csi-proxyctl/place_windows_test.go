package main

import (
	"crypto/rand"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
)

// The directories of a service's program and log are private, or may be changed by users.
func TestExamineInstall(t *testing.T) {
	name := "csi-proxy-test-" + rand.Text()
	if got := examineInstall(winsvc.Installed{Name: name}); len(got) != 1 || got[0].Result != resultNote || !strings.Contains(got[0].What, name) {
		t.Errorf("without a service: %+v, want a note", got)
	}
	program, log := t.TempDir(), t.TempDir()
	m, err := mgr.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Disconnect()
	s, err := m.CreateService(name, filepath.Join(program, "csi-proxy.exe"), mgr.Config{StartType: mgr.StartDisabled}, "-windows-service", "-log_file="+filepath.Join(log, "csi-proxy.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer s.Delete()
	setRights(t, program, "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)")
	setRights(t, log, "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1301bf;;;WD)")
	var changed []string
	service := func() winsvc.Installed {
		found, err := winsvc.Find()
		at := slices.IndexFunc(found, func(i winsvc.Installed) bool { return i.Name == name })
		if err != nil || at < 0 {
			t.Fatalf("%s is not among %v, %v", name, found, err)
		}
		return found[at]
	}
	for _, f := range examineInstall(service()) {
		changed = append(changed, f.Result+" "+f.What)
	}
	all := strings.Join(changed, "\n")
	if !strings.Contains(all, "problem "+log+" may be changed by ") {
		t.Errorf("findings %q, want that of the log's directory", changed)
	}
	if !strings.Contains(all, "problem the service "+name+" does not start with Windows") {
		t.Errorf("findings %q, want that the disabled service does not start", changed)
	}
	if err := s.SetRecoveryActions([]mgr.RecoveryAction{{Type: mgr.ServiceRestart}}, 0); err != nil {
		t.Fatal(err)
	}
	if s := service(); s.Automatic || s.Stays {
		t.Errorf("a disabled service with a restart: %+v", s)
	}
	// Wine keeps the mode of the Linux directory only, so the rights of everyone.
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() != nil && (!strings.Contains(all, "everyone") || strings.Contains(all, program)) {
		t.Errorf("findings %q, want everyone, and nothing of %s", changed, program)
	}
}

func TestExamineWindows(t *testing.T) {
	if got := examineWindows(); len(got) != 1 || got[0].Check != "windows" || !strings.Contains(got[0].What, "Windows 10.0.") {
		t.Errorf("findings %+v, want one with the version", got)
	}
}

func setRights(t *testing.T, path, sddl string) {
	t.Helper()
	sd, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		t.Fatal(err)
	}
	acl, _, err := sd.DACL()
	if err != nil {
		t.Fatal(err)
	}
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, acl, nil); err != nil {
		t.Fatal(err)
	}
}
