package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// A directory or file of the project, such as internal/policy.
	pathName = regexp.MustCompile(`^(client|cmd|examples|hack|internal|lab|pkg|test)/[\w./-]+$`)
	// A test, alone or after its directory, perhaps with the name of a case.
	testName = regexp.MustCompile(`^(?:([\w./-]+) )?((?:Test|Fuzz|Benchmark)[A-Z]\w*)(?:/.*)?$`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
)

// Directories, files and tests that a page names in code spans exist.
func TestNamesInPagesExist(t *testing.T) {
	tests := map[string]bool{}
	for name, text := range files(t, root, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) { // test/published has its modules below it
				tests[dir+" "+string(m[1])] = true
			}
		}
	}
	paths, named := 0, 0
	for _, p := range pages(t) {
		// The names of a changelog are those of its time.
		if p.name == "CHANGELOG.md" {
			continue
		}
		for _, span := range code.FindAllString(p.text, -1) {
			span = strings.Trim(span, "`")
			if pathName.MatchString(span) {
				paths++
				_, err := os.Stat(filepath.Join(root, span))
				if _, known := notThere[span]; err != nil && !known && !strings.HasPrefix(span, "client/api/disk/v2/") {
					t.Errorf("%s names %s, which is not in the repository", p.name, span)
				}
			}
			if m := testName.FindStringSubmatch(span); m != nil {
				named++
				if !tests[strings.TrimSpace(m[1]+" "+m[2])] {
					t.Errorf("%s names the test %s, which does not exist", p.name, span)
				}
			}
		}
	}
	if paths < 50 || named < 50 {
		t.Errorf("found %d paths and %d tests: the search is broken", paths, named)
	}
}

// notThere are names of files and directories outside of this repository, with the
// reason why a page has them.
var notThere = map[string]string{
	"client/api/disk/v2":    "docs/develop/adding-a-version.md has the reader make it",
	"client/groups/disk/v2": "docs/develop/adding-a-version.md has the reader make it",
	"pkg/wmi":               "a package of the published library",
	"pkg/cim":               "a package of the published library",
	"pkg/disk/api":          "a package of the published library",
}

// ARCHITECTURE.md names every package, or one above it.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	all := pages(t)
	text := all[slices.IndexFunc(all, func(p page) bool { return p.name == "ARCHITECTURE.md" })].text
	named := map[string]bool{
		"client/api":    true, // client/api/<group>/<version>
		"client/groups": true, // client/groups/<group>/<version>
		"client":        true, // PipePath
		"pkg":           true, // a directory without Go files
	}
	for _, span := range code.FindAllString(text, -1) {
		if name := strings.Trim(span, "`"); pathName.MatchString(name) {
			named[name] = true
		}
	}
	packages := 0
	for _, dir := range []string{"client", "cmd", "examples", "hack", "internal", "lab", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !d.IsDir() {
				return nil
			}
			if skip(path, d.Name()) {
				return filepath.SkipDir
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			name := filepath.ToSlash(rel)
			if named[name] && name != "client" && name != "pkg" {
				packages++
				return filepath.SkipDir
			}
			if files, err := filepath.Glob(filepath.Join(path, "*.go")); err != nil || len(files) > 0 && !named[name] {
				t.Errorf("ARCHITECTURE.md does not name package %s", name)
				return filepath.SkipDir
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if packages < 40 {
		t.Errorf("found %d packages: the search is broken", packages)
	}
}
