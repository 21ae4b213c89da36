package hunt_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parse returns the choices of a text: separated by semicolons, "r7*3" for three times r7.
func parse(text string) (all []choice) {
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		n := 1
		if name, times, ok := strings.Cut(part, "*"); ok {
			if k, err := strconv.Atoi(times); err == nil {
				part, n = name, k
			}
		}
		for range n {
			if part != "" {
				all = append(all, choice(part))
			}
		}
	}
	return all
}

// format is the opposite of parse.
func format(all []choice) string {
	var parts []string
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && all[i+n] == all[i] {
			n++
		}
		part := string(all[i])
		if n > 1 {
			part += fmt.Sprintf("*%d", n)
		}
		parts = append(parts, part)
		i += n
	}
	return strings.Join(parts, "; ")
}

// replay makes a run from its choices, and fails the test if that run finds a fault, or if a
// choice cannot be made any more: then it is another run.
func replay(t *testing.T, sp spec, choices string) {
	t.Helper()
	all := parse(choices)
	res := run(t, sp, given(all))
	t.Logf("replayed %d of %d choices", len(res.choices), len(all))
	if len(res.choices) < len(all) {
		t.Errorf("the replay is another run than %s", choices)
	}
	if res.fault != "" {
		t.Errorf("%s\n%s", res.fault, strings.Join(res.trace, "\n"))
	}
}

// class is the kind of a fault: what it says up to its details.
func class(fault string) string {
	head, _, _ := strings.Cut(fault, ":")
	return head
}

// shrunk is a run that finds the same fault with fewer choices.
type shrunk struct {
	result
	tries int
}

// shrink removes choices as long as the run finds a fault of the same class, in at most tries
// runs. It removes first the end, then whole requests, then ranges.
func shrink(t *testing.T, sp spec, res result, tries int) shrunk {
	t.Helper()
	best := shrunk{result: res}
	attempt := func(choices []choice) bool {
		if best.tries >= tries || len(choices) >= len(best.choices) {
			return false
		}
		best.tries++
		got := run(t, sp, given(choices))
		if class(got.fault) != class(res.fault) {
			return false
		}
		best.result = got
		return true
	}
	// Without choices, what runs comes to its end one request after the other.
	for n := len(best.choices) / 2; n > 0; n /= 2 {
		for len(best.choices) > n && attempt(best.choices[:len(best.choices)-n]) {
		}
	}
	for progress := true; progress && best.tries < tries; {
		progress = false
		for _, c := range slices.Clone(best.choices) {
			name, _, begins := strings.Cut(string(c), "=")
			without := slices.DeleteFunc(slices.Clone(best.choices), func(x choice) bool {
				if !begins {
					return false
				}
				who, _, _ := strings.Cut(string(x), "=")
				who, _, _ = strings.Cut(who, "!")
				return who == name
			})
			progress = begins && attempt(without) || progress
		}
		for n := max(1, len(best.choices)/2); n > 0; n /= 2 {
			for i := 0; i+n <= len(best.choices); {
				if attempt(slices.Delete(slices.Clone(best.choices), i, i+n)) {
					progress = true
				} else {
					i += n
				}
			}
		}
	}
	return best
}

// goTest returns a run as a Go test of this package.
func goTest(sp spec, choices []choice) string {
	fields := fmt.Sprintf("world: %d", sp.world)
	if sp.plant != "" {
		fields += fmt.Sprintf(", plant: %q", sp.plant)
	}
	if sp.library {
		fields += ", library: true"
	}
	return fmt.Sprintf("func TestFound(t *testing.T) {\n\treplay(t, spec{%s}, `%s`)\n}\n", fields, format(choices))
}
