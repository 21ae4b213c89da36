package journal_test

import (
	"errors"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
)

// A record that does not fit on the disk leaves nothing of itself behind the next one.
func TestFullDiskDamagesNothing(t *testing.T) {
	dir := t.TempDir()
	s, _, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, value string) error {
		r := &journal.Record{}
		if err := r.Put(key, value); err != nil {
			t.Fatal(err)
		}
		return s.Commit(r)
	}
	if err := put("a", "before"); err != nil {
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
	err = put("b", strings.Repeat("x", 1000))
	if restored := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &usual); restored != nil {
		t.Fatal(restored)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("a record of 1,000 bytes where 600 fit: %v", err)
	}
	if err := errors.Join(put("c", "after"), s.Close()); err != nil {
		t.Fatal(err)
	}
	s, _, err = journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := strings.Join(s.Keys(""), " "); got != "a c" {
		t.Errorf("keys %q, want a and c", got)
	}
}
