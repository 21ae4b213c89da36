package apiserver

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
)

// talkers is a listener whose clients have all said who they are, and which fails
// once there are no more.
type talkers struct {
	net.Listener
	left   int
	closed func()
}

func (l *talkers) Accept() (net.Conn, error) {
	if l.left--; l.left < 0 {
		return nil, net.ErrClosed
	}
	return talker{closed: l.closed}, nil
}

type talker struct {
	net.Conn
	closed func()
}

func (talker) Read(p []byte) (int, error) { return len(p), nil }
func (t talker) Close() error             { t.closed(); return nil }

// Whoever is hung up on because there are too many finds the reason in the log.
func TestTheLogTellsOfARefusalFirst(t *testing.T) {
	var log bytes.Buffer
	refused := 0
	l := newConns("p", &talkers{left: maxConnections + 1, closed: func() {
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
		c.Read(make([]byte, greeting))
	}
	if c, err := l.Accept(); err == nil || refused != 1 {
		t.Errorf("Accept = %v, %v with %d refused, want the one too many refused", c, err, refused)
	}
}
