package driver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The story makes the same calls through Windows as over the model, to the byte,
// except for the listed differences.
func TestTraceThroughDriver(t *testing.T) {
	h := newHostOn(t, tracedConfig(), tracedMachine())
	windows := newTrace()
	err := windows.story(t.Context(), h.bare, func(number uint32, size uint64) error { return h.changed(h.model.Grow(number, size)) })
	if err != nil {
		t.Fatal(err)
	}
	model := traceOfModel(t)

	met := map[difference]int{}
	for i := range max(len(model.lines), len(windows.lines)) {
		var a, b string
		if i < len(model.lines) {
			a = model.lines[i]
		}
		if i < len(windows.lines) {
			b = windows.lines[i]
		}
		if a == b {
			continue
		}
		d := slices.IndexFunc(differences, func(d difference) bool { return d.model == a && d.windows == b })
		if d < 0 {
			t.Fatalf("call %d differs:\nmodel   %s\nWindows %s", i, a, b)
		}
		met[differences[d]]++
	}
	for _, d := range differences {
		if met[d] == 0 {
			t.Errorf("the listed difference between %q and %q no longer exists", d.model, d.windows)
		}
	}
	for i := range max(len(model.buffers), len(windows.buffers)) {
		if i >= len(model.buffers) || i >= len(windows.buffers) || model.buffers[i] != windows.buffers[i] {
			t.Fatalf("control code %d of %d and %d differs:\nmodel   %s\nWindows %s", i, len(model.buffers), len(windows.buffers), model.buffers[i:], windows.buffers[i:])
		}
	}
	if len(model.buffers) < 50 {
		t.Errorf("the story has %d control codes", len(model.buffers))
	}
	calls := 0
	for _, l := range model.lines {
		if !strings.HasPrefix(l, "#") {
			calls++
		}
	}
	t.Attr("measured", fmt.Sprintf("%d Win32 calls of a volume's life, the same over the emulated node and through the driver, with %d control codes to the byte", calls, len(model.buffers)))
}
