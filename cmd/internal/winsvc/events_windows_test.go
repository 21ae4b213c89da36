package winsvc

import (
	"log/slog"
	"testing"
)

// Wine accepts entries and keeps none, so this shows only that the calls are right.
func TestEventsAreAdded(t *testing.T) {
	add, err := OpenEvents("csiproxy-test")
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if err := add(level, 1, "a test of csi-proxy"); err != nil {
			t.Errorf("an entry with the level %v: %v", level, err)
		}
	}
}
