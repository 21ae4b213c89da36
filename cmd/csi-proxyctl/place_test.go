package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/sddl"
)

func TestExaminePlaces(t *testing.T) {
	private, open := "D:P(A;;FA;;;SY)(A;;FA;;;BA)", "D:(A;;FA;;;BA)(A;;0x1301bf;;;AU)"
	if got := examinePlaces(nil); len(got) != 0 {
		t.Errorf("no service: %+v", got)
	}
	if got := examinePlaces([]place{{`C:\etc\kubernetes`, private, true, false}}); len(got) != 1 || got[0].Result != resultOK {
		t.Errorf("private: %+v, want ok", got)
	}
	got := examinePlaces([]place{{`C:\etc\kubernetes`, open, true, false}, {`C:\etc\kubernetes\logs`, private, true, false}})
	if len(got) != 1 || got[0].Result != resultProblem || got[0].What != `C:\etc\kubernetes may be changed by authenticated users` || got[0].Hint != `icacls 'C:\etc\kubernetes' /inheritance:r /grant:r "*S-1-5-18:(OI)(CI)F" "*S-1-5-32-544:(OI)(CI)F"` {
		t.Errorf("open: %+v, want one problem with the command", got)
	}
	if got := examinePlaces([]place{{`C:\a.yaml`, open, false, false}}); len(got) != 1 || !strings.HasSuffix(got[0].Hint, ` /grant:r "*S-1-5-18:F" "*S-1-5-32-544:F"`) {
		t.Errorf("an open file: %+v, want the command for files", got)
	}
}

// Where another account may rename a directory above the program, it can put its own there.
func TestExamineParents(t *testing.T) {
	// C:\ of a new Windows, where users may add directories.
	const root = "O:" + sddl.TrustedInstaller + "D:PAI(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)(A;OICI;0x1200a9;;;BU)(A;CI;LC;;;BU)(A;CIIO;DC;;;BU)(A;OICIIO;SDGXGWGR;;;AU)(A;;LC;;;AU)"
	if got := examinePlaces([]place{{`C:\csi`, "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;FA;;;OW)", true, false}, {`C:\`, root, true, true}}); len(got) != 1 || got[0].Result != resultOK {
		t.Errorf("a private directory below C:: %+v, want ok", got)
	}
	// D:\ as client Windows formats it: a root can be neither deleted nor renamed.
	const client = "O:BAD:(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)(A;OICI;0x1301bf;;;AU)(A;OICI;0x1200a9;;;BU)"
	if got := examinePlaces([]place{{`D:\`, client, true, true}}); len(got) != 1 || got[0].Result != resultOK {
		t.Errorf("a root that users may modify: %+v, want ok", got)
	}
	if got := examinePlaces([]place{{`D:\`, client + "(A;;DT;;;BU)", true, true}}); len(got) != 1 || got[0].Result != resultProblem {
		t.Errorf("a root whose directories users may delete: %+v, want a problem", got)
	}
	const replaced = `C:\a may be replaced, with what is in it, by `
	for text, want := range map[string]string{
		"O:BAD:(A;;DT;;;BU)":                  replaced + "users", // FILE_DELETE_CHILD
		"O:BAD:(A;;0x1301bf;;;AU)":            replaced + "authenticated users",
		"O:BAD:(A;;WD;;;AU)":                  replaced + "authenticated users",
		"O:BAD:(A;;WO;;;WD)":                  replaced + "everyone",
		"O:S-1-5-21-1-2-3-1001D:(A;;FA;;;BA)": `C:\a is owned by S-1-5-21-1-2-3-1001, who may change its rights`,
	} {
		got := examinePlaces([]place{{`C:\a`, text, true, true}})
		if len(got) != 1 || got[0].Result != resultProblem || got[0].What != want || strings.Contains(got[0].Hint, "inheritance") || strings.HasPrefix(text, "O:S-1-5-21") != strings.Contains(got[0].Hint, "/setowner") {
			t.Errorf("%s: %+v, want %q", text, got, want)
		}
	}
}

func TestFilePlaces(t *testing.T) {
	got := filePlaces([]string{`C:\etc\csi-proxy.exe`, "-windows-service", `-log_file=C:\logs\a.log`, "--log_dir", `C:\logs`, `-config=C:\etc\csi-proxy.yaml`, "-v=2", "log_file=x"})
	if want := []string{`C:\logs\a.log`, `C:\logs`, `C:\etc\csi-proxy.yaml`}; !slices.Equal(got, want) {
		t.Errorf("filePlaces = %q, want %q", got, want)
	}
}
