package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// A command that waits says so soon, and checks less and less often.
func TestLooksAtOwnCallsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stderr := &timedBuffer{}
		looks, begun := 0, time.Now()
		settled := (&app{stderr: stderr}).noteWaits(t.Context(), func(context.Context) ([]*admin.Call, error) {
			looks++
			return []*admin.Call{{Id: 7, Process: uint32(os.Getpid()), Method: "Rescan", AgeMilliseconds: time.Since(begun).Milliseconds()}}, nil
		})
		time.Sleep(5 * time.Minute)
		settled()
		if noted := stderr.first.Sub(begun); looks > 13 || noted > 3*time.Second || strings.Count(stderr.String(), "waiting: call 7, Rescan") != 1 {
			t.Errorf("in 5 minutes %d looks, want 13 at most; the note came after %v:\n%s", looks, noted, stderr)
		}
	})
}

// timedBuffer knows when it was first written to.
type timedBuffer struct {
	bytes.Buffer
	first time.Time
}

func (b *timedBuffer) Write(text []byte) (int, error) {
	if b.Len() == 0 {
		b.first = time.Now()
	}
	return b.Buffer.Write(text)
}

// A check whether something exists fails after the real failure, and is expected.
func TestCauseOfFailedCall(t *testing.T) {
	device := win32Entry{Call: "DeviceIoControl", Code: "IOCTL_DISK_CREATE_DISK", Error: "I/O device error"}
	probe := win32Entry{Call: "NtCreateFile", Error: "file not found"}
	for name, c := range map[string]struct {
		error string
		win32 []win32Entry
		want  string
	}{
		"the cause is before a look":      {`partition disk 1: I/O device error`, []win32Entry{probe, device, probe}, "DeviceIoControl IOCTL_DISK_CREATE_DISK: I/O device error"},
		"no entry is in the error":        {`partition disk 1: context deadline exceeded`, []win32Entry{device, probe}, "NtCreateFile: file not found"},
		"an entry without a text":         {`partition disk 1: I/O device error`, []win32Entry{device, {Call: "Format"}}, "DeviceIoControl IOCTL_DISK_CREATE_DISK: I/O device error"},
		"nothing of Windows failed in it": {`partition disk 1: disk not found`, nil, ""},
	} {
		if got := (failedEntry{Error: c.error, Win32: c.win32}).cause(); got != c.want {
			t.Errorf("%s: cause = %q, want %q", name, got, c.want)
		}
	}
}
