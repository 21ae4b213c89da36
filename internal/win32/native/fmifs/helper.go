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

var volumeName = regexp.MustCompile(`^\\\\\?\\Volume\{[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\}\\?$`)

// Check returns an error for what is not the name of a volume: a drive letter could pass to
// another volume.
func Check(vol string) error {
	if !volumeName.MatchString(vol) {
		return fmt.Errorf(`%q is not a volume name, \\?\Volume{GUID}\: %w`, vol, win32.ERROR_INVALID_NAME)
	}
	return nil
}

// arguments returns the command line of a helper, without the program.
func arguments(vol string, cluster uint32) []string {
	return []string{Command, "-volume=" + vol, fmt.Sprintf("-cluster-size=%d", cluster)}
}

// parse parses arguments, without the command.
func parse(args []string) (vol string, cluster uint32, err error) {
	f := flag.NewFlagSet(Command, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&vol, "volume", "", "")
	size := f.Uint("cluster-size", 0, "")
	if err := f.Parse(args); err != nil {
		return "", 0, err
	}
	cluster = uint32(*size)
	if f.NArg() > 0 || uint64(*size) != uint64(cluster) {
		return "", 0, fmt.Errorf("invalid arguments %q", args)
	}
	return vol, cluster, Check(vol)
}

// format formats and calls report for each event until it returns. It may call
// report from any thread. It returns [backend.ErrUnavailable] if it cannot start.
type format func(vol string, cluster uint32, report func(number uint32, packet []byte)) error

// serve runs the helper. exit ends the process at once.
func serve(args []string, stdin io.Reader, stdout io.Writer, exit func(int), format format) int {
	var mu sync.Mutex
	send := func(line ...any) {
		mu.Lock()
		defer mu.Unlock()
		// If the parent no longer reads, it has ended; then stdin ends too.
		_, _ = fmt.Fprintln(stdout, line...)
	}
	vol, cluster, err := parse(args)
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
	err = format(vol, cluster, func(number uint32, packet []byte) {
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
