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

// ask lets Windows' own management answer: a PowerShell expression, whose result
// is decoded from JSON into out. Nothing that ships does this; here PowerShell is
// the judge, because it is what administrators and the published proxy believe.
// It may be asked in cleanups, too.
func ask(t *testing.T, out any, format string, args ...any) {
	t.Helper()
	tell(t, out, fmt.Sprintf(format, args...)+" | ConvertTo-Json -Compress -Depth 4")
}

// askList asks for what each of some objects, $_, is in JSON. The list is put together
// here: Windows PowerShell makes of a piped list of one no list, and of a list that
// is piped as a whole at times {"value":[…],"Count":1}.
func askList(t *testing.T, out any, objects, each string) {
	t.Helper()
	tell(t, out, listScript(objects, each))
}

func listScript(objects, each string) string {
	return fmt.Sprintf("'[' + (@(%s | ForEach-Object { ConvertTo-Json -Compress -InputObject %s }) -join ',') + ']'", objects, each)
}

// tell decodes the JSON that a script writes.
func tell(t *testing.T, out any, script string) {
	t.Helper()
	// Not the context of the test, which has ended when its cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "powershell.exe", "-NoProfile", "-NonInteractive", "-Command", "$ErrorActionPreference='Stop'; "+script)
	cmd.Env = judgeEnvironment(os.Environ())
	cmd.WaitDelay = time.Second
	text, err := cmd.Output()
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

// judgeEnvironment is an environment for Windows PowerShell: without the module path
// of a PowerShell 7 that may have started the tests, whose modules it would load and
// could not (https://github.com/PowerShell/PowerShell/issues/18108). It makes its own.
func judgeEnvironment(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.EqualFold(name, "PSModulePath")
	})
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
	askList(t, &disks, "Get-Disk", `@{Number=$_.Number; SerialNumber="$($_.SerialNumber)"; Location="$($_.Location)"; Path="$($_.Path)"; Size=$_.Size; BusType="$($_.BusType)"}`)
	if len(disks) == 0 {
		t.Fatal("Get-Disk lists no disk")
	}
	return disks
}

// A cleanup asks after the context of its test has ended, and PowerShell 7 may have
// started the tests.
func TestJudge(t *testing.T) {
	env := judgeEnvironment([]string{"Path=x", `psmodulepath=C:\Program Files\PowerShell\7\Modules`, "PSModulePathX=y"})
	if want := []string{"Path=x", "PSModulePathX=y"}; !slices.Equal(env, want) {
		t.Errorf("the judge's environment is %q, want %q", env, want)
	}
	if _, err := exec.LookPath("powershell.exe"); err != nil || underWine() {
		t.Skip("there is no Windows PowerShell here; any Windows runs the rest")
	}
	for _, numbers := range []string{"", "1", "1, 2"} {
		t.Cleanup(func() {
			var got []struct{ N int }
			askList(t, &got, "@("+numbers+")", "@{N=$_}")
			if want := len(strings.FieldsFunc(numbers, func(r rune) bool { return r == ',' })); len(got) != want {
				t.Errorf("of %d objects PowerShell makes %+v", want, got)
			}
		})
	}
}
