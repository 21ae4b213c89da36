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

// Helper formats volumes in child processes, one for each format. It is safe for
// concurrent use.
type Helper struct {
	// Executable is a program that calls [Main] if its first argument is
	// [Command]: the path of csi-proxy.exe. Only csi-proxy.exe itself knows that
	// it is such a program. If it is empty, Format fails.
	Executable string
	// SilenceLimit is how long a format may run without an event before it is
	// killed; 0 means [backend.FormatLimit].
	SilenceLimit time.Duration
}

// errSilent is the cause of killing a silent helper.
var errSilent = errors.New("the format helper was silent")

// UpdateCache does nothing: there is no cache.
func (Helper) UpdateCache() error { return nil }

// Format creates NTFS on vol, and returns when the helper has ended. It
// returns [backend.ErrUnavailable] if there is no helper or no FormatEx. All
// other errors wrap a Windows error number.
func (h Helper) Format(vol string, o win32.FormatOptions) error {
	if err := Check(vol); err != nil {
		return err
	}
	if h.Executable == "" {
		return fmt.Errorf("formatting with fmifs.dll needs csi-proxy.exe as the format helper: %w", backend.ErrUnavailable)
	}
	limit := h.SilenceLimit
	if limit == 0 {
		limit = backend.FormatLimit
	}
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	c := exec.CommandContext(ctx, h.Executable, arguments(vol, o.ClusterSize)...)
	c.WaitDelay = time.Second // only the child has its pipes
	var stderr tail
	c.Stderr = &stderr
	isolate(c)
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
	out := &output{}
	silence := time.AfterFunc(limit, func() { end(errSilent) })
	err = func() error {
		leave, err := confine(c.Process.Pid)
		if err != nil {
			return fmt.Errorf("put the format helper into a job: %w", err)
		}
		defer leave()
		return out.read(stdout, stdin, func() { silence.Reset(limit) })
	}()
	if err != nil {
		end(err)
	}
	exit := c.Wait()
	silence.Stop()
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return fmt.Errorf("the format helper was silent for %s and was killed: %w", limit, win32.ERROR_TIMEOUT)
	}
	if err != nil {
		return err
	}
	return out.result(exit, stderr.last())
}

// output is what a helper wrote to its standard output.
type output struct {
	greeted, returned bool
	missing, refused  string
	events            events
}

// read reads the output of a helper to its end, and starts the format once the
// helper has sent hello. It calls onLine for every line.
func (o *output) read(from io.Reader, to io.Writer, onLine func()) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<18) // more than the longest packet in hex
	for lines.Scan() {
		onLine()
		if err := o.line(lines.Text()); err != nil {
			return err
		}
		if o.greeted && lines.Text() == hello {
			// If the helper has already ended, its exit code says more.
			_, _ = io.WriteString(to, begin+"\n")
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("read from the format helper: %w: %v", win32.ERROR_GEN_FAILURE, err)
	}
	return nil
}

// line parses one line.
func (o *output) line(s string) error {
	word, rest, _ := strings.Cut(strings.TrimRight(s, "\r"), " ")
	switch {
	case !o.greeted:
		if s != hello {
			return fmt.Errorf("the format helper has another version: its first line is %q, want %q: %w", s, hello, win32.ERROR_GEN_FAILURE)
		}
		o.greeted = true
		return nil
	case word == event:
		number, packet, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(number, 10, 32)
		if err == nil {
			var data []byte
			if data, err = hex.DecodeString(packet); err == nil {
				o.events.add(uint32(n), data)
				return nil
			}
		}
	case word == missing:
		o.missing = rest
		return nil
	case word == refused:
		o.refused = rest
		return nil
	case s == returned:
		o.returned = true
		return nil
	}
	return fmt.Errorf("the format helper wrote %q: %w", s, win32.ERROR_GEN_FAILURE)
}

// result returns the result of the format. exit is the error of the process,
// stderr the last line that it wrote there.
func (o *output) result(exit error, stderr string) error {
	switch {
	case o.missing != "":
		return fmt.Errorf("the format helper: %s: %w", o.missing, backend.ErrUnavailable)
	case o.refused != "":
		return fmt.Errorf("the format helper refused: %s: %w", o.refused, win32.ERROR_INVALID_PARAMETER)
	case !o.returned || exit != nil:
		err := fmt.Errorf("the format helper ended before FormatEx of fmifs.dll returned (%v): %w", exit, win32.ERROR_PROCESS_ABORTED)
		if o.events.failure != nil {
			err = fmt.Errorf("%w; then %w", o.events.failure, err)
		}
		if stderr != "" {
			err = fmt.Errorf("%w; its last line on stderr is %q", err, stderr)
		}
		return err
	}
	return o.events.result()
}

// tail keeps the end of the bytes that are written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const size = 4096
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-size):]
	return len(p), nil
}

// last returns the last line that is not empty.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(string(*t)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
