package hunt_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

var (
	runs         = flag.Int("hunt.runs", 60, "number of runs of TestHunt")
	seed         = flag.Uint64("hunt.seed", 1, "seed of the first run of TestHunt; each later run has the next one")
	crowd        = flag.String("hunt.crowd", "", "the object that nearly all requests of TestHunt are about, such as iscsi")
	replays      = flag.Int("hunt.replays", 8, "number of runs of TestSameChoicesSameTrace, the first with hunt.seed")
	plantedTries = flag.Int("hunt.planted", 3, "number of runs in which TestPlanted shrinks each fault")
	tries        = flag.Int("hunt.tries", 400, "number of runs in which a fault is shrunk")
)

// steps is the number of choices of a run.
const steps = 1000

func TestMain(m *testing.M) {
	flag.Parse()
	// Goroutines that a released lock wakes then run one after the other.
	runtime.GOMAXPROCS(1)
	// The garbage collector may change their order, so it runs between runs.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(512 << 20)
	os.Exit(m.Run())
}

// TestHunt makes runs with choices by seeds.
func TestHunt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	var simulated time.Duration
	var total tally
	choices := 0
	begun := time.Now()
	for i := range *runs {
		n := *seed + uint64(i)
		sp := spec{world: int(n), library: n%4 == 3}
		res := run(t, sp, seeded(n, steps, *crowd))
		simulated += res.took
		choices += len(res.choices)
		total.histories += res.tally.histories
		total.operations += res.tally.operations
		total.undecided += res.tally.undecided
		if res.fault != "" {
			report(t, sp, res, n)
			return
		}
	}
	took := time.Since(begun)
	if total.undecided > total.histories/50 {
		t.Errorf("%d of %d histories are undecided, want at most one in fifty", total.undecided, total.histories)
	}
	t.Attr("measured", fmt.Sprintf("%d runs with %d choices, %.0f hours of simulated time in %.0f s; %d histories with %d operations are linearizable, %d undecided, %.0f a minute",
		*runs, choices, simulated.Hours(), took.Seconds(), total.histories-total.undecided, total.operations, total.undecided, float64(total.histories)/took.Minutes()))
}

// report prints a fault, with the choices that it needs as a Go test.
func report(t *testing.T, sp spec, res result, n uint64) {
	t.Helper()
	small := shrink(t, sp, res, *tries)
	t.Errorf("seed %d: %s\n%d choices, shrunk to %d in %d runs\n%s\n%s", n, small.fault, len(res.choices), len(small.choices), small.tries,
		goTest(sp, small.choices), strings.Join(small.trace, "\n"))
	if differs := small.repeat(t, sp); differs != "" {
		t.Errorf("THE REPLAY IS ANOTHER RUN, so the choices above may not find the fault: %s", differs)
	}
}

// repeat repeats a run, and returns how the replay differs from it, or "". If a loaded machine
// interrupts the test for more than ten milliseconds, Go may run goroutines that wait for a lock in another
// order. So a replay that differs is made again: two of six may.
func (r result) repeat(t *testing.T, sp spec) (differs string) {
	t.Helper()
	bad := 0
	for range 6 {
		d := r.differs(run(t, sp, given(r.choices)))
		if d != "" {
			bad, differs = bad+1, d
		}
		if bad == 0 {
			t.Logf("replayed %d of %d choices, with the same %d lines of the trace", len(r.choices), len(r.choices), len(r.trace))
			return ""
		}
	}
	if bad <= 2 {
		t.Logf("%d of 6 replays differ", bad)
		return ""
	}
	return fmt.Sprintf("%d of 6 replays differ: %s", bad, differs)
}

// differs returns how a replay of a run differs from it, or "".
func (r result) differs(again result) string {
	for i := range min(len(r.trace), len(again.trace)) {
		if r.trace[i] != again.trace[i] {
			return fmt.Sprintf("line %d was\n%s\nand is\n%s", i, r.trace[i], again.trace[i])
		}
	}
	switch {
	case len(again.trace) != len(r.trace):
		return fmt.Sprintf("it has %d lines, want %d", len(again.trace), len(r.trace))
	case len(again.choices) != len(r.choices):
		return fmt.Sprintf("it made %d of %d choices", len(again.choices), len(r.choices))
	case again.fault != r.fault:
		return fmt.Sprintf("its fault is %q, want %q", again.fault, r.fault)
	}
	return ""
}

// TestSameChoicesSameTrace repeats runs from their choices: they do the same again.
func TestSameChoicesSameTrace(t *testing.T) {
	seeds, lines := *replays, 0
	if testing.Short() {
		seeds = 2
	}
	crowds := []string{"", "disk1", "iscsi", "files"}
	for i := range seeds {
		n := *seed + uint64(i)
		sp, crowd := spec{world: int(n)}, crowds[i%len(crowds)]
		first := run(t, sp, seeded(n, steps, crowd))
		if differs := first.repeat(t, sp); differs != "" {
			t.Errorf("seed %d, crowd %q: in the replay, %s", n, crowd, differs)
		}
		lines += len(first.trace)
	}
	t.Attr("measured", fmt.Sprintf("%d runs and their replays have the same %d lines", seeds, lines))
}

// Runs that once found a fault, or looked like one.
func TestKept(t *testing.T) {
	// A disk comes back, and its volume has not arrived when it is looked for.
	replay(t, spec{library: true, world: 252}, `r16=d1 disk1 Partition 2m0s; r16*46; reboot; r35=d1 disk1 Partition 2m0s; r35*43; disk1 detach; r35*2; disk1 attach; r55=d0 disk1 List 2m0s`)
	// A driver asks for another user of a share, and another share of the server is in use. The
	// mapping that its own link used was removed before Windows refused the new one.
	replay(t, spec{library: true, world: 81}, `r4=d0 backup MapA0 2m0s; r11=d9 backup MapA2 2m0s; r15=d3 backup MapB2 2m0s`)
	replay(t, spec{library: true, world: 156}, `r5=d3 files MapB2 2m0s; r5*94; kill; r30=d3 files MapB1 300ms; r31=d0 files MapA1 2m0s`)
}
