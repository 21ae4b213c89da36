package fmifs

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// Helper formats volumes in children of this process. It may be used by several
// goroutines at once; each format has a child of its own.
type Helper struct {
	// Executable is a program that calls [Main] when its first argument is
	// [Command]: the path of csi-proxy.exe, for which only csi-proxy.exe itself
	// can vouch. Without one there are no formats this way.
	Executable string
	// Patience is how long a format may be silent before it is ended; 0 means
	// half an hour.
	Patience time.Duration
}

// errSilent ends a helper that says nothing any more.
var errSilent = errors.New("it was silent")

// Format makes a file system on vol, and returns when the helper has ended. It
// answers [backend.ErrUnavailable] where there is no helper, or no FormatEx2.
// Every other error wraps a number of Windows.
func (h Helper) Format(vol string, o win32.FormatOptions) error {
	if err := Check(vol, o); err != nil {
		return err
	}
	if h.Executable == "" {
		return fmt.Errorf("fmifs.dll is used in a child process of csi-proxy.exe only, and this is another program: %w", backend.ErrUnavailable)
	}
	patience := h.Patience
	if patience == 0 {
		patience = 30 * time.Minute
	}
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	c := exec.CommandContext(ctx, h.Executable, arguments(vol, o)...)
	c.WaitDelay = time.Second // nobody but the child has its pipes
	var stderr tail
	c.Stderr = &stderr
	alone(c)
	stdin, err := c.StdinPipe()
	if err != nil {
		return fmt.Errorf("start the format helper: %w: %v", win32.ERROR_NO_SYSTEM_RESOURCES, err)
	}
	stdout, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		stdin.Close()
		return fmt.Errorf("start the format helper: %w: %v", win32.ERROR_GEN_FAILURE, err)
	}
	said := &answer{}
	silence := time.AfterFunc(patience, func() { end(errSilent) })
	err = func() error {
		leave, err := confine(c.Process.Pid)
		if err != nil {
			return fmt.Errorf("bind the format helper to this process: %w", err)
		}
		defer leave()
		return said.listen(stdout, stdin, func() { silence.Reset(patience) })
	}()
	if err != nil {
		end(err)
	}
	exit := c.Wait()
	silence.Stop()
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return fmt.Errorf("the format helper said nothing for %s and was ended: %w", patience, win32.ERROR_TIMEOUT)
	}
	if err != nil {
		return err
	}
	return said.result(exit, stderr.last())
}

// answer is what a helper said.
type answer struct {
	greeted, returned bool
	missing, refused  string
	events            events
}

// listen hears a helper to its end, and tells it to begin. heard is called at
// every line.
func (a *answer) listen(from io.Reader, to io.Writer, heard func()) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<18) // the longest packet in hex, and more
	for lines.Scan() {
		heard()
		if err := a.line(lines.Text()); err != nil {
			return err
		}
		if a.greeted && lines.Text() == hello {
			// If it has ended, its exit code tells more.
			_, _ = io.WriteString(to, begin+"\n")
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("listen to the format helper: %w: %v", win32.ERROR_GEN_FAILURE, err)
	}
	return nil
}

// line hears one line.
func (a *answer) line(s string) error {
	word, rest, _ := strings.Cut(strings.TrimRight(s, "\r"), " ")
	switch {
	case !a.greeted:
		if s != hello {
			return fmt.Errorf("the format helper is of another version: it began with %q, not %q: %w", s, hello, win32.ERROR_GEN_FAILURE)
		}
		a.greeted = true
		return nil
	case word == event:
		number, packet, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(number, 10, 32)
		if err == nil {
			var data []byte
			if data, err = hex.DecodeString(packet); err == nil {
				a.events.add(uint32(n), data)
				return nil
			}
		}
	case word == missing:
		a.missing = rest
		return nil
	case word == refused:
		a.refused = rest
		return nil
	case s == returned:
		a.returned = true
		return nil
	}
	return fmt.Errorf("the format helper said %q: %w", s, win32.ERROR_GEN_FAILURE)
}

// result is what it comes to; exit is how the helper ended, stderr what it said
// last there.
func (a *answer) result(exit error, stderr string) error {
	switch {
	case a.missing != "":
		return fmt.Errorf("the format helper: %s: %w", a.missing, backend.ErrUnavailable)
	case a.refused != "":
		return fmt.Errorf("the format helper refused: %s: %w", a.refused, win32.ERROR_INVALID_PARAMETER)
	case !a.returned || exit != nil:
		err := fmt.Errorf("the format helper ended before FormatEx2 of fmifs.dll returned (%v): %w", exit, win32.ERROR_PROCESS_ABORTED)
		if a.events.failure != nil {
			err = fmt.Errorf("%w; then %w", a.events.failure, err)
		}
		if stderr != "" {
			err = fmt.Errorf("%w; it said %q", err, stderr)
		}
		return err
	}
	return a.events.result()
}

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const most = 4096
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-most):]
	return len(p), nil
}

// last is the last line that is not empty.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(string(*t)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
