package mounter_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

var kinds = []string{"disk", "share", "iscsi"}

// A volume of each kind lives, with each call made twice, in each way to reach the node. In the
// end nothing is left.
func TestLives(t *testing.T) {
	for _, w := range ways() {
		for _, kind := range kinds {
			t.Run(w.name+", "+kind, func(t *testing.T) {
				t.Parallel()
				x := newWorld(t, w)
				x.attach()
				for _, s := range x.lives()[kind] {
					for range 2 {
						if err := s.do(x.soon()); err != nil {
							t.Fatalf("%s: %v", s.name, err)
						}
					}
				}
				if left := x.left(); len(left) > 0 {
					t.Errorf("left on the node: %q", left)
				}
				for _, d := range x.state().Disks {
					if strings.HasPrefix(d.Serial, "vol02") && kind == "disk" && d.Online {
						t.Error("the disk is online after it was unstaged")
					}
				}
				if taken := strings.Contains(x.log.String(), "Taking a link"); taken != (w.existing) {
					t.Errorf("log %q", x.log.String())
				}
			})
		}
	}
}

// Each call of a life through pipes is lost once: it is not made, or its answer does not arrive.
// The driver calls again, as a new process that remembers nothing, and the life ends as always.
// A life loses as many calls as it can: the next time a step is called, it loses the next call.
func TestEachCallIsLostOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	for _, w := range []way{allPipes, existing} {
		for _, kind := range kinds {
			if w.existing && kind == "iscsi" {
				continue // what the old proxy does otherwise is about disks and shares
			}
			for name, made := range map[string]bool{"not made": false, "answer lost": true} {
				t.Run(w.name+", "+kind+", "+name, func(t *testing.T) {
					t.Parallel()
					lost := map[string]bool{}
					for more := true; more; {
						had := len(lost)
						loseCalls(t, w, kind, made, lost)
						more = len(lost) > had
					}
					if least := map[string]int{"disk": 25, "share": 15, "iscsi": 5}[kind]; len(lost) < least {
						t.Errorf("%d calls were lost, want at least %d", len(lost), least)
					}
				})
			}
		}
	}
}

// loseCalls runs a life that loses the calls that are not in lost, and adds them.
func loseCalls(t *testing.T, w way, kind string, made bool, lost map[string]bool) {
	t.Helper()
	x := newWorld(t, w)
	x.attach()
	for _, s := range x.lives()[kind] {
		for {
			now, calls := "", map[string]int{}
			lose := func(_ int, method string) error {
				x.mu.Lock()
				defer x.mu.Unlock()
				calls[method]++
				call := fmt.Sprintf("%s: %s %d", s.name, method, calls[method])
				if method == grpc_health_v1.Health_Check_FullMethodName { // one a group, each time
					call = s.name + ": " + method
				}
				// What stages the disk of a target is in the life of a disk.
				if now != "" || lost[call] || kind == "iscsi" && !strings.Contains(strings.ToLower(method), kind) {
					return nil
				}
				now, lost[call] = call, true
				return status.Error(codes.Unavailable, "the connection is lost")
			}
			x.mu.Lock()
			if made {
				x.after = lose
			} else {
				x.before = lose
			}
			x.mu.Unlock()
			err := s.do(x.soon())
			x.mu.Lock()
			x.before, x.after = nil, nil
			x.mu.Unlock()
			if err == nil {
				break
			}
			if now == "" {
				t.Fatalf("%s again, after each of its calls was lost: %v", s.name, err)
			}
			x.m = x.mounter(x.dial(), options())
		}
	}
	if left := x.left(); len(left) > 0 {
		t.Errorf("lost %q: left on the node: %q", slices.Sorted(maps.Keys(lost)), left)
	}
}

// A call of each method ends with its context.
func TestContextEnds(t *testing.T) {
	x := newWorld(t, allPipes)
	x.attach()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for kind, life := range x.lives() {
		for _, s := range life {
			if err := s.do(ctx); s.name != "grow" && err == nil {
				t.Errorf("%s, %s: no error with an ended context", kind, s.name)
			} else if s.name != "grow" && hosterr.KindOf(err) == hosterr.ErrInvalid {
				t.Errorf("%s, %s: %v", kind, s.name, err)
			}
		}
	}
}
