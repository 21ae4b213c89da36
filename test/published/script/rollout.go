package script

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Rollout replaces the daemon while a published client calls all the time, and measures
// how long the client gets no answer. The client waits after a failed attempt to connect:
// gRPC's back-off begins at a second and grows to two minutes. Where the next daemon waits
// already, the client fails once, and waits for that second. Without one, its wait grows
// with the time without a daemon, after which nothing can make it try earlier.
//
// connect connects to disk/v1 as the module's client does, and call calls one of its
// methods.
func Rollout[C Conn](t *testing.T, connect func(socket func(pipe string) string) (C, error), call func(C) error) {
	for _, c := range []struct {
		name    string
		waiting bool          // the next daemon waits while the first one serves
		gap     time.Duration // from the end of the first one to the start of the next
	}{
		{"next daemon waits", true, 0},
		{"ten seconds without a daemon", false, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			d := Start(t)
			var attempts atomic.Int64
			conn, err := connect(func(pipe string) string {
				attempts.Add(1)
				return d.Socket(pipe)
			})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := call(conn); err != nil {
				t.Fatal(err)
			}
			var next *process
			if c.waiting {
				next = d.launch(t)
				next.awaitLog(t, "Waiting for another process")
			}
			failed, begin := 0, time.Now()
			d.cmd.Process.Signal(os.Interrupt)
			var served time.Duration
			var before int64 // attempts to connect until the next daemon served
			for ; ; time.Sleep(5 * time.Millisecond) {
				if !c.waiting && next == nil && time.Since(begin) > c.gap {
					next = d.launch(t)
				}
				if served == 0 && next != nil && strings.Contains(next.log.String(), "Serving API") {
					served, before = time.Since(begin), attempts.Load()
				}
				err := call(conn)
				if err != nil {
					failed++
				} else if served > 0 {
					break
				}
				if time.Since(begin) > 2*time.Minute {
					t.Fatalf("no answer after %v: %v", time.Since(begin), err)
				}
			}
			took := time.Since(begin)
			t.Attr("measured", fmt.Sprintf("%s: the next daemon served after %v, the published client got its first answer %v later; %d calls failed",
				c.name, served.Round(time.Millisecond), (took-served).Round(time.Millisecond), failed))
			if more := attempts.Load() - before; more > 1 {
				t.Errorf("the client connected %d times after the next daemon served, want once at most", more)
			}
			if err := d.cmd.Wait(); err != nil {
				t.Errorf("the first daemon ended with %v", err)
			}
		})
	}
}
