//go:build !windows

package published

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	root      = "../../.."
	modules   = "docs/drivers.md"
	clientAPI = "github.com/kubernetes-csi/csi-proxy/client"
)

// exception is a change that a program could notice, as the page lists it.
type exception struct {
	count   int
	changes *regexp.Regexp
}

// exceptions reads the table of the page: changes as a regular expression in
// backquotes, how many, and why.
func exceptions(t *testing.T) []exception {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, modules))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(\\^.+\\$)` \\| (\\d+) \\| ([^|]{20,}) \\|$")
	var all []exception
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, exception{n, regexp.MustCompile(m[1])})
	}
	if len(all) == 0 {
		t.Fatalf("%s lists no exception: the test does not understand its table", modules)
	}
	return all
}

// TestNothingIncompatible compares every package of the published client, as
// Windows builds it, with ours. apidiff is pinned in hack/tools.
func TestNothingIncompatible(t *testing.T) {
	dir := t.TempDir()
	run := func(in string, env []string, name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = in
		c.Env = append(os.Environ(), append(env, "GOWORK=off", "CGO_ENABLED=0")...)
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, said.String())
		}
		return string(out)
	}
	tool := filepath.Join(dir, "apidiff")
	run(filepath.Join(root, "hack", "tools"), nil, "go", "build", "-o", tool, "golang.org/x/exp/cmd/apidiff")

	published, ours := filepath.Join(dir, "published"), filepath.Join(dir, "ours")
	windows := []string{"GOOS=windows", "GOARCH=amd64"}
	run(".", windows, tool, "-m", "-w", published, clientAPI)
	run(filepath.Join(root, "client"), windows, tool, "-m", "-w", ours, clientAPI)

	// What the tool sees at all: our module has all that v1.3.0 has and more.
	if all := run(".", nil, tool, "-m", published, ours); !strings.Contains(all, "Compatible changes:") || !strings.Contains(all, "/negotiate: added") {
		t.Fatalf("the tool does not see that package negotiate was added:\n%.2000s", all)
	}
	incompatible := run(".", nil, tool, "-m", "-incompatible", published, ours)
	listed := exceptions(t)
	found := make([]int, len(listed))
	seen := 0
changes:
	for line := range strings.Lines(incompatible) {
		change, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			continue
		}
		seen++
		for i, e := range listed {
			if e.changes.MatchString(change) {
				found[i]++
				continue changes
			}
		}
		t.Errorf("incompatible with client v1.3.0, and not listed in %s: %s", modules, change)
	}
	for i, e := range listed {
		if found[i] != e.count {
			t.Errorf("%s lists %d changes like %s; there are %d", modules, e.count, e.changes, found[i])
		}
	}
	t.Attr("measured", fmt.Sprintf("%d incompatible changes, all of them listed", seen))
}
