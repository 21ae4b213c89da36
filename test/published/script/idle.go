package script

import (
	"io"
	"net"
	"testing"
	"time"
)

// Idle holds the daemon to what it does with connections on which nothing
// happens. The published NewClient leaves one behind that is never used: it is
// dropped within seconds. The one that the client calls through stays, and the
// next call goes through it. On Windows test/wine shows the same of pipes.
//
// connect connects to disk/v1 as the module's client does; the call is one of
// its methods.
func Idle[C Conn](t *testing.T, connect func(socket func(pipe string) string) (C, error), call func(C) error) {
	d := Start(t)
	left, err := net.Dial("unix", d.Socket("csi-proxy-disk-v1"))
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	dialled := 0
	conn, err := connect(func(pipe string) string {
		dialled++
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
	if _, err := io.Copy(io.Discard, left); err != nil {
		t.Errorf("the connection that was left behind ended with %v", err)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("the connection that was left behind was dropped after %v, want 10 s and what a slow machine takes", took)
	}
	// A client that does not answer is dropped after 20 s.
	time.Sleep(time.Until(begin.Add(25 * time.Second)))
	if err := call(conn); err != nil || dialled != 1 {
		t.Errorf("after 25 s without a call: %v, over connection %d, want success over the first", err, dialled)
	}
}
