package node

import (
	"context"
	"time"
)

// Pace controls the pauses of [Poll] and how long it goes on.
type Pace struct {
	Pause   time.Duration  // the first pause between two calls
	Longest time.Duration  // if set, the pause doubles each time, up to this
	Tries   int            // if set, the maximum number of calls
	Limit   time.Duration  // if set, no pause begins later than this after the first call
	Left    *time.Duration // if set, the time left for the pauses of several polls; Poll subtracts each pause
}

// Poll calls look, and again after each pause, until look is done. It then returns
// look's error. If pace allows no further call, it returns the error of the last
// one. If ctx ends during a pause, it returns ctx's error.
//
// look returns true with an error that waiting does not change, and false with an
// error that says what is still missing.
func Poll(ctx context.Context, clock Clock, pace Pace, look func() (done bool, err error)) error {
	begun := clock.Now()
	pause := pace.Pause
	for looks := 1; ; looks++ {
		done, err := look()
		if done || looks == pace.Tries || pace.Limit > 0 && clock.Now().Sub(begun) >= pace.Limit {
			return err
		}
		d := pause
		if pace.Left != nil {
			if d = min(d, *pace.Left); d <= 0 {
				return err
			}
			*pace.Left -= d
		}
		if err := clock.Sleep(ctx, d); err != nil {
			return err
		}
		pause = max(pause, min(2*pause, pace.Longest))
	}
}
