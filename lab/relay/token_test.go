package relay

import (
	"io"
	"net"
	"path/filepath"
	"testing"
)

// A connection without the token reaches no socket.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "pipe.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reached := make(chan struct{})
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
			close(reached)
		}
	}()
	r := &Relay{dir: dir, names: []string{"pipe"}, token: "token", open: map[net.Conn]bool{}}
	address, err := r.listen()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	say := func(line string) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, line); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(c) // until the relay closes it
	}
	for _, line := range []string{"\n", "pipe\n", "wrong pipe\n", "token other\n", "token ../pipe\n"} {
		say(line)
		select {
		case <-reached:
			t.Fatalf("%q reaches the socket", line)
		default:
		}
	}
	say("token pipe\n")
	<-reached
}
