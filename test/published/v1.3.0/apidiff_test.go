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

// exception is an incompatible change that the page lists.
type exception struct {
	count   int
	changes *regexp.Regexp
}

// exceptions reads the table of the page: a regular expression of changes in
// backquotes, their number, and the reason.
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
		t.Fatalf("found no exception in %s: the search is broken", modules)
	}
	return all
}

// TestClientIsCompatible compares every package of the published client, as built
// for Windows, with ours. hack/release pins the version of apidiff.
func TestClientIsCompatible(t *testing.T) {
	dir := t.TempDir()
	run := func(in string, env []string, name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = in
		c.Env = append(os.Environ(), append(env, "GOWORK=off", "CGO_ENABLED=0")...)
		var stderr strings.Builder
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
		}
		return string(out)
	}
	tool := filepath.Join(dir, "apidiff")
	run(filepath.Join(root, "hack", "tools"), nil, "go", "build", "-o", tool, "golang.org/x/exp/cmd/apidiff")

	published, ours := filepath.Join(dir, "published"), filepath.Join(dir, "ours")
	windows := []string{"GOOS=windows", "GOARCH=amd64"}
	run(".", windows, tool, "-m", "-w", published, clientAPI)
	run(filepath.Join(root, "client"), windows, tool, "-m", "-w", ours, clientAPI)

	// The tool must find a known difference: our module has one more package.
	if all := run(".", nil, tool, "-m", published, ours); !strings.Contains(all, "Compatible changes:") || !strings.Contains(all, "/negotiate: added") {
		t.Fatalf("apidiff does not report that package negotiate was added:\n%.2000s", all)
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
		t.Errorf("change is incompatible with client v1.3.0 and not listed in %s: %s", modules, change)
	}
	for i, e := range listed {
		if found[i] != e.count {
			t.Errorf("%s lists %d changes like %s; there are %d", modules, e.count, e.changes, found[i])
		}
	}
	t.Attr("measured", fmt.Sprintf("%d incompatible changes, all of them listed", seen))
}
