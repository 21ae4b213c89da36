package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
)

func TestRefusedDisksAreEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		e := &events{add: func(level slog.Level, id uint32, text string) error {
			got = append(got, fmt.Sprint(level, " ", id, " ", text))
			return nil
		}}
		expect := func(want ...string) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("added %q, want %q", got, want)
			}
			got = nil
		}
		data := errors.New("partition disk 3: it contains data (XFS)")
		for range 5 { // a driver tries again and again
			e.failed("PartitionDisk", codes.FailedPrecondition, data)
			time.Sleep(time.Minute)
		}
		expect("WARN 4 PartitionDisk was refused: partition disk 3: it contains data (XFS)")
		e.failed("FormatVolume", codes.FailedPrecondition, data)
		expect("WARN 4 FormatVolume was refused: partition disk 3: it contains data (XFS)")
		e.failed("FormatVolume", codes.NotFound, data)
		e.failed("RemoveTarget", codes.FailedPrecondition, data)
		expect()
		time.Sleep(time.Hour)
		e.failed("PartitionDisk", codes.FailedPrecondition, data)
		expect("WARN 4 PartitionDisk was refused: partition disk 3: it contains data (XFS)")

		for i := range 2 * maxEvents { // a hostile one
			e.failed("PartitionDisk", codes.FailedPrecondition, fmt.Errorf("disk %d", i))
		}
		if len(got) != maxEvents-1 || len(e.added) != maxEvents {
			t.Errorf("%d entries are added and %d remembered, want at most %d", len(got), len(e.added), maxEvents)
		}
		var none *events
		none.failed("PartitionDisk", codes.FailedPrecondition, data)
		none.write(slog.LevelInfo, eventServing, "x")
	})
}
