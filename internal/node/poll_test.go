package node_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

func TestPoll(t *testing.T) {
	missing, broken := errors.New("missing"), errors.New("broken")
	ms := func(n ...time.Duration) []time.Duration {
		for i := range n {
			n[i] *= time.Millisecond
		}
		return n
	}
	for _, c := range []struct {
		name   string
		pace   node.Pace
		doneAt int           // the look that reports done; 0 means none does
		result error         // of that look
		took   time.Duration // of each look
		left   time.Duration // of a shared budget, in milliseconds; 0 means there is none
		looks  []time.Duration
		want   error
	}{
		{name: "done at once", pace: node.Pace{Pause: time.Hour}, doneAt: 1, looks: ms(0)},
		{name: "done at the third look", pace: node.Pace{Pause: 100 * time.Millisecond}, doneAt: 3, looks: ms(0, 100, 200)},
		{name: "a failure that waiting does not change", pace: node.Pace{Pause: 100 * time.Millisecond}, doneAt: 2, result: broken, looks: ms(0, 100), want: broken},
		{name: "no more than so many looks", pace: node.Pace{Pause: 100 * time.Millisecond, Tries: 3}, looks: ms(0, 100, 200), want: missing},
		{name: "a limit", pace: node.Pace{Pause: 100 * time.Millisecond, Limit: 250 * time.Millisecond}, looks: ms(0, 100, 200, 300), want: missing},
		{name: "a limit counts the looks too", pace: node.Pace{Pause: 100 * time.Millisecond, Limit: 250 * time.Millisecond}, took: 100 * time.Millisecond, looks: ms(0, 200), want: missing},
		{name: "pauses that double", pace: node.Pace{Pause: 10 * time.Millisecond, Longest: 35 * time.Millisecond, Tries: 5}, looks: ms(0, 10, 30, 65, 100), want: missing},
		{name: "a longest pause below the first", pace: node.Pace{Pause: 10 * time.Millisecond, Longest: time.Millisecond, Tries: 3}, looks: ms(0, 10, 20), want: missing},
		{name: "a budget", pace: node.Pace{Pause: 10 * time.Millisecond}, left: 25, looks: ms(0, 10, 20, 25), want: missing},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := c.left * time.Millisecond
				if left > 0 {
					c.pace.Left = &left
				}
				begun := time.Now()
				var looks []time.Duration
				err := node.Poll(t.Context(), node.SystemClock{}, c.pace, func() (bool, error) {
					looks = append(looks, time.Since(begun))
					time.Sleep(c.took)
					if len(looks) == c.doneAt {
						return true, c.result
					}
					return false, missing
				})
				if err != c.want || !slices.Equal(looks, c.looks) {
					t.Errorf("Poll looked at %v and returned %v, want looks at %v and %v", looks, err, c.looks, c.want)
				}
				if left != 0 {
					t.Errorf("%v of the budget are left, want none", left)
				}
			})
		})
	}
}

func TestPollsShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 30 * time.Millisecond
		begun, looks := time.Now(), 0
		for range 3 {
			node.Poll(t.Context(), node.SystemClock{}, node.Pace{Pause: 20 * time.Millisecond, Left: &left}, func() (bool, error) {
				looks++
				return looks == 2, nil
			})
		}
		if took := time.Since(begun); took != 30*time.Millisecond || looks != 5 {
			t.Errorf("%d looks in %v, want 5 in 30ms: the first poll ends after 20ms, the second has 10ms, the third none", looks, took)
		}
	})
}

func TestPollEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		begun, looks := time.Now(), 0
		err := node.Poll(ctx, node.SystemClock{}, node.Pace{Pause: 100 * time.Millisecond}, func() (bool, error) {
			looks++
			return false, errors.New("missing")
		})
		if err != context.DeadlineExceeded || looks != 3 || time.Since(begun) != 250*time.Millisecond {
			t.Errorf("after %v and %d looks: %v, want DeadlineExceeded after 250ms and 3 looks", time.Since(begun), looks, err)
		}
	})
}
