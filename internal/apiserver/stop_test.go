package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// When Windows shuts down it ends the process after a few seconds, so calls that run longer
// are cut off before, with an answer.
func TestShutdownShortensGrace(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		time.Second: 0, 9 * time.Second: 3 * time.Second, 89 * time.Second: time.Minute,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		inner, end := context.WithCancel(ctx)
		cancel(shutdown(limit))
		if got := (&Server{config: Config{Grace: time.Minute}}).grace(inner); got != want {
			t.Errorf("with %v until the end of the process, calls get %v, want %v", limit, got, want)
		}
		end()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := (&Server{config: Config{Grace: time.Minute}}).grace(ctx); got != time.Minute {
		t.Errorf("in an ordinary stop, calls get %v, want a minute", got)
	}
}

// A server that another process keeps from one pipe gives up after a while, and has then
// none of the others.
func TestOpenGivesUpPipesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened, closed atomic.Int32
		pipes := Pipes(wire.Disk(nil, nil))
		begin := time.Now()
		_, err := Open(t.Context(), Config{Log: slog.New(slog.DiscardHandler), Listen: func(name string) (net.Listener, error) {
			if name == pipes[1].Name {
				return nil, &inUseError{filepath.Join(t.TempDir(), name), errors.New("in use")}
			}
			opened.Add(1)
			return idle{closed: &closed}, nil
		}}, pipes...)
		var refused *OpenError
		if !errors.As(err, &refused) || len(refused.Refused) != 1 || !strings.Contains(err.Error(), pipes[1].Name+": in use: ") {
			t.Errorf("Open = %v, want the error of one pipe", err)
		}
		if took := time.Since(begin); took != OpenLimit {
			t.Errorf("Open gave up after %v, want %v", took, OpenLimit)
		}
		if opened.Load() == 0 || opened.Load() != closed.Load() {
			t.Errorf("opened %d pipes and closed %d", opened.Load(), closed.Load())
		}
	})
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
	if err := s.stop(time.Minute); err != nil || int(closed.Load()) != len(pipes) {
		t.Errorf("stop = %v, and %d of %d pipes are closed", err, closed.Load(), len(pipes))
	}
}
