package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// asProgram makes this test's binary run as csi-proxy.
const asProgram = "CSI_PROXY_TEST_AS_CSI_PROXY"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program returns a command that runs csi-proxy with arguments.
func program(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	return c
}

func runProgram(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var stderr bytes.Buffer
	code := run(context.Background(), args, strings.NewReader(""), &stderr, &stderr)
	return stderr.String(), code
}

func TestOtherSystemsNeedCSIProxySim(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("csi-proxy serves on Windows: run it on Linux")
	}
	c := program()
	out, _ := c.CombinedOutput()
	lines := slices.DeleteFunc(strings.Split(string(out), "\n"), func(l string) bool { return !strings.HasPrefix(l, "csi-proxy: ") })
	if code := c.ProcessState.ExitCode(); code != 1 || len(lines) != 1 ||
		!strings.Contains(lines[0], "this program needs Windows") || !strings.Contains(lines[0], "use csi-proxy-sim") {
		t.Errorf("exit code %d and %q, want 1 and one line with csi-proxy-sim", code, lines)
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-h"}, 0, "-format-backend wmi"},
		{[]string{"-smb-backend=native", "--format-backend", "wmi", "-h"}, 0, "-smb-backend wmi"},
		{[]string{"-format-backend=powershell"}, 2, "want wmi or native"},
		{[]string{"-smb-backend="}, 2, "want wmi or native"},
		// csi-proxy does not have the flags of csi-proxy-sim.
		{[]string{"-state-dir=/x"}, 2, "flag provided but not defined: -state-dir"},
		{[]string{"-node-config=x.yaml"}, 2, "flag provided but not defined: -node-config"},
		{[]string{"-host=simulated"}, 2, "flag provided but not defined: -host"},
	} {
		output, code := runProgram(t, c.args...)
		usage := strings.Contains(output, "Usage of csi-proxy:")
		if code != c.code || !strings.Contains(output, c.want) || usage != (c.code == 0) {
			t.Errorf("csi-proxy %q: exit code %d, want %d and %q; the usage belongs to -h alone:\n%s", c.args, code, c.code, c.want, output)
		}
	}
}

func TestVersionAndVerbs(t *testing.T) {
	for _, c := range []struct {
		arg  string
		code int
		want string
	}{
		{"version", 0, version + "\n"},
		{"--version", 0, version + "\n"},
		{"-version", 0, version + "\n"},
		{"instal", 2, "csi-proxy: unknown verb \"instal\"; csi-proxy -h lists the verbs\n"},
		{"kubelet-path=C:\\k", 2, "unknown verb"},
	} {
		output, code := runProgram(t, c.arg)
		if code != c.code || !strings.Contains(output, c.want) {
			t.Errorf("csi-proxy %s: exit code %d and %q, want %d and %q", c.arg, code, output, c.code, c.want)
		}
	}
	output, _ := runProgram(t, "-h")
	for _, verb := range []string{"install", "upgrade", "status", "uninstall", "version"} {
		if !strings.Contains(output, "csi-proxy "+verb) {
			t.Errorf("the usage lacks the verb %s", verb)
		}
	}
}
