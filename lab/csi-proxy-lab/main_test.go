package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/lab/session"
)

func TestUsage(t *testing.T) {
	t.Setenv("CSI_PROXY_LAB_DIR", filepath.Join(t.TempDir(), "lab"))
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{nil, 2, "", "usage: csi-proxy-lab"},
		{[]string{"--help"}, 0, "csi-sanity", ""},
		{[]string{"nonsense"}, 2, "", `unknown command "nonsense"`},
		{[]string{"up", "--help"}, 0, "", "-plain"},
		{[]string{"up", "--", `-kubelet-path=D:\k`}, 1, "", "kubelet's files in"},
		{[]string{"run"}, 2, "", "DRIVER.exe"},
		{[]string{"sanity", "--nonsense"}, 2, "", "not defined"},
		{[]string{"run", "driver.exe"}, 1, "", "start one with: csi-proxy-lab up"},
		{[]string{"down"}, 1, "", "no lab runs"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), c.args, &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("run(%q) = %d, stdout %q, stderr %q, want %d, %q, %q", c.args, code, stdout.String(), stderr.String(), c.code, c.stdout, c.stderr)
		}
	}
}

// The errors of an interrupted call, and of one without an answer, say so: a lab runs.
func TestAsk(t *testing.T) {
	// Short, because of the socket.
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("CSI_PROXY_LAB_DIR", dir)
	l, err := net.Listen("unix", control())
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
	go accept()
	go func() { (<-accepted).Close() }()
	if err := up(t.Context(), &options{}); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("up where a lab does not answer = %v, want its error", err)
	}
	if _, err := os.Stat(control()); err != nil {
		t.Errorf("up has removed the socket of a lab that does not answer: %v", err)
	}
}

// The error of a lab that does not start is all that is shown of its log, unless it has crashed.
func TestReason(t *testing.T) {
	for log, want := range map[string]string{
		"": "", "csi-proxy-lab: no Wine\n": "no Wine", "a line\ncsi-proxy-lab: --node: bad\nand more\n": "--node: bad\nand more", "panic: x\n": "panic: x",
	} {
		if have := reason(log); have != want {
			t.Errorf("reason(%q) = %q, want %q", log, have, want)
		}
	}
}

// A shell reads a quoted word as it was.
func TestQuote(t *testing.T) {
	for _, word := range []string{"", "/tmp/lab", "two words", `it's "$HOME" \n`} {
		out, err := exec.Command("sh", "-c", "printf %s "+quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("the shell reads %s as %q, %v, want %q", quote(word), out, err, word)
		}
	}
}

// TestPage runs the commands of docs/drivers/lab.md, and measures each.
func TestPage(t *testing.T) {
	s, err := session.Open(t.Context(), session.Options{})
	if errors.Is(err, session.ErrNoWine) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "drivers", "lab.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for i, part := range strings.Split(string(page), "```") {
		if text, ok := strings.CutPrefix(part, "sh needs:Wine\n"); ok && i%2 == 1 {
			commands = append(commands, strings.Split(strings.TrimSpace(text), "\n")...)
		}
	}
	if len(commands) < 8 {
		t.Fatalf("the page has the commands %q, want at least 8", commands)
	}
	dir, err := os.MkdirTemp("", "lab") // short, because of the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	lab := filepath.Join(dir, "lab")
	inShell := func(ctx context.Context, command string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "bash", "-c", command)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CSI_PROXY_LAB_DIR="+lab)
		return cmd
	}
	shell := func(ctx context.Context, command string) (string, error) {
		out, err := inShell(ctx, command).CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() { _, _ = shell(context.Background(), "bin/csi-proxy-lab down") }) // if the test has failed
	for _, command := range commands {
		start := time.Now()
		out, err := shell(t.Context(), command)
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		t.Attr("measured", strings.TrimSpace(command)+": "+time.Since(start).Round(100*time.Millisecond).String())
		if strings.Contains(command, "csi-proxy-lab sanity") && !strings.Contains(out, " 0 failed, 0 skipped") {
			t.Errorf("csi-sanity: %s", out)
		}
	}
	gone := func() {
		t.Helper()
		if _, err := os.Stat(lab); !os.IsNotExist(err) {
			t.Errorf("the lab's directory is left: %v", err)
		}
	}
	gone()
	// Ctrl+C, while the lab starts.
	var out bytes.Buffer
	up := inShell(t.Context(), "exec bin/csi-proxy-lab up")
	up.Stdout, up.Stderr = &out, &out
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lab started", func() bool { _, err := os.Stat(filepath.Join(lab, "log")); return err == nil })
	if err := up.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := up.Wait(); err == nil || !strings.Contains(out.String(), "interrupted; the lab was not started") {
		t.Errorf("csi-proxy-lab up, interrupted: %v: %s", err, &out)
	}
	gone()
	for _, c := range []struct{ command, want string }{
		{"up", "The lab is up"},
		{"sanity --cloud example", "no driver runs"},
		{"run --cloud example bin/csi-driver.exe -no-such-flag", "csi-driver.exe ended with exit status 2"},
		{"sanity", "no driver runs"},
		{"run bin/csi-driver.exe -node-id=node-1", "serves CSI"},
		{"kill", ""},
		{"story", "no driver runs"},
		{"logs", "Serving CSI"},
		{"run bin/csi-driver.exe -node-id=node-1", "serves CSI"},
		{"run bin/cis-driver.exe", "no such file"},
		{"run bin/csi-proxy-lab", "not a Windows amd64 program"},
		{"story", "NodeUnstageVolume"},
		{"proxy stop", ""},
		{"story", "Unavailable"},
		{"proxy start", ""},
		{"story --before 'NodeExpandVolume=bin/csi-proxy-lab proxy kill; bin/csi-proxy-lab proxy start'", "DeleteVolume, again"},
		{"story --before NodeNoVolume=true", "no step"},
		{"story --before NodeStageVolume=false", "before NodeStageVolume: false: exit status 1"},
		{"run bin/csi-driver.exe -endpoint=tcp://ADDRESS -h", "csi-driver.exe ended"},
		{"run bin/csi-driver.exe -node-id=node-1", "serves CSI"},
		{"proxy up", "want stop, start, restart or kill"},
		{"sanity --parameter none", "want NAME=value"},
		{"sanity --secrets docs/none.txt", "no such file"},
		{"run --cloud example-smb bin/csi-driver.exe -node-id=node-1", "serves CSI"},
		{"story --secrets /dev/null", "NodeStageVolume: rpc error"},
		{"down", ""},
		{"up --node docs/drivers/lab.md", "--node "},
		{"up -- -v=4", "want one of those that say what csi-proxy serves"},
		{"up -- -read-only-api", "The lab is up"},
		{"run --cloud example bin/csi-driver.exe -node-id=node-1", "serves CSI"},
		{"story", "-read-only-api"},
		{"down", ""},
		{"up --beta", "The lab is up"},
		{"run --cloud gce $(go env GOPATH)/bin/windows_amd64/gce-pd-csi-driver.exe --run-controller-service=false", "serves CSI"},
		{"story", "DeleteVolume, again"},
		{"down", ""},
	} {
		if c.command == "kill" { // a driver listens before it logs that it serves
			eventually(t, "the driver logged that it serves", func() bool {
				out, _ := shell(t.Context(), "bin/csi-proxy-lab logs")
				return strings.Contains(out, "Serving CSI")
			})
		}
		if out, _ := shell(t.Context(), "bin/csi-proxy-lab "+c.command); !strings.Contains(out, c.want) {
			t.Errorf("csi-proxy-lab %s: %s, want %q", c.command, out, c.want)
		}
	}
	gone()
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	const limit = 2 * time.Minute
	for start := time.Now(); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatalf("%v passed before %s", limit, what)
		}
	}
}
