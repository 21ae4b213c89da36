package verify

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// containerPipe is the pipe that a container mounts, which needs its name before it starts.
const containerPipe = `\\.\pipe\csi-proxy-verify-container`

// talkLimit is how long either side waits for a line of the other.
const talkLimit = 5 * time.Second

// mostContainers is how many clients the host records.
const mostContainers = 20

// said is what a client in a container says of itself, in a line.
type said struct {
	ID     string // of the process
	User   string
	Owner  string // what the client finds about the owner of the pipe
	Waited bool   // the pipe was not there at first
}

// containerHost listens on the pipe with the rights of csi-proxy's, for some time. After the first
// client it makes the pipe again.
func containerHost(ctx context.Context, version string, args []string, stdout io.Writer) error {
	limit, err := waitArgument(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f, err := look()
	if err != nil {
		return err
	}
	r := newReport(version, options{}, f)
	r.Container = true
	add := func(name, answer string) {
		res := result{Section: containerSection, Name: name, Verdict: passed, Answer: answer}
		r.add(res)
		res.print(stdout)
	}
	if stop, err := readStop(os.Getenv("ProgramData") + `\` + stopFile); err == nil {
		add(askedStop, stop.answer())
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fmt.Fprintf(stdout, "Listening on %s for %s; Ctrl-C ends it sooner.\n", containerPipe, limit)
	seen := map[string]int{} // in which life of the pipe
	for life := 0; ctx.Err() == nil; life++ {
		err := listenOnce(ctx, life, func(c said, process string) (again bool) {
			name := askedAdministrator
			if c.User == "ContainerUser" {
				name = askedUser
			}
			owner := "trusted"
			if c.Owner != owner { // what a container says is not printed as it is
				owner = fmt.Sprintf("not trusted: %q", c.Owner)
			}
			first, known := seen[c.ID]
			switch {
			case !known && len(seen) < mostContainers:
				seen[c.ID] = life
				add(name, "connected, owner "+owner)
				add(askedProcess, process)
			case !known, first == life:
			case c.Waited:
				add(askedRestart, "reached after the start, and again after the restart")
			default:
				add(askedRestart, "again after the restart; it was not started before the pipe was made")
			}
			return life == 0
		})
		if err != nil {
			return err
		}
	}
	if len(r.Results) == 0 {
		return errors.New("no container connected: see the error that it printed")
	}
	return r.write("csi-proxy-verify-container")
}

// listenOnce serves the pipe until a client wants it to be made again, or the time is up.
func listenOnce(ctx context.Context, life int, client func(c said, process string) (again bool)) error {
	l, err := pipes.ListenAt(containerPipe)
	if err != nil {
		return err
	}
	conns := make(chan net.Conn)
	done := make(chan struct{})
	defer close(done)
	defer l.Close()
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case conns <- c:
			case <-done:
				c.Close()
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-conns:
			process := clientProcess(c)
			var s said
			c.SetDeadline(time.Now().Add(talkLimit))
			line, err := bufio.NewReader(io.LimitReader(c, 4096)).ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(line, &s)
			}
			again := err == nil && client(s, process)
			fmt.Fprintln(c, life)
			c.Close()
			if again {
				return nil
			}
		}
	}
}

// clientProcess says what Windows knows about the client of a connection.
func clientProcess(c net.Conn) string {
	pid, ok := pipes.ClientOf(c)
	if !ok {
		return "no process"
	}
	var session uint32
	sessionText := "no session"
	if err := windows.ProcessIdToSessionId(pid, &session); err == nil {
		sessionText = fmt.Sprintf("session %d", session)
	}
	return fmt.Sprintf("a process, %s, program %q, in the native form %q", sessionText, programOf(pid, 0), programOf(pid, 1))
}

// programOf returns the path of a process's program, with PROCESS_NAME_NATIVE in the native form.
func programOf(pid, form uint32) string {
	p, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return err.Error()
	}
	defer windows.CloseHandle(p)
	path := make([]uint16, windows.MAX_LONG_PATH)
	size := uint32(len(path))
	if err := windows.QueryFullProcessImageName(p, form, &path[0], &size); err != nil {
		return err.Error()
	}
	return windows.UTF16ToString(path)
}

// container connects to the pipe, and again when it was made again. It prints what happens,
// because a client that is not let in cannot say so.
func container(ctx context.Context, _ string, args []string, stdout io.Writer) error {
	limit, err := waitArgument(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s := said{ID: rand.Text(), User: os.Getenv("USERNAME")}
	fmt.Fprintf(stdout, "%s opens %s\n", s.User, containerPipe)
	for {
		s.Owner = "trusted"
		c, err := pipe.DialTrusted(ctx, containerPipe)
		var owner *pipe.OwnerError
		if errors.As(err, &owner) {
			s.Owner = err.Error()
			c, err = pipe.Dial(ctx, containerPipe)
		}
		switch {
		case err == nil:
			life, failed := s.tell(c)
			if failed != nil { // such as of an instance with which the pipe was made, and on which no server listens
				fmt.Fprintf(stdout, "connected, owner %s, but there is no answer: %v\n", s.Owner, failed)
				break
			}
			fmt.Fprintf(stdout, "connected, owner %s, after %d restarts of the pipe\n", s.Owner, life)
			if life > 0 {
				return nil
			}
		case errors.Is(err, windows.ERROR_ACCESS_DENIED):
			return fmt.Errorf("denied: %w", err)
		default:
			s.Waited = true
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("time is up"), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tell sends what the client says, and returns how often the pipe was made again before.
func (s *said) tell(c net.Conn) (life int, err error) {
	defer c.Close()
	line, err := json.Marshal(s)
	if err != nil {
		return 0, err
	}
	c.SetDeadline(time.Now().Add(talkLimit))
	if _, err := c.Write(append(line, '\n')); err != nil {
		return 0, err
	}
	_, err = fmt.Fscanln(c, &life)
	return life, err
}

// stopFile is where container-stop notes what it sees, in the directory of its argument.
const stopFile = "csi-proxy-verify-stop.json"

// stopped is what container-stop notes.
type stopped struct {
	Signal time.Time // zero if it heard of none
	Alive  time.Time
}

func (s stopped) answer() string {
	if s.Signal.IsZero() {
		return "it heard no signal; compare its last sign of life with the time of the deletion: " + s.Alive.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("it lived for %s after a signal", s.Alive.Sub(s.Signal).Round(100*time.Millisecond))
}

func readStop(file string) (s stopped, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

// containerStop notes every 100 ms that it is alive, for at most an hour, whatever it hears.
func containerStop(ctx context.Context, _ string, args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("it needs the directory of its file")
	}
	file := args[0] + `\` + stopFile
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var s stopped
	fmt.Fprintf(stdout, "Writing %s every 100 ms\n", file)
	end := time.After(time.Hour)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return nil
		case <-signals:
			if s.Signal.IsZero() {
				s.Signal = time.Now()
			}
		case <-tick.C:
		}
		s.Alive = time.Now()
		text, err := json.Marshal(s)
		if err == nil {
			err = os.WriteFile(file+".new", text, 0o644)
		}
		if err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			return err
		}
	}
}
