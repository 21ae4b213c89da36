package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	comparedFile = "docs/drivers/compared.md"
	defects      = 50
)

var (
	defectRow = regexp.MustCompile(`^\| <a id="d\d+"></a>D(\d+) \|(.*)\|$`)
	namedTest = regexp.MustCompile("^`([\\w./-]+) ((?:Test|Fuzz|Example)\\w+)(?:/([^`]+))?`$")
)

// The page stays true when tests are renamed.
func TestNamedTestsExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, comparedFile))
	if err != nil {
		t.Fatal(err)
	}
	tests := readTests(t)
	rows := map[int]bool{}
	for line := range strings.Lines(string(text)) {
		m := defectRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			if strings.HasPrefix(line, `| <a id="d`) {
				t.Errorf("row not understood: %s", line)
			}
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil || n < 1 || n > defects || rows[n] {
			t.Errorf("D%s is not a known defect, or has two rows", m[1])
		}
		rows[n] = true
		cells := strings.Split(m[2], " | ")
		if len(cells) != 3 {
			t.Errorf("D%d has %d cells, want the defect, what happens here, and the tests", n, len(cells))
			continue
		}
		if err := shown(strings.TrimSpace(cells[2]), tests); err != nil {
			t.Errorf("D%d: %v", n, err)
		}
	}
	for n := 1; n <= defects; n++ {
		if !rows[n] {
			t.Errorf("D%d has no row", n)
		}
	}
}

// shown checks a cell with names of tests.
func shown(cell string, tests map[string]*testDir) error {
	quoted := regexp.MustCompile("`[^`]*`")
	if rest := strings.Trim(quoted.ReplaceAllString(cell, ""), ", "); rest != "" || cell == "" {
		return fmt.Errorf("%q is not a list of tests", cell)
	}
	for _, name := range quoted.FindAllString(cell, -1) {
		m := namedTest.FindStringSubmatch(name)
		if m == nil {
			return fmt.Errorf("%s: want `directory TestName` or `directory TestName/case`", name)
		}
		dir, test, part := m[1], m[2], m[3]
		if dir == "test/published" && test == "TestCalls" {
			if !sectionExists(part) {
				return fmt.Errorf("the script has no section %q", part)
			}
			continue
		}
		d := tests[dir]
		switch {
		case d == nil || !slices.Contains(d.functions, test):
			return fmt.Errorf("%s has no %s", dir, test)
		case part != "" && !d.texts[part]:
			return fmt.Errorf("%s has no case %q", dir, part)
		}
	}
	return nil
}

// sectionExists reports whether the script has a section, named like "disk/v1/title".
func sectionExists(name string) bool {
	files, err := filepath.Glob(filepath.Join(root, "test/published/script/calls/*.txt"))
	if err != nil {
		return false
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(text)) {
			apis, title, _ := strings.Cut(strings.TrimPrefix(line, "=== "), ": ")
			api, ok := strings.CutSuffix(name, "/"+strings.TrimSpace(title))
			if ok && strings.HasPrefix(line, "=== ") && slices.Contains(strings.Fields(apis), api) {
				return true
			}
		}
	}
	return false
}

// testDir has the tests of a directory.
type testDir struct {
	functions []string
	texts     map[string]bool // string literals, some of which are names of cases
}

func readTests(t *testing.T) map[string]*testDir {
	t.Helper()
	dirs := map[string]*testDir{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && path != root && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata" || e.Name() == "bin") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, "_cases.go") { // of the contract
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		d := dirs[filepath.ToSlash(rel)]
		if d == nil {
			d = &testDir{texts: map[string]bool{}}
			dirs[filepath.ToSlash(rel)] = d
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil {
					d.functions = append(d.functions, n.Name.Name)
				}
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					d.texts[s] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) < 20 {
		t.Fatalf("found tests in only %d directories", len(dirs))
	}
	return dirs
}

func TestWrongNamesAreFound(t *testing.T) {
	tests := map[string]*testDir{"pkg/disk": {functions: []string{"TestA"}, texts: map[string]bool{"a case": true}}}
	for cell, good := range map[string]bool{
		"`pkg/disk TestA`":                          true,
		"`pkg/disk TestA/a case`, `pkg/disk TestA`": true,
		"`pkg/disk TestA/no case`":                  false,
		"`pkg/disk TestB`":                          false,
		"`pkg/disks TestA`":                         false,
		"`TestA`":                                   false,
		"TestA":                                     false,
		"`pkg/disk TestA` and more":                 false,
		"":                                          false,
		"none yet":                                  false,
		"`test/published TestCalls/disk/v1/no title`": false,
	} {
		if err := shown(cell, tests); (err == nil) != good {
			t.Errorf("%s: %v", cell, err)
		}
	}
}
