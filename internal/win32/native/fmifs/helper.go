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

// Lines of the protocol.
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
	exitFailure  = 1 // the last line says why
	exitUsage    = 2
	exitOrphaned = 3 // the parent has ended
)

var (
	volumeName     = regexp.MustCompile(`^\\\\\?\\Volume\{[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\}\\?$`)
	fileSystemName = regexp.MustCompile(`^[0-9A-Za-z]{1,16}$`)
)

// Check returns an error for arguments that are not acceptable. A volume must be
// given by its name: a drive letter could pass to another volume.
func Check(vol string, o win32.FormatOptions) error {
	switch {
	case !volumeName.MatchString(vol):
		return fmt.Errorf(`%q is not a volume name, \\?\Volume{GUID}\: %w`, vol, win32.ERROR_INVALID_NAME)
	case !fileSystemName.MatchString(o.FileSystem):
		return fmt.Errorf("%q is not a file system name: %w", o.FileSystem, win32.ERROR_INVALID_NAME)
	case strings.ContainsRune(o.Label, 0):
		return fmt.Errorf("the label %q contains a NUL: %w", o.Label, win32.ERROR_INVALID_NAME)
	}
	return nil
}

// arguments returns the command line of a helper, without the program.
func arguments(vol string, o win32.FormatOptions) []string {
	return []string{Command, "-volume=" + vol, "-file-system=" + o.FileSystem, "-label=" + o.Label,
		fmt.Sprintf("-quick=%t", o.Quick), fmt.Sprintf("-cluster-size=%d", o.ClusterSize)}
}

// parse parses arguments, without the command.
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
		return "", o, fmt.Errorf("invalid arguments %q", args)
	}
	return vol, o, Check(vol, o)
}

// format formats and calls report for each event until it returns. It may call
// report from any thread. It returns [backend.ErrUnavailable] if it cannot start.
type format func(vol string, o win32.FormatOptions, report func(number uint32, packet []byte)) error

// serve runs the helper. exit ends the process at once.
func serve(args []string, stdin io.Reader, stdout io.Writer, exit func(int), format format) int {
	var mu sync.Mutex
	send := func(line ...any) {
		mu.Lock()
		defer mu.Unlock()
		// If the parent no longer reads, it has ended; then stdin ends too.
		_, _ = fmt.Fprintln(stdout, line...)
	}
	vol, o, err := parse(args)
	if err != nil {
		send(hello)
		send(refused, oneLine(err))
		return exitUsage
	}
	send(hello)
	in := bufio.NewReader(stdin)
	if line, err := in.ReadString('\n'); err != nil || strings.TrimSpace(line) != begin {
		return exitOrphaned
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // until the parent ends
		exit(exitOrphaned)
	}()
	err = format(vol, o, func(number uint32, packet []byte) {
		send(event, number, hex.EncodeToString(packet))
	})
	switch {
	case errors.Is(err, backend.ErrUnavailable):
		send(missing, oneLine(err))
		return exitFailure
	case err != nil:
		send(refused, oneLine(err))
		return exitFailure
	}
	send(returned)
	return exitOK
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
