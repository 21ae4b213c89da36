// Package session runs Windows programs under Wine on Linux, several at a time: they
// have one C: drive, see each other's named pipes, and share the network of this machine.
//
//	s, err := session.Open(ctx, nil)
//	p, err := s.Start(session.Program{Path: "driver.exe", Args: []string{"--endpoint=tcp://127.0.0.1:10000"}})
//
// Wine 10 is in a directory that `hack/wine.sh build` of CSI Proxy makes once, as root, on
// Debian. A session changes nothing there: its writable layer is in memory, and lost at
// its end. Without root a session works where the kernel lets users make namespaces, and
// starts a few seconds later.
package session

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed wine.sh
var script []byte

// ErrNoWine is the error on a machine that has no Wine for sessions. Its text names
// what is missing.
var ErrNoWine = errors.New("no Wine")

// exitNoWine is the exit code of wine.sh for ErrNoWine.
const exitNoWine = 77

// programs is the directory of programs.
const programs = `C:\lab`

// Session is a running Wine. Its methods may be called concurrently.
type Session struct {
	log    io.Writer
	script string // path of a copy of wine.sh
	cmd    *exec.Cmd
	stdin  io.Closer
	ended  chan struct{} // closed when the session has ended
	init   int           // the session's first process
	user   bool          // in a user namespace
	root   string        // of Wine's system, in the mount namespace of init
	prefix string        // directory of Wine's state, below root
}

// start is how long Wine may take until programs can start; without root it makes a C:
// drive first.
const start = 2 * time.Minute

// The last output of a program that has ended. Wine's own processes may keep the pipe open,
// so that it has no end, and may write to it.
const (
	drainWait  = time.Second // of one read
	drainLimit = 3 * time.Second
)

// Open starts a session. The caller must call [Session.Close]; the session also ends with
// the calling process. log gets the messages of the session, unless it is nil. If this machine has
// no Wine, the error is [ErrNoWine].
func Open(ctx context.Context, log io.Writer) (_ *Session, err error) {
	if log == nil {
		log = io.Discard
	}
	s := &Session{log: log, ended: make(chan struct{}), user: os.Geteuid() != 0}
	if s.script, err = writeScript(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, start)
	defer cancel()
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Wine: %w", err), s.Close())
	}
	return s, nil
}

func writeScript() (string, error) {
	dir, err := os.MkdirTemp("", "csi-proxy-lab")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "wine.sh")
	return file, os.WriteFile(file, script, 0o755)
}

func (s *Session) open(ctx context.Context) error {
	var messages bytes.Buffer
	cmd := exec.Command("sh", s.script, "session")
	cmd.Stderr = io.MultiWriter(s.log, &messages)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.stdin = cmd, stdin
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(stdout).ReadString('\n')
		line <- text
		_ = cmd.Wait() // what it returns is in s.cmd.ProcessState
		close(s.ended)
	}()
	var text string
	select {
	case text = <-line:
	case <-ctx.Done():
		return ctx.Err()
	}
	var ok bool
	if s.root, s.prefix, ok = strings.Cut(strings.TrimSpace(text), " "); !ok {
		<-s.ended
		reason := strings.TrimPrefix(strings.TrimSpace(messages.String()), "wine: ")
		if cmd.ProcessState.ExitCode() == exitNoWine {
			return fmt.Errorf("%w: %s", ErrNoWine, reason)
		}
		return fmt.Errorf("%s: %s", cmd.ProcessState, reason)
	}
	if s.init, err = child(cmd.Process.Pid); err != nil {
		return err
	}
	return os.MkdirAll(s.OnLinux(programs), 0o755)
}

// child returns the child of a process that has one.
func child(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	number, _, _ := strings.Cut(string(text), " ")
	return strconv.Atoi(number)
}

// Close ends the session and all of its programs.
func (s *Session) Close() error {
	if s.cmd != nil {
		_ = s.stdin.Close()
		select {
		case <-s.ended:
		case <-time.After(time.Second):
			_ = s.cmd.Process.Kill() // the kernel ends the whole session with it
			<-s.ended
		}
	}
	return os.RemoveAll(filepath.Dir(s.script))
}

// OnLinux returns the path by which this process reaches a path of C:, while the session
// runs. Upper and lower case must be as Wine has it.
func (s *Session) OnLinux(windows string) string {
	return s.inNamespace(s.root + s.InWine(windows))
}

// InWine returns the path of a path of C: in Wine's own file system, to which symbolic
// links there must lead.
func (s *Session) InWine(windows string) string {
	below := strings.TrimPrefix(windows, windows[:min(2, len(windows))])
	return s.prefix + "/drive_c" + strings.TrimRight(strings.ReplaceAll(below, `\`, "/"), "/")
}

// inNamespace returns the path by which this process reaches one of the session's.
func (s *Session) inNamespace(path string) string {
	return fmt.Sprintf("/proc/%d/root%s", s.init, path)
}

// Host returns the path by which this process reaches a path of Wine's own file system.
func (s *Session) Host(path string) string { return s.inNamespace(s.root + path) }

// enter returns the command that runs args in the namespaces of the session.
func (s *Session) enter(args ...string) *exec.Cmd {
	flags := []string{"--target", strconv.Itoa(s.init), "--mount", "--pid"}
	if s.user {
		flags = append(flags, "--user", "--preserve-credentials")
	}
	// setpriv: a killed nsenter takes the program with it.
	return exec.Command("nsenter", append(append(flags, "--", "setpriv", "--pdeathsig", "KILL"), args...)...)
}

// Mount mounts a file system in memory with so many bytes at a directory of Wine's own
// file system, or changes the size of the one there.
func (s *Session) Mount(dir string, bytes int64, there bool) error {
	option := fmt.Sprintf("size=%d", max(bytes, 1))
	if there {
		option += ",remount"
	} else if err := os.MkdirAll(s.Host(dir), 0o755); err != nil {
		return err
	}
	out, err := s.enter("mount", "-t", "tmpfs", "-o", option, "tmpfs", s.root+dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount %s: %w: %s", dir, err, trimmed(out))
	}
	return nil
}

// Unmount removes what Mount mounted, and the directory.
func (s *Session) Unmount(dir string) error {
	out, err := s.enter("umount", "--lazy", s.root+dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("unmount %s: %w: %s", dir, err, trimmed(out))
	}
	return os.Remove(s.Host(dir))
}

// WriteFile writes a file of C:. Unlike a path by [Session.OnLinux], this one may lead through links.
func (s *Session) WriteFile(windows, content string) error {
	cmd := s.enter("chroot", s.root, "dd", "status=none", "of="+s.InWine(windows))
	cmd.Stdin = strings.NewReader(content)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("write %s: %w: %s", windows, err, trimmed(out))
	}
	return nil
}

// ReadFile reads a file of C: as WriteFile writes it. The error is fs.ErrNotExist if there is none.
func (s *Session) ReadFile(windows string) (string, error) {
	path := s.InWine(windows)
	if s.enter("chroot", s.root, "test", "-e", path).Run() != nil {
		return "", &fs.PathError{Op: "read", Path: windows, Err: fs.ErrNotExist}
	}
	out, err := s.enter("chroot", s.root, "cat", path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("read %s: %w: %s", windows, err, trimmed(out))
	}
	return string(out), nil
}

func trimmed(out []byte) string { return strings.TrimSpace(string(out)) }

// Program is a Windows program to run.
type Program struct {
	Path string // of the .exe on this machine
	Args []string
	Env  []string  // more variables of the environment, as "NAME=value"
	Log  io.Writer // gets its output; nil means that only [Process.Output] has it
}

// Process is a program that was started. Its methods may be called concurrently.
type Process struct {
	name   string
	cmd    *exec.Cmd
	output output
	ended  chan struct{}
}

// output is the output of a program.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	also io.Writer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	if o.also != nil {
		return o.also.Write(b)
	}
	return len(b), nil
}

// Start copies a program to the session and starts it, in a current directory on C:.
func (s *Session) Start(p Program) (*Process, error) {
	name := filepath.Base(p.Path)
	if err := s.copy(p.Path, name); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	dir := s.InWine(programs)
	args := []string{"chroot", s.root, "sh", "-c", `cd "$1" && shift && exec /usr/lib/wine/wine64 "$@"`, "sh", dir, dir + "/" + name}
	cmd := s.enter(append(args, p.Args...)...)
	// All users can read the arguments of a process, but not its environment.
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/lab", "XDG_RUNTIME_DIR=/tmp", "WINEPREFIX=" + s.prefix, "WINEDEBUG=-all"}, p.Env...)
	run := &Process{name: name, cmd: cmd, ended: make(chan struct{})}
	run.output.also = p.Log
	out, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close() // the program has its own
	if err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(&run.output, out) // until the end of the program
	}()
	go func() {
		defer close(run.ended)
		defer out.Close()
		_ = cmd.Wait() // what it returns is in cmd.ProcessState
		// Wine's own processes may have inherited the output, and do not end.
		_ = out.SetReadDeadline(time.Now())
		<-copied
		run.output.drain(out)
	}()
	return run, nil
}

// drain copies what a pipe still has. It is empty when a read waits for drainWait.
func (o *output) drain(pipe *os.File) {
	end := time.Now().Add(drainLimit)
	for b := make([]byte, 4<<10); time.Now().Before(end); {
		if pipe.SetReadDeadline(time.Now().Add(drainWait)) != nil {
			return
		}
		n, err := pipe.Read(b)
		_, _ = o.Write(b[:n])
		if err != nil {
			return
		}
	}
}

// copy copies a program to C:. A program that runs already is not written over.
func (s *Session) copy(from, name string) error {
	to := filepath.Join(s.OnLinux(programs), name)
	in, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if there, err := os.ReadFile(to); err == nil && bytes.Equal(there, in) {
		return nil
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(to, in, 0o755)
}

// Output returns what the program has written so far to standard output and error.
func (p *Process) Output() string {
	p.output.mu.Lock()
	defer p.output.mu.Unlock()
	return p.output.text.String()
}

// Ended is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits for the end of the program. An exit code other than 0 is an error, with the
// last lines of output.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.ended:
	case <-ctx.Done():
		return fmt.Errorf("%s runs: %w", p.name, ctx.Err())
	}
	if p.cmd.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("%s ended with %s; its last output:\n%s", p.name, p.cmd.ProcessState, last(p.Output(), 20))
}

func last(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Kill ends the program at once, as Windows does with TerminateProcess.
func (p *Process) Kill() {
	p.signal(os.Kill)
	select {
	case <-p.ended:
	case <-time.After(time.Second): // it has not been started yet
		_ = p.cmd.Process.Kill() // fails if it has ended
		<-p.ended
	}
}

// signal sends a signal to the program, which is the child of nsenter.
func (p *Process) signal(s os.Signal) {
	pid, err := child(p.cmd.Process.Pid)
	if err != nil {
		return // it has ended
	}
	if program, err := os.FindProcess(pid); err == nil {
		_ = program.Signal(s) // fails if it has ended
	}
}

// Stop ends the program as Ctrl+C does, and kills it if it still runs after limit.
func (p *Process) Stop(limit time.Duration) {
	p.signal(os.Interrupt)
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.Kill()
	}
}
