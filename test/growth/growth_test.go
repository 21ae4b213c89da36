package growth_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	root = "../.."
	page = "docs/develop/adding-a-version.md"

	// maxFiles limits the files that are edited by hand for a method, a field of a request
	// and a field of a response in a new version.
	maxFiles = 6
)

// guards lists the packages whose tests guard the API, and must pass with the page's changes alone,
// and this one, whose copy has a test that calls what is new.
var guards = []string{
	"./internal/wire/...", "./internal/policy", "./internal/services", "./pkg/remote", "./pkg/filesystem/...",
	"./client/api/...", "./client/negotiate", "./cmd/csi-proxy-api-gen/internal/rows",
	"./test/surface", "./test/growth",
}

func TestAddingAVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and tests a copy of the project: make test runs it")
	}
	began := time.Now()
	text := read(t, filepath.Join(root, page))
	copied := t.TempDir()
	if err := copyTree(copied, root); err != nil {
		t.Fatal(err)
	}

	files, err := apply(copied, text)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	if len(files) == 0 || len(files) > maxFiles {
		t.Errorf("%s touches %d files, want 1 to %d: %q", page, len(files), maxFiles, files)
	}
	run(t, copied, "go", "run", "./cmd/csi-proxy-api-gen", "-root", ".")

	// Descriptors of old versions are unchanged.
	const descriptors = "client/api/descriptors.txtpb"
	grown := read(t, filepath.Join(copied, descriptors))
	for file := range strings.SplitSeq(read(t, filepath.Join(root, descriptors)), "\nfile: {") {
		if !strings.Contains(grown, file) {
			t.Errorf("%s no longer has\n%s", descriptors, file)
		}
	}

	if err := os.Rename(filepath.Join(copied, "test/growth/testdata/links_test.go"), filepath.Join(copied, "test/growth/links_test.go")); err != nil {
		t.Fatal(err)
	}
	run(t, copied, "go", append([]string{"test", "-short", "-vet=off"}, guards...)...)
	t.Attr("measured", fmt.Sprintf("a method and two fields in a new version: %d files by hand (%s), %v", len(files), strings.Join(files, " "), time.Since(began).Round(time.Second)))
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// copyTree copies the project's files, without the directories of git and make.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		switch {
		case rel == ".git" || rel == "bin":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
}

// run runs a command in dir and returns its output. The test ends if it fails.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	// With -trimpath, what the copy has unchanged was compiled before.
	c.Env = append(os.Environ(), "GOWORK=", "PWD="+dir, "GOFLAGS="+cmp.Or(os.Getenv("GOFLAGS"), "-trimpath"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// apply applies the blocks of a page to the tree at root, and returns the files that it
// wrote.
func apply(root, page string) ([]string, error) {
	touched := map[string]bool{}
	for _, b := range blocks(page) {
		var err error
		switch kind := strings.Fields(b.info); {
		case len(kind) == 2 && kind[0] == "go":
			touched[kind[1]] = true
			err = create(root, kind[1], b.body)
		case len(kind) == 1 && kind[0] == "diff":
			var name string
			name, err = patch(root, b.body)
			touched[name] = true
		}
		if err != nil {
			return nil, fmt.Errorf("block at line %d: %w", b.line, err)
		}
	}
	return slices.Sorted(maps.Keys(touched)), nil
}

type block struct {
	line       int
	info, body string
}

// blocks returns the fenced blocks of a page. A block may be indented like its fence.
func blocks(page string) []block {
	var all []block
	var open *block
	indent := ""
	n := 0
	for line := range strings.Lines(page) {
		n++
		trimmed := strings.TrimSpace(line)
		switch {
		case open == nil && strings.HasPrefix(trimmed, "```"):
			indent = line[:strings.Index(line, "```")]
			open = &block{line: n, info: strings.TrimPrefix(trimmed, "```")}
		case open != nil && trimmed == "```":
			all = append(all, *open)
			open = nil
		case open != nil:
			open.body += strings.TrimPrefix(line, indent)
		}
	}
	return all
}

// create writes a file that does not exist yet.
func create(root, name, text string) error {
	file := filepath.Join(root, filepath.FromSlash(name))
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already", name)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// patch applies a diff of one file and returns its name after the change.
func patch(root, diff string) (string, error) {
	header, changes, ok := strings.Cut(diff, "@@\n")
	lines := strings.Split(strings.TrimSpace(header), "\n")
	if !ok || len(lines) != 2 || !strings.HasPrefix(lines[0], "--- ") || !strings.HasPrefix(lines[1], "+++ ") {
		return "", fmt.Errorf("a diff begins with a line --- FILE, a line +++ FILE and a line @@, not with\n%s", header)
	}
	from, to := lines[0][4:], lines[1][4:]
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(from)))
	if err != nil {
		return "", err
	}
	for change := range strings.SplitSeq(changes, "@@\n") {
		before, after := sides(change)
		if n := bytes.Count(text, before); n != 1 {
			return "", fmt.Errorf("%s has these lines %d times, want once:\n%s", from, n, before)
		}
		text = bytes.Replace(text, before, after, 1)
	}
	if from != to {
		return to, create(root, to, string(text))
	}
	return to, os.WriteFile(filepath.Join(root, filepath.FromSlash(to)), text, 0o644)
}

// sides returns the lines of a change before and after it.
func sides(change string) (before, after []byte) {
	for line := range strings.Lines(change) {
		switch line[0] {
		case '-':
			before = append(before, line[1:]...)
		case '+':
			after = append(after, line[1:]...)
		default:
			line = strings.TrimPrefix(line, " ") // an empty line may lack its leading blank
			before, after = append(before, line...), append(after, line...)
		}
	}
	return before, after
}
