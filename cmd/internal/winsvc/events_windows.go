package winsvc

import (
	"fmt"
	"log/slog"

	"golang.org/x/sys/windows/svc/eventlog"
)

// OpenEvents returns a function that adds entries to the Windows event log Application, with
// the source that an installation of the service has added. Without one, Windows shows the
// text of an entry after a sentence that its description is missing.
func OpenEvents(source string) (add func(level slog.Level, id uint32, text string) error, err error) {
	l, err := eventlog.Open(source) // until the process ends
	if err != nil {
		return nil, fmt.Errorf("open the event log with the source %s: %w", source, err)
	}
	return func(level slog.Level, id uint32, text string) error {
		switch {
		case level >= slog.LevelError:
			return l.Error(id, text)
		case level >= slog.LevelWarn:
			return l.Warning(id, text)
		}
		return l.Info(id, text)
	}, nil
}
