package apiserver

import (
	"sync"
	"time"
)

const (
	// logInterval is the interval of a [logLimiter].
	logInterval = 10 * time.Second

	// maxFailureLines is how many failed calls of a pipe are logged per
	// logInterval. Drivers that call now and then have all their failures logged.
	maxFailureLines = 100
)

// logLimiter allows a few log lines of one kind per logInterval and counts the
// lines that it suppresses.
type logLimiter struct {
	most int // 0 means 1

	mu         sync.Mutex
	start      time.Time // of the current interval
	logged     int       // in the current interval
	suppressed int       // since the last line
}

// allow reports whether a line may be logged now, and how many lines were
// suppressed since the previous one.
func (l *logLimiter) allow() (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := time.Now(); l.start.IsZero() || t.Sub(l.start) >= logInterval {
		l.start, l.logged = t, 0
	}
	if l.logged >= max(l.most, 1) {
		l.suppressed++
		return 0, false
	}
	l.logged++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}
