package main

import (
	"slices"
	"strings"
	"testing"
)

func TestWriters(t *testing.T) {
	for sddl, want := range map[string][]string{
		"O:BAG:SYD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)":                             nil,
		"D:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIID;0x1200a9;;;BU)":        nil,
		"D:PAI(A;;FA;;;" + trustedInstaller + ")(A;;0x1200a9;;;SY)(A;;FRFX;;;WD)": nil,
		// What a directory on C: inherits.
		"D:AI(A;ID;FA;;;BA)(A;OICIIOID;GA;;;BA)(A;ID;FA;;;SY)(A;OICIID;0x1200a9;;;BU)(A;ID;0x1301bf;;;AU)(A;OICIIOID;SDGXGWGR;;;AU)": {"authenticated users"},
		"D:(A;;0x100004;;;BU)":                      {"users"},
		"D:(A;;WD;;;S-1-5-21-1-2-3-1001)":           {"S-1-5-21-1-2-3-1001"},
		"D:(A;;FR;;;WD)(A;;DT;;;IU)":                {"interactive users"},
		"D:(A;;??;;;WD)":                            {"everyone"},
		"D:(D;;FA;;;WD)(A;;FR;;;WD)S:(ML;;NW;;;LW)": nil,
		"D:NO_ACCESS_CONTROL":                       {"everyone"},
		"O:BA":                                      {"everyone"},
	} {
		if got := writers(sddl); !slices.Equal(got, want) {
			t.Errorf("writers(%q) = %q, want %q", sddl, got, want)
		}
	}
}

func TestExaminePlaces(t *testing.T) {
	private, open := "D:P(A;;FA;;;SY)(A;;FA;;;BA)", "D:(A;;FA;;;BA)(A;;0x1301bf;;;AU)"
	if got := examinePlaces(nil); len(got) != 0 {
		t.Errorf("no service: %+v", got)
	}
	if got := examinePlaces([]place{{`C:\etc\kubernetes`, private, true}}); len(got) != 1 || got[0].Result != resultOK {
		t.Errorf("private: %+v, want ok", got)
	}
	got := examinePlaces([]place{{`C:\etc\kubernetes`, open, true}, {`C:\etc\kubernetes\logs`, private, true}})
	if len(got) != 1 || got[0].Result != resultProblem || got[0].What != `C:\etc\kubernetes may be changed by authenticated users` || got[0].Hint != `icacls 'C:\etc\kubernetes' /inheritance:r /grant:r "*S-1-5-18:(OI)(CI)F" "*S-1-5-32-544:(OI)(CI)F"` {
		t.Errorf("open: %+v, want one problem with the command", got)
	}
	if got := examinePlaces([]place{{`C:\a.yaml`, open, false}}); len(got) != 1 || !strings.HasSuffix(got[0].Hint, ` /grant:r "*S-1-5-18:F" "*S-1-5-32-544:F"`) {
		t.Errorf("an open file: %+v, want the command for files", got)
	}
}

// The owner of a file can always change its rights.
func TestExamineOwners(t *testing.T) {
	const rights = "G:SYD:P(A;;FA;;;SY)(A;;FA;;;BA)"
	for owner, problem := range map[string]bool{"BA": false, "SY": false, trustedInstaller: false, "BU": true, "S-1-5-21-1-2-3-1001": true} {
		got := examinePlaces([]place{{`C:\csi\csi-proxy.exe`, "O:" + owner + rights, false}})
		if len(got) != 1 || (got[0].Result == resultProblem) != problem {
			t.Errorf("owner %s: %+v, want a problem: %t", owner, got, problem)
		}
		if problem && (!strings.Contains(got[0].What, "owned by "+owner) || !strings.Contains(got[0].Hint, "/setowner")) {
			t.Errorf("owner %s: %+v, want the owner, and the command", owner, got)
		}
	}
}

func TestFilePlaces(t *testing.T) {
	got := filePlaces([]string{`C:\etc\csi-proxy.exe`, "-windows-service", `-log_file=C:\logs\a.log`, "--log_dir", `C:\logs`, `-config=C:\etc\csi-proxy.yaml`, "-v=2", "log_file=x"})
	if want := []string{`C:\logs\a.log`, `C:\logs`, `C:\etc\csi-proxy.yaml`}; !slices.Equal(got, want) {
		t.Errorf("filePlaces = %q, want %q", got, want)
	}
}
