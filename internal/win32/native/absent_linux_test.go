package native

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A function that is missing, as some are on Nano Server, must be an error: a call of it panics, in
// the process of the driver that links this. So each is looked for before it is called.
func TestFunctionsAreFoundBeforeTheyAreCalled(t *testing.T) {
	const root = "../../.."
	lazy, checked := regexp.MustCompile(`(\w+)\s*:?= .*\.NewProc\(`), 0
	var sources string // of this package
	for _, dir := range []string{"client", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if filepath.Dir(path) == filepath.Join(root, "internal/win32/native") {
				sources += string(text)
			}
			if filepath.Base(path) == "zsyscall_windows.go" {
				return nil
			}
			for _, m := range lazy.FindAllStringSubmatch(string(text), -1) {
				checked++
				if !strings.Contains(string(text), m[1]+".Find()") {
					t.Errorf("%s: %s.Find() is not called", path, m[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(proc\w+)\s+= mod`).FindAllStringSubmatch(sources, -1) {
		checked++
		if !regexp.MustCompile(m[1] + `\.Find\(\)|(found|dsc|dscGrow|dscList|dscTexts)\(` + m[1] + `\b`).MatchString(sources) {
			t.Errorf("%s is called without a look whether it exists", m[1])
		}
	}
	if checked < 30 {
		t.Errorf("%d functions were checked: the patterns do not find them", checked)
	}
}
