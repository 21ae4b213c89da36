package session_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/lab/session"
)

func open(t *testing.T) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), t.Output())
	if errors.Is(err, session.ErrNoWine) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// build builds the program of these tests for Windows.
func build(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "program.exe")
	cmd := exec.Command("go", "build", "-o", exe, "./testdata/program")
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return exe
}

// Several programs run at a time, in one Wine.
func TestSession(t *testing.T) {
	s, exe := open(t), build(t)
	start := func(args ...string) *session.Process {
		p, err := s.Start(session.Program{Path: exe, Args: args, Env: []string{"LAB_TEST=value"}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	wait := func(p *session.Process) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return p.Wait(ctx)
	}

	long, killed := start("wait"), start("wait")
	for _, p := range []*session.Process{long, killed} {
		for deadline := time.Now().Add(time.Minute); !strings.Contains(p.Output(), "waiting"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the program does not start; its output is %q", p.Output())
			}
		}
	}
	// Other users can read the arguments of all processes.
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var programs int
	for _, file := range lines {
		line, _ := os.ReadFile(file) // fails if the process has ended
		if bytes.Contains(line, []byte("LAB_TEST")) {
			t.Errorf("%s shows the environment of a program: %q", file, line)
		}
		if bytes.Contains(line, []byte("program.exe")) {
			programs++
		}
	}
	if programs < 2 {
		t.Errorf("%d processes have the name of the program in their arguments, want at least 2", programs)
	}
	short := start("hello", "two words", `back\slash "quote"`)
	if err := wait(short); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`dir C:\lab`, `args [hello two words back\slash "quote"]`, "env value"} {
		if !strings.Contains(short.Output(), want) {
			t.Errorf("output is %q, want %q in it", short.Output(), want)
		}
	}
	if err := wait(start("fail")); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("a program that fails: %v, want its exit code and output", err)
	}
	if err := wait(start("write", `C:\lab\file`)); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(s.OnLinux(`C:\lab\file`)); err != nil || string(got) != "content" {
		t.Errorf("on this side the file has %q, %v, want what the program wrote", got, err)
	}

	killed.Kill()
	if out := killed.Output(); strings.Contains(out, "interrupted") {
		t.Errorf("a killed program was interrupted: %q", out)
	}
	long.Stop(time.Minute)
	if err := wait(long); err != nil || !strings.Contains(long.Output(), "interrupted") {
		t.Errorf("stop: %v, output %q, want an interrupt", err, long.Output())
	}
}

// slow is a writer whose first write takes three seconds, as on a machine with much other work.
type slow struct{ once sync.Once }

func (s *slow) Write(b []byte) (int, error) {
	s.once.Do(func() { time.Sleep(3 * time.Second) })
	return len(b), nil
}

// Nothing that a program has written is lost when it ends.
func TestLastOutput(t *testing.T) {
	s := open(t)
	p, err := s.Start(session.Program{Path: build(t), Args: []string{"later"}, Log: &slow{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if out := p.Output(); !strings.Contains(out, "the end") {
		t.Errorf("output is %q, without its end", out)
	}
}

// Two sessions do not meet, and nothing of a session is left.
func TestSessionsAreSeparate(t *testing.T) {
	a, b := open(t), open(t)
	if err := os.WriteFile(a.OnLinux(`C:\lab\file`), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.OnLinux(`C:\lab\file`)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the other session has the file, too: %v", err)
	}
	p, err := a.Start(session.Program{Path: build(t), Args: []string{"wait"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-p.Ended():
	case <-time.After(time.Minute):
		t.Error("a program has survived its session")
	}
}

func TestNoWine(t *testing.T) {
	t.Setenv("CSI_PROXY_WINE_DIR", t.TempDir())
	s, err := session.Open(t.Context(), nil)
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, session.ErrNoWine) || !strings.Contains(err.Error(), "hack/wine.sh build") {
		t.Errorf("without Wine: %v, want ErrNoWine and the remedy", err)
	}
}
