package calls

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// linesInterval is the interval of [lines].
	linesInterval = 10 * time.Second

	// linesEach and linesAll are how many lines of a kind one process and all processes can
	// add in an interval. Drivers that call now and then have all of them.
	linesEach, linesAll = 50, 200

	// linesNamed is how many processes are named with what was left out.
	linesNamed = 5
)

// lines limits the log lines of one kind that callers can add: each of them, so that it does not
// hide what others do, and all together. What is left out is counted, and logged at the end of
// the interval: a line for each of the processes of which most was left out, and one for the rest.
type lines struct {
	log       *slog.Logger
	what      string // the message with the counts
	each, all int    // lines in an interval

	mu    sync.Mutex
	begun time.Time
	wrote int
	of    map[uint32]*written // by process
	timer *time.Timer         // while something is left out
}

// written is what a process did in an interval.
type written struct {
	process     uint32
	program     func() string
	wrote, left int
}

func newLines(log *slog.Logger, what string) *lines {
	return &lines{log: log, what: what, each: linesEach, all: linesAll}
}

// allow reports whether a process may add a line now.
func (l *lines) allow(process uint32, program func() string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.timer == nil && now.Sub(l.begun) >= linesInterval {
		l.begun, l.wrote, l.of = now, 0, map[uint32]*written{}
	}
	w := l.of[process]
	if w == nil {
		w = &written{process: process, program: program}
		l.of[process] = w
	}
	if w.wrote < l.each && l.wrote < l.all {
		w.wrote++
		l.wrote++
		return true
	}
	w.left++
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(l.begun.Add(linesInterval)), l.flush)
	}
	return false
}

// flush ends the interval, and logs what was left out.
func (l *lines) flush() {
	l.mu.Lock()
	var left []*written
	for _, w := range l.of {
		if w.left > 0 {
			left = append(left, w)
		}
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.begun, l.of, l.timer = time.Time{}, nil, nil
	l.mu.Unlock()
	slices.SortFunc(left, func(a, b *written) int {
		return cmp.Or(cmp.Compare(b.left, a.left), cmp.Compare(a.process, b.process))
	})
	for _, w := range left[:min(len(left), linesNamed)] {
		l.log.LogAttrs(context.Background(), slog.LevelWarn, l.what, append(callerAttrs(w.process, w.program), slog.Int("requests", w.left))...)
	}
	if len(left) > linesNamed {
		rest := 0
		for _, w := range left[linesNamed:] {
			rest += w.left
		}
		l.log.LogAttrs(context.Background(), slog.LevelWarn, l.what, slog.Int("callers", len(left)-linesNamed), slog.Int("requests", rest))
	}
}
