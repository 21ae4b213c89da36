package main

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// Completion takes at most a second, or --timeout, even if an operation ignores its
// context: the clients of the groups wait ten seconds for a busy pipe.
func TestCompletionTimeLimit(t *testing.T) {
	for _, c := range []struct {
		timeoutSet   bool
		busy, waited time.Duration
		words, typed []string
		want         []string
	}{
		{busy: 10 * time.Second, waited: completionLimit},
		{busy: 500 * time.Millisecond, waited: 500 * time.Millisecond, words: []string{"0\tSYS", "1\tDATA"}, typed: []string{"0"}, want: []string{"1\tDATA"}},
		{timeoutSet: true, busy: 10 * time.Second, waited: 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &app{timeout: 5 * time.Second, timeoutSet: func() bool { return c.timeoutSet }}
			defer time.Sleep(c.busy) // until the abandoned goroutine has ended
			begin := time.Now()
			words, _ := a.completeFirst(true, func(context.Context) []string { time.Sleep(c.busy); return c.words })(&cobra.Command{}, c.typed, "")
			if waited := time.Since(begin); waited != c.waited || !slices.Equal(words, c.want) {
				t.Errorf("--timeout given: %t, a node that takes %v: %q after %v, want %q after %v", c.timeoutSet, c.busy, words, waited, c.want, c.waited)
			}
		})
	}
}
