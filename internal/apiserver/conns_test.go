package apiserver

import (
	"bytes"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
)

// greetingListener accepts connections that have sent their greeting, and fails
// when none are left.
type greetingListener struct {
	net.Listener
	left   int
	closed func()
}

func (l *greetingListener) Accept() (net.Conn, error) {
	if l.left--; l.left < 0 {
		return nil, net.ErrClosed
	}
	return greetedConn{closed: l.closed}, nil
}

type greetedConn struct {
	net.Conn
	closed func()
}

func (greetedConn) Read(p []byte) (int, error) { return len(p), nil }
func (c greetedConn) Close() error             { c.closed(); return nil }

// namedPipe is a connection of a named pipe that records what the server does.
type namedPipe struct {
	net.Conn
	did *[]string
}

func (p namedPipe) Disconnect() error { *p.did = append(*p.did, "disconnect"); return nil }
func (p namedPipe) Close() error      { *p.did = append(*p.did, "close"); return nil }

type pipeListener struct {
	net.Listener
	conns []net.Conn
}

func (l *pipeListener) Accept() (net.Conn, error) {
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

func (*pipeListener) Close() error { return nil }

// Published clients open a connection to check that the server exists, and never close
// it. Closing the server's end alone could keep the pipe's name in use.
func TestStopDisconnectsSilentClients(t *testing.T) {
	var did []string
	l := newConns("p", &pipeListener{conns: []net.Conn{namedPipe{did: &did}}}, slog.New(slog.DiscardHandler))
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil || !slices.Equal(did, []string{"disconnect", "close"}) {
		t.Errorf("Close = %v after %q, want disconnect before close", err, did)
	}
}

// The reason is in the log before the client can notice that its connection was
// closed.
func TestAcceptLogsRefusalBeforeClosing(t *testing.T) {
	var log bytes.Buffer
	refused := 0
	l := newConns("p", &greetingListener{left: maxConnections + 1, closed: func() {
		refused++
		if !strings.Contains(log.String(), "too many") {
			t.Errorf("when the connection is closed the log is %q", log.String())
		}
	}}, slog.New(slog.NewTextHandler(&log, nil)))
	for range maxConnections {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Read(make([]byte, greetingSize))
		c.(*conn).caller.calls.Add(1) // one call runs
	}
	if c, err := l.Accept(); err == nil || refused != 1 {
		t.Errorf("Accept = %v, %v with %d refused, want one refused connection", c, err, refused)
	}
}
