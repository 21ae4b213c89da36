package serve

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/failure"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/limit"
)

// A call that reaches its limit just before it gets a slot does not run: End may have
// answered that nothing was done.
func TestExpiredCallDoesNotRun(t *testing.T) {
	s := &Server{log: calls.NewLog(slog.New(slog.DiscardHandler), new(calls.Calls))}
	l := limit.NewPipe("csi-proxy-disk-v1", nil, nil, nil)
	for _, expired := range []bool{false, true} {
		m := &method{group: group{limit: l.API}, server: s, name: "Rescan", deadline: time.Minute}
		c := m.newCall(t.Context())
		c.ctx, c.decode = c.record.Begin(t.Context(), func() {}), func(any) error { return nil }
		if expired {
			c.record.Expire()
		}
		err := c.admit(&emptypb.Empty{})
		if want := map[bool]codes.Code{true: codes.ResourceExhausted}[expired]; status.Code(err) != want || !c.running {
			t.Errorf("expired %t: %v, want code %v and a slot that is given back at the end", expired, err, want)
		}
	}
}

// closable is a connection that counts how often it is closed.
type closable struct {
	net.Conn
	closed *int
}

func (c closable) Close() error { *c.closed++; return nil }

// If gRPC's streams do not accept a status, calls that have ended are still not kept.
func TestEndWithoutStatusHangsUp(t *testing.T) {
	closed := 0
	c := &call{ctx: t.Context()}
	c.limits.Of = &limit.Conn{Conn: closable{closed: &closed}}
	c.end(failure.Of(context.DeadlineExceeded))
	if closed != 1 {
		t.Errorf("the connection was closed %d times, want once", closed)
	}
}
