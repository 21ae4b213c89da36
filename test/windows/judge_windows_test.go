package windows

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// ask lets Windows' own management answer: a PowerShell expression, whose result
// is decoded from JSON into out. Nothing that ships does this; here PowerShell is
// the judge, because it is what administrators and the published proxy believe.
func ask(t *testing.T, out any, format string, args ...any) {
	t.Helper()
	script := fmt.Sprintf(format, args...)
	text, err := exec.CommandContext(t.Context(), "powershell.exe", "-NoProfile", "-NonInteractive", "-Command",
		"$ErrorActionPreference='Stop'; "+script+" | ConvertTo-Json -Compress -Depth 4").Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("%s: %v", script, err)
	}
	if strings.TrimSpace(string(text)) == "" {
		t.Fatalf("%s: it answered nothing", script)
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%s: %v in %s", script, err, text)
	}
}

// diskAsTold is what Get-Disk tells of a disk.
type diskAsTold struct {
	Number       uint32
	SerialNumber string
	Location     string
	Path         string
	Size         uint64
	BusType      string
}

func disksAsTold(t *testing.T) []diskAsTold {
	t.Helper()
	var disks []diskAsTold
	// @(…) and the comma keep one disk a list.
	ask(t, &disks, `,@(Get-Disk | ForEach-Object { @{Number=$_.Number; SerialNumber="$($_.SerialNumber)"; Location="$($_.Location)"; Path="$($_.Path)"; Size=$_.Size; BusType="$($_.BusType)"} })`)
	if len(disks) == 0 {
		t.Fatal("Get-Disk lists no disk")
	}
	return disks
}
