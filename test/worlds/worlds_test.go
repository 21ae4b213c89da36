package worlds_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance/simulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/test/worlds"
)

// Every two values of two options occur together, and the first world is the strict one.
func TestPairs(t *testing.T) {
	all, pairs := worlds.Pairs()
	t.Logf("%d worlds cover %d pairs of values", len(all), pairs)
	if all[0] != (behavior.Windows{}) {
		t.Errorf("the first world is %s", behavior.In("", all[0]))
	}
	options := behavior.All()
	seen := map[[4]string]bool{}
	for _, w := range all {
		w, err := behavior.Of(nodespec.Config{World: behavior.In("", w)})
		if err != nil {
			t.Error(err)
		}
		for i, a := range options {
			for _, b := range options[i+1:] {
				seen[[4]string{a.Key, *a.Of(&w), b.Key, *b.Of(&w)}] = true
			}
		}
	}
	want := 0
	for i, a := range options {
		for _, b := range options[i+1:] {
			want += len(a.Values) * len(b.Values)
		}
	}
	if len(seen) != want || pairs != want {
		t.Errorf("%d pairs occur, %d are counted, want %d", len(seen), pairs, want)
	}
}

// A refusal, or another behavior that fails a caller, is in the node's log with its option.
func TestLogNamesOptions(t *testing.T) {
	const dir = "../../internal/win32/emulated"
	var source strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" {
			return err
		}
		b, err := os.ReadFile(name)
		source.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{ // they refuse nothing
		"blankDisks":     "an answer",
		"formatOrder":    "what a death leaves on the disk",
		"smbUsers":       "an answer",
		"isWritable":     "an answer",
		"iscsiDiscovery": "an answer",
		"smbCalls":       "a wait",
	}
	for _, o := range behavior.All() {
		if named := strings.Contains(source.String(), fmt.Sprintf("Chosen(%q", o.Key)); named == (answers[o.Key] != "") {
			t.Errorf("option %s: the log names it: %t; %q", o.Key, named, answers[o.Key])
		}
	}
}

// allWorlds is the variable with which the whole contract runs in each world, as make soak
// does.
const allWorlds = "CSI_PROXY_ALL_WORLDS"

// The tests of kills and of changes during a request run in every world.
func TestKillsAndChanges(t *testing.T) {
	if os.Getenv(allWorlds) == "" {
		t.Skip("takes two minutes for each world: make soak runs it")
	}
	all, _ := worlds.Pairs()
	for i, w := range all {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=1h", "-run=TestDieAtEveryCall|TestChangeAtEveryCall",
				"github.com/kubernetes-csi/csi-proxy/v2/test/operations")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", worlds.Variable, i))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", behavior.In("", w), err, out)
			}
		})
	}
}

// on returns nodes in a world, unless a case asks for another one.
func on(w behavior.Windows) conformance.NewNode {
	return func(t *testing.T, setup conformance.Setup) *conformance.Node {
		t.Helper()
		setup.World = cmp.Or(setup.World, behavior.In("", w))
		return simulated.InProcess(t, setup)
	}
}

// Each case of the contract runs in one of the worlds that are not strict, or in all.
func TestContract(t *testing.T) {
	all, pairs := worlds.Pairs()
	for i := range all {
		// Where WMI never knows a volume, each format takes 45 s. The roads, which wait for
		// nothing, go through that.
		if all[i].FormatKnows == behavior.FormatNever {
			all[i].FormatKnows = behavior.FormatUpdated
		}
	}
	if os.Getenv(allWorlds) != "" {
		for i, w := range all {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Log(behavior.In("", w))
				conformance.RunConcurrently(t, on(w))
			})
		}
		return
	}
	cases := conformance.Cases()
	conformance.RunConcurrently(t, func(t *testing.T, setup conformance.Setup) *conformance.Node {
		_, name, _ := strings.Cut(t.Name(), "/")
		number := slices.Index(cases, name)
		if number < 0 {
			t.Fatalf("the case %q is not listed", name)
		}
		world := 1 + number%(len(all)-1) // not the strict one
		t.Logf("world %d: %s", world, behavior.In("", all[world]))
		return on(all[world])(t, setup)
	})
	t.Attr("measured", fmt.Sprintf("each case of the contract in one of %d worlds, which cover %d pairs of values", len(all), pairs))
}
