package pipes

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
)

// idle is a listener that is not served; it counts calls of Close.
type idle struct {
	net.Listener
	closed *atomic.Int32
}

func (l idle) Close() error { l.closed.Add(1); return nil }

// several are pipes of a server.
func several() []Pipe {
	return []Pipe{{Name: "csi-proxy-disk-v1"}, {Name: "csi-proxy-disk-v1beta3"}, {Name: "csi-proxy-disk-v1beta2"}, {Name: "csi-proxy-disk-v1beta1"}}
}

// A server has none of its pipes while another process serves one. It tries
// only that one, logs it now and then, and has all of them as soon as it is free.
func TestOpenWaitsWithoutPipes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const long = 4 * time.Hour
		var opened, closed atomic.Int32
		var log strings.Builder
		pipes := several()
		begin := time.Now()
		said := 0
		listeners, err := Open(t.Context(), Opening{
			Log: slog.New(slog.NewTextHandler(&log, nil)),
			InUse: func(err error) {
				said++
				if took := time.Since(begin); took > time.Second || !strings.Contains(err.Error(), pipes[2].Name+": in use: ") {
					t.Errorf("InUse was called after %v with %v", took, err)
				}
			},
			Listen: func(name string) (net.Listener, error) {
				waited := time.Since(begin)
				if name == pipes[2].Name && waited < long {
					if open := opened.Load() - closed.Load(); open > 0 && waited > time.Second {
						t.Fatalf("%d pipes are open while another is in use", open)
					}
					return nil, &inUseError{filepath.Join(dir, name), errors.New("in use")}
				}
				opened.Add(1)
				return idle{closed: &closed}, nil
			},
		}, pipes)
		if err != nil {
			t.Fatal(err)
		}
		if late := time.Since(begin) - long; late > openRetry {
			t.Errorf("Open returned %v after the pipe was free", late)
		}
		if int(opened.Load()-closed.Load()) != len(pipes) {
			t.Errorf("%d pipes are open, want %d", opened.Load()-closed.Load(), len(pipes))
		}
		if lines := strings.Count(log.String(), "Waiting for another process"); said != 1 || lines < 46 || lines > 50 {
			t.Errorf("InUse was called %d times, and four hours have %d lines in the log, want 1 and one every five minutes", said, lines)
		}
		closeListeners(listeners)
	})
}

// A server that waits ends when its context ends, says what it waited for, and has none of its pipes.
func TestOpenWaitsUntilContextEnds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var opened, closed atomic.Int32
		pipes := several()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Open(ctx, Opening{
			Log: slog.New(slog.DiscardHandler), InUse: func(error) { time.AfterFunc(time.Hour, cancel) },
			Listen: func(name string) (net.Listener, error) {
				if name == pipes[1].Name {
					return nil, &inUseError{filepath.Join(dir, name), errors.New("in use")}
				}
				opened.Add(1)
				return idle{closed: &closed}, nil
			},
		}, pipes)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), pipes[1].Name+": in use: ") {
			t.Errorf("Open = %v, want the end of the context, and the pipe in use", err)
		}
		if opened.Load() == 0 || opened.Load() != closed.Load() {
			t.Errorf("opened %d pipes and closed %d", opened.Load(), closed.Load())
		}
	})
}
