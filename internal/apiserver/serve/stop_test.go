package serve

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// idle is a listener that is not served; it counts calls of Close.
type idle struct {
	net.Listener
	closed *atomic.Int32
}

func (l idle) Close() error { l.closed.Add(1); return nil }

type shutdown time.Duration

func (shutdown) Error() string               { return "shutdown" }
func (s shutdown) StopWithin() time.Duration { return time.Duration(s) }

// When Windows shuts down, it ends the process after a few seconds, so calls that run
// longer are cut off before that, with an answer.
func TestShutdownShortensGrace(t *testing.T) {
	type graces struct{ calls, flushed time.Duration }
	grace := func(ctx context.Context) graces {
		calls, flushed := (&Server{config: Config{Grace: time.Minute}}).grace(ctx)
		return graces{calls, flushed}
	}
	for limit, want := range map[time.Duration]graces{
		time.Millisecond: {}, 4 * time.Second: {3 * time.Second, 3 * time.Second}, 62 * time.Second: {time.Minute, 61 * time.Second}, 89 * time.Second: {time.Minute, 65 * time.Second},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		inner, end := context.WithCancel(ctx)
		cancel(shutdown(limit))
		if got := grace(inner); got != want {
			t.Errorf("with %v until the end of the process, calls get %v, want %v", limit, got, want)
		}
		end()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, want := grace(ctx), (graces{time.Minute, 65 * time.Second}); got != want {
		t.Errorf("in an ordinary stop, calls get %v, want %v", got, want)
	}
}

// A server may stop before gRPC serves its pipes. It must still close them, so that
// the next server can create them.
func TestStopRemovesUnservedPipes(t *testing.T) {
	var closed atomic.Int32
	pipes := Pipes(wire.Disk(nil, nil))
	s, err := Open(t.Context(), Config{Listen: func(string) (net.Listener, error) { return idle{closed: &closed}, nil }}, pipes...)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.stop(time.Minute, time.Minute); err != nil || int(closed.Load()) != len(pipes) {
		t.Errorf("stop = %v, and %d of %d pipes are closed", err, closed.Load(), len(pipes))
	}
}
