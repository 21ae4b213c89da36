package programs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is a running program.
type Process struct {
	Name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // of a process that is done
}

// Start starts a program that ends with this process at the latest. Its output is appended to
// a file in dir.
func Start(dir, name string, env []string, exe string, args ...string) (*Process, error) {
	return StartIn("", dir, name, env, exe, args...)
}

// StartIn is Start for a program that runs in a directory, at.
func StartIn(at, dir, name string, env []string, exe string, args ...string) (*Process, error) {
	p := &Process{Name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(exe, args...)
	p.cmd.Dir = at
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// PID returns the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process at once, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended
	<-p.done
}

// Stop asks the process to end, and kills it if that takes too long.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(30 * time.Second):
		p.Kill()
		return fmt.Errorf("%s did not end in 30 s after SIGTERM; its output is in %s", p.Name, p.log)
	}
}

// End returns the last lines of what the process has printed.
func (p *Process) End() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}
