package fmifs

import (
	"bufio"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// Command is the first argument that makes csi-proxy.exe the helper.
const Command = "format-helper"

// Lines of the conversation.
const (
	hello    = "csi-proxy format-helper 1"
	begin    = "go"
	event    = "event"
	missing  = "missing"
	refused  = "refused"
	returned = "returned"
)

// Exit codes of the helper.
const (
	exitOK       = 0
	exitFailure  = 1 // said on the last line
	exitUsage    = 2
	exitOrphaned = 3 // the parent went away
)

var (
	volumeName     = regexp.MustCompile(`^\\\\\?\\Volume\{[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\}\\?$`)
	fileSystemName = regexp.MustCompile(`^[0-9A-Za-z]{1,16}$`)
)

// Check refuses what is not formatted. A drive letter is not: what is formatted
// is named by what cannot pass to another volume.
func Check(vol string, o win32.FormatOptions) error {
	switch {
	case !volumeName.MatchString(vol):
		return fmt.Errorf(`%q is no volume name, \\?\Volume{GUID}\: %w`, vol, win32.ERROR_INVALID_NAME)
	case !fileSystemName.MatchString(o.FileSystem):
		return fmt.Errorf("%q is no name of a file system: %w", o.FileSystem, win32.ERROR_INVALID_NAME)
	case strings.ContainsRune(o.Label, 0):
		return fmt.Errorf("the label %q has a NUL: %w", o.Label, win32.ERROR_INVALID_NAME)
	}
	return nil
}

// arguments is the command line of a helper, without the program.
func arguments(vol string, o win32.FormatOptions) []string {
	return []string{Command, "-volume=" + vol, "-file-system=" + o.FileSystem, "-label=" + o.Label,
		fmt.Sprintf("-quick=%t", o.Quick), fmt.Sprintf("-cluster-size=%d", o.ClusterSize)}
}

// parse reads arguments, from behind the command.
func parse(args []string) (vol string, o win32.FormatOptions, err error) {
	f := flag.NewFlagSet(Command, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&vol, "volume", "", "")
	f.StringVar(&o.FileSystem, "file-system", "", "")
	f.StringVar(&o.Label, "label", "", "")
	f.BoolVar(&o.Quick, "quick", false, "")
	cluster := f.Uint("cluster-size", 0, "")
	if err := f.Parse(args); err != nil {
		return "", o, err
	}
	o.ClusterSize = uint32(*cluster)
	if f.NArg() > 0 || uint64(*cluster) != uint64(o.ClusterSize) {
		return "", o, fmt.Errorf("wrong arguments %q", args)
	}
	return vol, o, Check(vol, o)
}

// format formats, and tells events until it returns; tell may be called from any
// thread. It answers [backend.ErrUnavailable] if it cannot begin.
type format func(vol string, o win32.FormatOptions, tell func(number uint32, packet []byte)) error

// serve is the helper. exit ends the process at once.
func serve(args []string, stdin io.Reader, stdout io.Writer, exit func(int), format format) int {
	var turn sync.Mutex
	say := func(line ...any) {
		turn.Lock()
		defer turn.Unlock()
		// A parent that does not read any more has ended, which stdin tells.
		_, _ = fmt.Fprintln(stdout, line...)
	}
	vol, o, err := parse(args)
	if err != nil {
		say(hello)
		say(refused, oneLine(err))
		return exitUsage
	}
	say(hello)
	in := bufio.NewReader(stdin)
	if line, err := in.ReadString('\n'); err != nil || strings.TrimSpace(line) != begin {
		return exitOrphaned
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // until the parent goes away
		exit(exitOrphaned)
	}()
	err = format(vol, o, func(number uint32, packet []byte) {
		say(event, number, hex.EncodeToString(packet))
	})
	switch {
	case errors.Is(err, backend.ErrUnavailable):
		say(missing, oneLine(err))
		return exitFailure
	case err != nil:
		say(refused, oneLine(err))
		return exitFailure
	}
	say(returned)
	return exitOK
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
