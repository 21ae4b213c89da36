package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/lab/session"
)

func TestUsage(t *testing.T) {
	t.Setenv(variable, "")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, "csi-sanity"},
		{[]string{"--help"}, 0, "-node file"},
		{[]string{"nonsense"}, 2, `unknown command "nonsense"`},
		{[]string{"--", `-kubelet-path=D:\k`}, 1, "kubelet's files in"},
		{[]string{"--node", "none.yaml"}, 1, "--node none.yaml: "},
		{[]string{"run"}, 2, "DRIVER.exe"},
		{[]string{"run", "--help"}, 0, "-cloud"},
		{[]string{"sanity", "--nonsense"}, 2, "not defined"},
		{[]string{"run", "driver.exe"}, 1, "no lab runs in this shell"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), c.args, nil, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("run(%q) = %d, %q, want %d, %q", c.args, code, &out, c.code, c.want)
		}
	}
}

// The errors of an interrupted call, and of one without an answer, say so.
func TestAsk(t *testing.T) {
	dir, err := os.MkdirTemp("", "lab") // short, because of the socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv(variable, dir)
	l, err := net.Listen("unix", control(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	accept := func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go accept()
	go func() {
		c := <-accepted
		cancel()
		<-t.Context().Done()
		c.Close()
	}()
	if _, err := ask(ctx, "run", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted call = %v, want %v", err, context.Canceled)
	}
	go accept()
	go func() { (<-accepted).Close() }()
	if _, err := ask(t.Context(), "run", nil); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a call without an answer = %v", err)
	}
}

// shell is the program with commands for its shell, in the directory of the project. The directory
// for temporary files is returned, too.
func shell(t *testing.T, commands string, args ...string) (lab *exec.Cmd, out *bytes.Buffer, temporary string) {
	t.Helper()
	temporary, err := os.MkdirTemp("", "") // short, because of the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temporary) })
	lab, out = exec.CommandContext(t.Context(), "bin/csi-proxy-lab", args...), new(bytes.Buffer)
	lab.Dir, lab.Env = filepath.Join("..", ".."), append(os.Environ(), "SHELL=/bin/bash", "TMPDIR="+temporary)
	lab.Stdin, lab.Stdout, lab.Stderr = strings.NewReader(commands), out, out
	return lab, out, temporary
}

// gone checks that nothing of a lab is left.
func gone(t *testing.T, temporary string) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(temporary, "lab*")); err != nil || len(left) > 0 {
		t.Errorf("files of the lab are left: %q, %v", left, err)
	}
}

// in runs commands in a lab's shell, and returns the output.
func in(t *testing.T, commands string, args ...string) string {
	t.Helper()
	lab, out, temporary := shell(t, commands, args...)
	if err := lab.Run(); err != nil {
		t.Errorf("csi-proxy-lab %q: %v\n%s", args, err, out)
	}
	gone(t, temporary)
	return out.String()
}

// TestPage runs the commands of docs/drivers/lab.md: those of the first block build the programs and
// start the lab, and the others are of its shell. Then it runs what the page does not show.
func TestPage(t *testing.T) {
	s, err := session.Open(t.Context(), nil)
	if errors.Is(err, session.ErrNoWine) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "drivers", "lab.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(page), "```") {
		if text, ok := strings.CutPrefix(part, "sh needs:Wine\n"); ok && i%2 == 1 {
			blocks = append(blocks, text)
		}
	}
	if len(blocks) < 4 {
		t.Fatalf("the page has the commands %q, want at least four blocks", blocks)
	}
	build, ok := strings.CutSuffix(blocks[0], "bin/csi-proxy-lab\n")
	if !ok {
		t.Fatalf("the first commands are %q, want the start of the lab as the last", blocks[0])
	}
	first := exec.CommandContext(t.Context(), "bash", "-ec", build)
	first.Dir = filepath.Join("..", "..")
	if out, err := first.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	if out := in(t, "set -e\n"+strings.Join(blocks[1:], "")); strings.Count(out, " 0 failed, 0 skipped") != 3 {
		t.Errorf("want three times csi-sanity without a failure, got\n%s", out)
	}

	// Ctrl+C, while the lab starts.
	up, out, temporary := shell(t, "")
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if logs, err := filepath.Glob(filepath.Join(temporary, "lab*", "log")); err != nil || len(logs) > 0 {
			break
		}
	}
	if err := up.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := up.Wait(); err == nil || !strings.Contains(out.String(), "csi-proxy-lab: interrupted") {
		t.Errorf("csi-proxy-lab, interrupted: %v: %s", err, out)
	}
	gone(t, temporary)

	// The exit code of the shell is that of the program.
	end, out, _ := shell(t, "csi-proxyctl versions >/dev/null && exit 3")
	if err := end.Run(); end.ProcessState.ExitCode() != 3 {
		t.Errorf("a shell that exits with 3: %v: %s", err, out)
	}

	each(t, nil, []inShell{
		{"sanity --cloud example", "no driver runs"},
		{"run --cloud example bin/csi-driver.exe -no-such-flag", "csi-driver.exe ended with exit status 2"},
		{"sanity", "no driver runs"},
		{"run bin/csi-driver.exe -node-id=node-1", "serves CSI"},
		{"logs; until csi-proxy-lab logs | grep 'Serving CSI'; do sleep 0.1; done", "Serving CSI"}, // it listens before it says so
		{"kill", ""},
		{"story", "no driver runs"},
		{"run bin/csi-driver.exe -node-id=node-1", "serves CSI"},
		{"run bin/cis-driver.exe", "no such file"},
		{"run bin/csi-proxy-lab", "not a Windows amd64 program"},
		{"story", "NodeUnstageVolume"},
		{"proxy stop", ""},
		{"story", "Unavailable"},
		{"proxy start", ""},
		{"story --before 'NodeExpandVolume=csi-proxy-lab proxy kill; csi-proxy-lab proxy start'", "DeleteVolume, again"},
		{"story --before NodeNoVolume=true", "no step"},
		{"story --before NodeStageVolume=false", "before NodeStageVolume: false: exit status 1"},
		{"run bin/csi-driver.exe -endpoint=tcp://ADDRESS -h", "csi-driver.exe ended"},
		{"run bin/csi-driver.exe -node-id=node-1", "serves CSI"},
		{"proxy up", "want stop, start, restart or kill"},
		{"sanity --parameter none", "want NAME=value"},
		{"sanity --secrets docs/none.txt", "no such file"},
		{"run --cloud example-smb bin/csi-driver.exe -node-id=node-1", "serves CSI"},
		{"story --secrets /dev/null", "NodeStageVolume: rpc error"},
	})
	each(t, []string{"--", "-read-only-api"}, []inShell{
		{"run --cloud example bin/csi-driver.exe -node-id=node-1", "serves CSI"},
		{"story", "-read-only-api"},
	})
	each(t, []string{"--beta"}, []inShell{
		{"run --cloud gce $(go env GOPATH)/bin/windows_amd64/gce-pd-csi-driver.exe --run-controller-service=false", "serves CSI"},
		{"story", "DeleteVolume, again"},
	})
	wrong, out, _ := shell(t, "", "--", "-v=4")
	if err := wrong.Run(); err == nil || !strings.Contains(out.String(), "want one of those that say what csi-proxy serves") {
		t.Errorf("csi-proxy-lab -- -v=4: %v: %s", err, out)
	}
}

// inShell is a command of a lab's shell, and a part of its output.
type inShell struct{ command, want string }

// each runs commands in one lab.
func each(t *testing.T, args []string, all []inShell) {
	t.Helper()
	script := ""
	for _, c := range all {
		script += "csi-proxy-lab " + c.command + "; echo '== end'\n"
	}
	outs := regexp.MustCompile(`(?m)^== end\n`).Split(in(t, script, args...), -1)
	if len(outs) != len(all)+1 {
		t.Fatalf("%d commands have %d outputs: %q", len(all), len(outs)-1, outs)
	}
	for i, c := range all {
		if !strings.Contains(outs[i], c.want) {
			t.Errorf("csi-proxy-lab %s: %s, want %q", c.command, outs[i], c.want)
		}
	}
}
