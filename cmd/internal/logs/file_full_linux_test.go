package logs_test

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/logs"
)

// A full disk takes the beginning of a line. The failure is reported, the line goes to the
// fallback, and the next one begins a line of its own. RLIMIT_FSIZE has the effect of a full
// disk.
func TestFullDisk(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.log")
	var fallback bytes.Buffer
	var failures []error
	f := logs.NewFile(path, logs.Limits{}, "", &fallback, func(err error) { failures = append(failures, err) })
	defer f.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 15, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, "line one")
	fmt.Fprintln(f, "line two")
	if err := f.Err(); err == nil {
		t.Error("the full disk is not known to the file")
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, "line three")
	if err := f.Err(); err != nil {
		t.Errorf("with space again: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != "line one\nline t\nline three\n" {
		t.Errorf("the file has %q", text)
	}
	if len(failures) != 1 || !strings.Contains(fallback.String(), "line two\n") {
		t.Errorf("failures %v, fallback %q, want one failure and the second line", failures, &fallback)
	}
}
