package script

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// Idle tests how the daemon treats idle connections. The published NewClient leaves
// an unused connection open, which the daemon closes within seconds. The connection
// that the client uses stays open for later calls. test/wine tests the same for
// pipes.
//
// connect connects to disk/v1 as the module's client does, and call calls one of its
// methods.
func Idle[C Conn](t *testing.T, connect func(socket func(pipe string) string) (C, error), call func(C) error) {
	d := Start(t)
	unused, err := net.Dial("unix", d.Socket("csi-proxy-disk-v1"))
	if err != nil {
		t.Fatal(err)
	}
	defer unused.Close()
	var dialed atomic.Int64
	conn, err := connect(func(pipe string) string {
		dialed.Add(1)
		return d.Socket(pipe)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	begin := time.Now()
	if err := call(conn); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, unused); err != nil {
		t.Errorf("the unused connection ended with %v, want that the daemon closes it", err)
	}
	// The daemon closes connections of clients that do not respond for 20 s.
	time.Sleep(time.Until(begin.Add(25 * time.Second)))
	if err := call(conn); err != nil || dialed.Load() != 1 {
		t.Errorf("after 25 s without a call: %v on connection %d, want success on the first", err, dialed.Load())
	}
}
