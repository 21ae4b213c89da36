package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/lab/session"
	"github.com/kubernetes-csi/csi-proxy/lab/shim"
)

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, "azurefile"},
		{nil, 2, "usage: csi-proxy-lab --cloud"},
		{[]string{"driver.exe"}, 2, "usage: csi-proxy-lab --cloud"},
		{[]string{"--nonsense"}, 2, "not defined"},
		{[]string{"--cloud", "ibm", "driver.exe"}, 1, `unknown cloud "ibm"`},
		{[]string{"--cloud", "ebs", "--parameter", "none", "driver.exe"}, 1, "want NAME=value"},
		{[]string{"--cloud", "ebs", "--secrets", "none.txt", "driver.exe"}, 1, "no such file"},
		{[]string{"--cloud", "ebs", "--file", `C:\k\config=none.txt`, "driver.exe"}, 1, "no such file"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), c.args, nil, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("run(%q) = %d, %q, want %d, %q", c.args, code, &out, c.code, c.want)
		}
	}
}

// shell runs commands in the directory of the project, and returns their output.
func shell(t *testing.T, commands string) (out string, err error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "bash", "-ec", commands)
	c.Dir, c.Env = filepath.Join("..", ".."), append(os.Environ(), "TMPDIR="+temporary(t))
	text, err := c.CombinedOutput()
	return string(text), err
}

// temporary returns a directory with a short name, because of the sockets.
func temporary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestPage runs the commands of docs/drivers/lab.md, and then what the page does not show.
func TestPage(t *testing.T) {
	s, err := session.Open(t.Context(), nil)
	if errors.Is(err, session.ErrNoWine) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(shim.Install(t.Context(), s), s.Close()); errors.Is(err, shim.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "drivers", "lab.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands string
	for i, part := range strings.Split(string(page), "```") {
		if text, ok := strings.CutPrefix(part, "sh needs:Wine\n"); ok && i%2 == 1 {
			commands += text
		}
	}
	if exe := os.Getenv("CSI_PROXY_GCEPD_BINARY"); exe != "" { // what the page's command has made
		info, err := buildinfo.ReadFile(exe)
		if err != nil {
			t.Fatal(err)
		}
		install := regexp.MustCompile(`(?m)^.* go install .*/gce-pd-csi-driver@` + regexp.QuoteMeta(info.Main.Version) + `$`)
		if !install.MatchString(commands) {
			t.Errorf("the page does not install GCE PD %s, of which %s is", info.Main.Version, exe)
		}
		commands = install.ReplaceAllString(commands, "")
	}
	out, err := shell(t, commands)
	if err != nil || strings.Count(out, " 0 failed, 0 skipped") != 2 || strings.Count(out, "DeleteVolume, again") != 3 {
		t.Fatalf("%v, want csi-sanity twice and three stories without a failure, got\n%s", err, out)
	}

	for _, c := range []struct{ command, want string }{
		{"--cloud example bin/csi-driver.exe -no-such-flag", "csi-driver.exe ended with exit status 2"},
		{"--cloud example bin/csi-driver.exe -endpoint=tcp://ADDRESS -h", "csi-driver.exe ended"},
		{"--cloud example bin/cis-driver.exe", "no such file"},
		{"--cloud example bin/csi-proxy-lab", "not a Windows amd64 program"},
		{"--cloud example-smb --sanity=false --secrets /dev/null bin/csi-driver.exe -node-id=node-1", "The state of the node is at the end of "},
	} {
		if out, err := shell(t, "bin/csi-proxy-lab "+c.command); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("csi-proxy-lab %s: %v: %s, want %q", c.command, err, out, c.want)
		}
	}
	const beta = "bin/csi-proxy-lab --beta --cloud gce --sanity=false $(go env GOPATH)/bin/windows_amd64/gce-pd-csi-driver.exe --run-controller-service=false"
	if out, err := shell(t, beta); err != nil || !strings.Contains(out, "DeleteVolume, again") {
		t.Errorf("with the beta versions: %v: %s", err, out)
	}

	// Ctrl+C, while the lab starts.
	dir := temporary(t)
	up, text := exec.Command("bin/csi-proxy-lab", "--cloud", "example", "bin/csi-driver.exe"), new(bytes.Buffer)
	up.Dir, up.Env = filepath.Join("..", ".."), append(os.Environ(), "TMPDIR="+dir)
	up.Stdout, up.Stderr = text, text
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if logs, err := filepath.Glob(filepath.Join(dir, "*.log")); err != nil || len(logs) > 0 {
			break
		}
	}
	if err := up.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := up.Wait(); err == nil || !strings.Contains(text.String(), "csi-proxy-lab: interrupted") {
		t.Errorf("csi-proxy-lab, interrupted: %v: %s", err, text)
	}
}
