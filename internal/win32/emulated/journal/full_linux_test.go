package journal

import (
	"errors"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// A record that does not fit on the disk leaves nothing of itself behind the next one.
func TestFullDiskDamagesNothing(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(t, s, "a", "before"); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ) // the limit stands for a full disk
	defer signal.Reset(syscall.SIGXFSZ)
	var usual syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &usual); err != nil {
		t.Fatal(err)
	}
	full := usual
	full.Cur = uint64(s.Size()) + 600
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	err = put(t, s, "b", strings.Repeat("x", 1000))
	if restored := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &usual); restored != nil {
		t.Fatal(restored)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("a record of 1,000 bytes where 600 fit: %v", err)
	}
	if err := errors.Join(put(t, s, "c", "after"), s.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := keys(t, dir); err != nil || got != "a c" {
		t.Errorf("keys %q, %v, want a and c", got, err)
	}
}
