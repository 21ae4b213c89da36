package port

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// Two reserved addresses differ, and nothing listens on them. The one that has the address can
// listen on it, before and after the release.
func TestReserve(t *testing.T) {
	address, release, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	other, releaseOther, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer releaseOther()
	if address == other {
		t.Errorf("%s is reserved twice", address)
	}
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection to a reserved port = %v, want %v", err, syscall.ECONNREFUSED)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	release()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
