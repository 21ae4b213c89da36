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

// guards lists the packages whose tests guard the API. They must pass with the page's
// changes alone.
var guards = []string{
	"./internal/wire/...", "./internal/policy", "./internal/services", "./pkg/remote", "./pkg/filesystem/...",
	"./client/api/...", "./client/negotiate", "./cmd/csi-proxy-api-gen/internal/rows", "./cmd/csi-proxy-api-gen/internal/remote",
	"./test/surface",
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

	// A test of this package, for the copy only, calls what is new.
	if err := os.Rename(filepath.Join(copied, "test/growth/testdata/links_test.go"), filepath.Join(copied, "test/growth/links_test.go")); err != nil {
		t.Fatal(err)
	}
	run(t, copied, "go", append([]string{"test", "-short", "-vet=off"}, guards...)...)
	out := run(t, copied, "go", "test", "-short", "-vet=off", "-count=1", "-v", "-run=^TestNewVersion$", "./test/growth")
	if !strings.Contains(out, "--- PASS: TestNewVersion") {
		t.Errorf("the new method and fields were not used:\n%s", out)
	}
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

func TestApply(t *testing.T) {
	const ( // ~ for `
		change  = "1. Text\n   ~~~diff\n   --- a.txt\n   +++ a.txt\n   @@\n   -one\n   +1\n\n    two\n   @@\n    three\n   +four\n   ~~~\n"
		another = "~~~diff\n--- a.txt\n+++ d/b.txt\n@@\n-one\n+1\n~~~\n"
		file    = "~~~go c.go\npackage c\n~~~\n"
		ignored = "~~~go\npackage d\n~~~\n~~~sh\nrm -r .\n~~~\n"
	)
	for _, c := range []struct {
		name, page string
		want       map[string]string // files, or
		err        string
	}{
		{"a file is changed", change, map[string]string{"a.txt": "1\n\ntwo\nthree\nfour\n"}, ""},
		{"a copy is changed", another, map[string]string{"d/b.txt": "1\n\ntwo\nthree\n"}, ""},
		{"a file is new", file + ignored, map[string]string{"c.go": "package c\n"}, ""},
		{"missing lines", strings.Replace(another, "-one", "-won", 1), nil, "a.txt has these lines 0 times"},
		{"lines that occur twice", strings.Replace(another, "-one", "", 1), nil, "times, want once"},
		{"a missing file", strings.Replace(another, "--- a.txt", "--- z.txt", 1), nil, "z.txt"},
		{"a file that exists", strings.Replace(file, "c.go", "a.txt", 1), nil, "a.txt exists already"},
		{"a diff without names", "~~~diff\n-one\n+1\n~~~\n", nil, "a diff begins with"},
	} {
		dir := t.TempDir()
		if err := create(dir, "a.txt", "one\n\ntwo\nthree\n"); err != nil {
			t.Fatal(err)
		}
		files, err := apply(dir, strings.ReplaceAll(c.page, "~~~", "```"))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(files, slices.Sorted(maps.Keys(c.want))) {
			t.Errorf("%s: touched %q, %v, want %q", c.name, files, err, slices.Sorted(maps.Keys(c.want)))
		}
		for name, want := range c.want {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
				t.Errorf("%s: %s is %q, %v, want %q", c.name, name, got, err, want)
			}
		}
	}
}
