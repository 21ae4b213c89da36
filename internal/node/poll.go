package node

import (
	"context"
	"time"
)

// Pace is how [Poll] waits between two looks.
type Pace struct {
	Pause   time.Duration  // between two looks
	Longest time.Duration  // if set, each pause is twice the one before, up to this
	Tries   int            // if set, the most looks
	Limit   time.Duration  // if set, no pause begins this long after the first look
	Left    *time.Duration // if set, what is left for the pauses of several polls; each pause is taken from it
}

// Poll calls look at once, and again after each pause, until look reports that it
// is done. It then returns look's error. When pace allows no other look, it
// returns the error of the last one. When ctx ends in a pause, it returns ctx's.
//
// So look returns true and an error for what waiting does not change, and false
// and an error for what is still missing.
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
