package pipe_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/Microsoft/go-winio"

	"github.com/kubernetes-csi/csi-proxy/client/internal/pipetest"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

const invalidOwner = syscall.Errno(1307) // ERROR_INVALID_OWNER

// The owner of a pipe that this process makes is its account, or administrators.
func TestDialTrustedOfOwnPipe(t *testing.T) {
	path := pipetest.Path(t)
	go pipetest.Listen(t, path).Handle(func(net.Conn) {})
	c, err := pipe.DialTrusted(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestTrustedOwners(t *testing.T) {
	const user = "S-1-5-21-1-2-3-1001"
	for owner, want := range map[string]bool{
		"S-1-5-18":            true, // LocalSystem
		"S-1-5-32-544":        true, // administrators
		user:                  true,
		"S-1-5-21-1-2-3-1002": false,
		"S-1-5-32-545":        false, // users
		"S-1-5-93-2-1":        false, // ContainerAdministrator
		"S-1-1-0":             false, // everyone
	} {
		if got := pipe.Trusted(owner, user); got != want {
			t.Errorf("trusted(%s) = %v, want %v", owner, got, want)
		}
	}
	if pipe.Trusted("", user) {
		t.Error("a pipe without an owner is trusted")
	}
	if err := (&pipe.OwnerError{Path: `\\.\pipe\x`, Owner: "S-1-1-0"}); !strings.Contains(err.Error(), "S-1-1-0") || !strings.Contains(err.Error(), pipe.OwnerVariable+"=any") {
		t.Errorf("error %q has no owner, or not the way to turn off the check", err)
	}
}

// A pipe of another account is refused before anything is sent to it, unless the check is
// off or the caller asked for this pipe.
func TestDialTrustedRefusesOtherOwner(t *testing.T) {
	path := pipetest.Path(t)
	l, err := winio.ListenPipe(path, &winio.PipeConfig{SecurityDescriptor: "O:BUD:P(A;;GA;;;WD)"})
	if errors.Is(err, invalidOwner) {
		t.Skip("needs an account that may give a pipe another owner, as that of Wine; the stage wine of make test runs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	var e *pipe.OwnerError
	if c, err := pipe.DialTrusted(t.Context(), path); !errors.As(err, &e) || e.Owner != "S-1-5-32-545" {
		t.Errorf("DialTrusted = %v, %v, want an OwnerError", c, err)
	}
	if c, err := pipe.Dial(t.Context(), path); err != nil {
		t.Errorf("Dial = %v", err)
	} else {
		c.Close()
	}
	t.Setenv(pipe.OwnerVariable, "any")
	if c, err := pipe.DialTrusted(t.Context(), path); err != nil {
		t.Errorf("DialTrusted with %s=any = %v", pipe.OwnerVariable, err)
	} else {
		c.Close()
	}
}
