package rules_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Git for Windows turns LF into CRLF in a checkout unless .gitattributes says
// otherwise. Tests that compare files byte by byte, or read pages line by line, then
// fail.
func TestTextFilesAreCheckedOutWithLF(t *testing.T) {
	bytes, text := 0, 0
	for _, f := range tracked(t) {
		switch {
		case f.attributes == "-text":
			bytes++
			continue
		case strings.Contains(f.path, "/testdata/fuzz/"):
			t.Errorf("%s: a corpus is bytes, but its git attributes are %q, want -text", f.path, f.attributes)
			continue
		}
		text++
		if !strings.HasSuffix(f.attributes, "eol=lf") {
			t.Errorf("%s: git attributes %q, want eol=lf: see .gitattributes", f.path, f.attributes)
		}
		if f.index != "lf" && f.index != "none" {
			t.Errorf("%s: committed as %s, want lf; list a file of bytes in .gitattributes as -text, or write its CR as an escape", f.path, f.index)
		}
	}
	if bytes == 0 || text < 500 {
		t.Errorf("%d files of bytes, %d of text: git ls-files --eol was not understood", bytes, text)
	}
}

// trackedFile is a file in git's index.
type trackedFile struct {
	path       string
	index      string // its line ends: lf, crlf, mixed, none, or -text where git takes it for bytes
	attributes string // what .gitattributes says
}

// tracked lists the files that git knows.
func tracked(t *testing.T) []trackedFile {
	t.Helper()
	c := exec.Command("git", "ls-files", "--eol", "-z")
	c.Dir = root
	out, err := c.Output()
	if err != nil {
		t.Skipf("git ls-files: %v; it needs a clone of the repository and git", err)
	}
	var files []trackedFile
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, path, found := strings.Cut(entry, "\t")
		index, rest, _ := strings.Cut(info, " ")
		_, attributes, ok := strings.Cut(rest, "attr/")
		if !found || !ok {
			t.Fatalf("git ls-files --eol printed %q", entry)
		}
		files = append(files, trackedFile{path, strings.TrimPrefix(index, "i/"), strings.TrimSpace(attributes)})
	}
	return files
}
