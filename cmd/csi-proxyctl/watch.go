package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// watchable adds the flags --watch and --interval to a command that changes nothing.
func (a *app) watchable(c *cobra.Command) *cobra.Command {
	show := a.bounded(c.RunE)
	watch, interval := false, 2*time.Second
	c.Flags().BoolVarP(&watch, "watch", "w", watch, "repeat until Ctrl-C, and print the result when it changes")
	c.Flags().DurationVar(&interval, "interval", interval, "with --watch, the time between repetitions")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case interval <= 0:
			return fmt.Errorf("--interval %v: want more than 0", interval)
		case watch:
			return a.watch(c, args, interval, show)
		case c.Flags().Changed("interval"):
			return errors.New("--interval needs --watch")
		}
		return show(c, args)
	}
	return c
}

// watch calls show until its context ends, and prints its output when it changes. A
// failure is also printed, and watch continues, because the daemon may be restarting.
// The output has no control characters, so it can be redirected to a file.
func (a *app) watch(c *cobra.Command, args []string, interval time.Duration, show func(*cobra.Command, []string) error) error {
	stdout, stderr := a.stdout, a.stderr
	defer func() { a.stdout, a.stderr = stdout, stderr }()
	last, printed := "", false
	err := poll(c.Context(), interval, func() (bool, error) {
		var out, notes bytes.Buffer
		a.stdout, a.stderr = &out, &notes
		err := show(c, args)
		if c.Context().Err() != nil {
			return true, nil
		}
		if err != nil {
			if !errors.As(err, new(*failure)) {
				return true, err // wrong usage is permanent
			}
			a.noteError(err)
		}
		now := out.String() + "\x00" + notes.String()
		if now == last {
			return false, nil
		}
		last = now
		if _, err := notes.WriteTo(stderr); err != nil {
			return true, &failure{err: err}
		}
		if out.Len() > 0 && printed && a.output != formatJSON { // JSON is a stream of values
			fmt.Fprintln(stdout, "\n# changed at "+time.Now().Format(time.TimeOnly))
		}
		printed = printed || out.Len() > 0
		if _, err := out.WriteTo(stdout); err != nil {
			return true, &failure{err: err}
		}
		return false, nil
	})
	if c.Context().Err() != nil {
		return nil // Ctrl-C is how a watch ends
	}
	return err
}

// poll calls f until it is done or fails, or ctx ends, with a pause between two calls.
func poll(ctx context.Context, pause time.Duration, f func() (done bool, err error)) error {
	for {
		if done, err := f(); done || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
