package main

import (
	"io"
	"runtime"
	"strings"
	"testing"
)

// As the format helper, the program does not serve, and it waits for a command before it
// formats.
func TestFormatHelper(t *testing.T) {
	run := func(stdin string, args ...string) (string, int) {
		c := program(append([]string{"format-helper"}, args...)...)
		if stdin == "" {
			out, _ := c.Output()
			return string(out), c.ProcessState.ExitCode()
		}
		// The end of its input means that its parent has ended, so keep it open.
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if _, err := io.WriteString(in, stdin); err != nil {
			t.Fatal(err)
		}
		out, _ := c.Output()
		return string(out), c.ProcessState.ExitCode()
	}
	const hello = "csi-proxy format-helper 1\n"
	good := []string{`-volume=\\?\Volume{00000000-1111-2222-3333-444444444444}\`}
	if out, code := run("", good...); out != hello || code != 3 {
		t.Errorf("without a parent: exit code %d and %q, want 3 and only %q", code, out, hello)
	}
	if out, code := run("go\n", "-volume=C:"); !strings.HasPrefix(out, hello+"refused ") || code != 2 {
		t.Errorf("with C: exit code %d and %q, want 2 and a refusal", code, out)
	}
	if runtime.GOOS == "windows" {
		return // the rest needs a system without fmifs.dll
	}
	if out, code := run("go\n", good...); !strings.HasPrefix(out, hello+"missing ") || code != 1 {
		t.Errorf("without Windows: exit code %d and %q, want 1 and that fmifs.dll is missing", code, out)
	}
}
