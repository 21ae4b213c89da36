package windows

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// query runs a PowerShell expression and decodes its result from JSON into out.
// Nothing that ships does this. Here PowerShell is the reference, because
// administrators and the published proxy rely on it. It may be called in cleanups
// too.
func query(t *testing.T, out any, format string, args ...any) {
	t.Helper()
	run(t, out, fmt.Sprintf(format, args...)+" | ConvertTo-Json -Compress -Depth 4")
}

// queryList returns the JSON of an expression for each of some objects, $_. The
// list is put together here, because Windows PowerShell turns a piped list with
// one element into the element, and sometimes a list that is piped as a whole
// into {"value":[…],"Count":1}.
func queryList(t *testing.T, out any, objects, each string) {
	t.Helper()
	run(t, out, listScript(objects, each))
}

func listScript(objects, each string) string {
	return fmt.Sprintf("'[' + (@(%s | ForEach-Object { ConvertTo-Json -Compress -InputObject %s }) -join ',') + ']'", objects, each)
}

// run decodes the JSON output of a script.
func run(t *testing.T, out any, script string) {
	t.Helper()
	// Not the context of the test, which has ended when cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "powershell.exe", "-NoProfile", "-NonInteractive", "-Command", "$ErrorActionPreference='Stop'; "+script)
	cmd.Env = powershellEnvironment(os.Environ())
	cmd.WaitDelay = time.Second
	text, err := cmd.Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("%s: %v", script, err)
	}
	if strings.TrimSpace(string(text)) == "" {
		t.Fatalf("%s: no output", script)
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%s: %v in %s", script, err, text)
	}
}

// powershellEnvironment returns an environment for Windows PowerShell: without the
// module path of a PowerShell 7 that may have started the tests, whose modules
// Windows PowerShell would try and fail to load
// (https://github.com/PowerShell/PowerShell/issues/18108). It sets its own.
func powershellEnvironment(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.EqualFold(name, "PSModulePath")
	})
}

// psDisk is a disk in the output of Get-Disk.
type psDisk struct {
	Number       uint32
	SerialNumber string
	Location     string
	Path         string
	Size         uint64
	BusType      string
}

func psDisks(t *testing.T) []psDisk {
	t.Helper()
	var disks []psDisk
	queryList(t, &disks, "Get-Disk", `@{Number=$_.Number; SerialNumber="$($_.SerialNumber)"; Location="$($_.Location)"; Path="$($_.Path)"; Size=$_.Size; BusType="$($_.BusType)"}`)
	if len(disks) == 0 {
		t.Fatal("Get-Disk lists no disks")
	}
	return disks
}

// PowerShell also runs in cleanups, after the context of the test has ended, and
// in tests that PowerShell 7 has started.
func TestPowerShell(t *testing.T) {
	env := powershellEnvironment([]string{"Path=x", `psmodulepath=C:\Program Files\PowerShell\7\Modules`, "PSModulePathX=y"})
	if want := []string{"Path=x", "PSModulePathX=y"}; !slices.Equal(env, want) {
		t.Errorf("powershellEnvironment = %q, want %q", env, want)
	}
	if _, err := exec.LookPath("powershell.exe"); err != nil || underWine() {
		t.Skip("needs Windows PowerShell, for which any Windows will do")
	}
	for _, numbers := range []string{"", "1", "1, 2"} {
		t.Cleanup(func() {
			var got []struct{ N int }
			queryList(t, &got, "@("+numbers+")", "@{N=$_}")
			if want := len(strings.FieldsFunc(numbers, func(r rune) bool { return r == ',' })); len(got) != want {
				t.Errorf("for %d objects PowerShell returns %+v", want, got)
			}
		})
	}
}
