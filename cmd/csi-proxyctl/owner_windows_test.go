package main

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// A program that has taken the name of a pipe gets no request, and so no password, from the
// command line.
func TestConnectRefusesOtherOwner(t *testing.T) {
	path := `\\.\pipe\csi-proxy-` + rand.Text()
	l, err := winio.ListenPipe(path, &winio.PipeConfig{SecurityDescriptor: "O:BUD:P(A;;GA;;;WD)"})
	if errors.Is(err, windows.ERROR_INVALID_OWNER) {
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
	if c, err := connect(path); !errors.As(err, &e) {
		t.Errorf("connect = %v, %v, want an OwnerError", c, err)
	}
}
