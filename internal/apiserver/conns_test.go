package apiserver

import (
	"bytes"
	"log/slog"
	"net"
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
	}
	if c, err := l.Accept(); err == nil || refused != 1 {
		t.Errorf("Accept = %v, %v with %d refused, want one refused connection", c, err, refused)
	}
}
