package mounter_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
)

// A volume of each kind lives, with each call made twice, in each way to reach the node. In the
// end nothing is left.
func TestLives(t *testing.T) {
	for _, w := range ways() {
		for _, kind := range []string{"disk", "share", "iscsi"} {
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
func TestEachCallIsLostOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	for _, w := range []way{allPipes, existing} {
		for _, kind := range []string{"disk", "share", "iscsi"} {
			if w.existing && kind == "iscsi" {
				continue // what the old proxy does otherwise is about disks and shares
			}
			for _, made := range []bool{false, true} {
				name := w.name + ", " + kind + ", not made"
				if made {
					name = w.name + ", " + kind + ", answer lost"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					all := loseCall(t, w, kind, made, 0)
					if all < 20 {
						t.Fatalf("a life has %d calls: the count is wrong", all)
					}
					for n := 1; n <= all; n++ { // a test each, so that its node and proxy end
						t.Run("call "+strconv.Itoa(n), func(t *testing.T) { loseCall(t, w, kind, made, n) })
					}
				})
			}
		}
	}
}

// loseCall runs a life in which call number lost fails, and returns how many calls it had.
func loseCall(t *testing.T, w way, kind string, made bool, lost int) int {
	t.Helper()
	x := newWorld(t, w)
	x.attach()
	method := ""
	x.mu.Lock()
	x.calls = 0
	lose := func(call int, m string) error {
		if call != lost {
			return nil
		}
		method = m
		return status.Error(codes.Unavailable, "the connection is lost")
	}
	if made {
		x.after = lose
	} else {
		x.before = lose
	}
	x.mu.Unlock()
	for _, s := range x.lives()[kind] {
		err := s.do(x.soon())
		if err != nil && lost == 0 {
			t.Fatalf("%s: %v", s.name, err)
		}
		if err != nil {
			x.m = x.mounter(x.open(), options())
			err = s.do(x.soon())
		}
		if err != nil {
			t.Fatalf("call %d, %s: %s again: %v", lost, method, s.name, err)
		}
	}
	if lost > 0 && method == "" {
		t.Fatalf("call %d was not made", lost)
	}
	if left := x.left(); len(left) > 0 {
		t.Errorf("call %d, %s: left on the node: %q", lost, method, left)
	}
	return x.calls
}

// Each Win32 call of a life in process fails once: the first of each name and code. The driver
// calls again, and the life ends as always.
func TestEachWin32CallFailsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	for _, kind := range []string{"disk", "share", "iscsi"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			type call struct {
				name string
				code uint32
			}
			live := func(t *testing.T, failing *call) map[call]bool {
				x := newWorld(t, inProcess)
				x.attach()
				var fault *simnode.ActiveFault
				if failing != nil {
					var err error
					if fault, err = x.node.Fail(simnode.Fault{Call: failing.name, Code: failing.code, Error: "ERROR_GEN_FAILURE", Times: 1}); err != nil {
						t.Fatalf("%v: %v", *failing, err)
					}
				}
				record := x.node.Record()
				defer record.Stop()
				for _, s := range x.lives()[kind] {
					err := s.do(x.soon())
					if err != nil && failing != nil {
						err = s.do(x.soon())
					}
					if err != nil {
						t.Fatalf("%+v: %s: %v", failing, s.name, err)
					}
				}
				if left := x.left(); len(left) > 0 {
					t.Errorf("%+v: left on the node: %q", failing, left)
				}
				if fault != nil && fault.Hits() == 0 {
					t.Errorf("%+v was not called", *failing)
				}
				calls := map[call]bool{}
				for _, c := range record.Calls() {
					if c.Name != "CloseHandle" {
						code := uint32(0)
						if c.Name == winapi.DeviceIoControl {
							code = c.Code
						}
						calls[call{c.Name, code}] = true
					}
				}
				return calls
			}
			all := slices.Collect(maps.Keys(live(t, nil)))
			if len(all) < 10 {
				t.Fatalf("a life has %d Win32 calls: the record is wrong", len(all))
			}
			for _, c := range all {
				t.Run(fmt.Sprint(c), func(t *testing.T) { live(t, &c) })
			}
		})
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
