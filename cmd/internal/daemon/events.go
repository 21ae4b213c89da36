package daemon

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
)

// The numbers of entries in the Windows event log; docs/run/reference.md documents them.
const (
	eventServing = 1
	eventStopped = 2
	eventFailed  = 3
	eventRefused = 4
	eventCrash   = 5
	eventNoLog   = 6
)

const (
	// eventPause is how long an entry about a request is not repeated: drivers try again
	// for days.
	eventPause = time.Hour
	// maxEvents is how many such entries are remembered, and added in that time at most.
	maxEvents = 100
)

// events adds entries to the Windows event log, in which administrators look when there is no
// log. A nil *events adds none.
type events struct {
	add func(level slog.Level, id uint32, text string) error

	mu    sync.Mutex
	added map[string]time.Time // the last time of a text of onceAWhile
}

// openEvents opens the event log for the Windows service with this name, or, if it is not known,
// with the usual one.
func openEvents(service string) (*events, error) {
	add, err := winsvc.OpenEvents(cmp.Or(service, winsvc.Name))
	if err != nil {
		return nil, err
	}
	return &events{add: add}, nil
}

func (e *events) write(level slog.Level, id uint32, text string) {
	if e == nil {
		return
	}
	if err := e.add(level, id, text); err != nil {
		klog.ErrorS(err, "Failed to write to the event log", "event", id)
	}
}

// onceAWhile is write, unless the same text was added in the last hour, or too many others.
func (e *events) onceAWhile(level slog.Level, id uint32, text string) {
	if e == nil || !e.isNew(text, time.Now()) {
		return
	}
	e.write(level, id, text)
}

func (e *events) isNew(text string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for t, last := range e.added {
		if now.Sub(last) >= eventPause {
			delete(e.added, t)
		}
	}
	if _, ok := e.added[text]; ok || len(e.added) >= maxEvents {
		return false
	}
	if e.added == nil {
		e.added = map[string]time.Time{}
	}
	e.added[text] = now
	return true
}

// failed adds an entry for a failed request that only an administrator can help: a disk or
// volume that is refused because of its content or state.
func (e *events) failed(method string, code codes.Code, err error) {
	if code == codes.FailedPrecondition && (method == "PartitionDisk" || method == "FormatVolume") {
		e.onceAWhile(slog.LevelWarn, eventRefused, fmt.Sprintf("%s was refused: %v", method, err))
	}
}
