package rules_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Git for Windows changes LF to CRLF in a checkout unless .gitattributes prevents it.
// With CRLF, tests fail that compare files byte by byte or read pages line by line.
func TestTextFilesHaveLF(t *testing.T) {
	bytes, text := 0, 0
	for _, f := range tracked(t) {
		switch {
		case f.attributes == "-text":
			bytes++
			continue
		case strings.Contains(f.path, "/testdata/fuzz/"):
			t.Errorf("%s: git attributes %q, want -text for a fuzz corpus", f.path, f.attributes)
			continue
		}
		text++
		if !strings.HasSuffix(f.attributes, "eol=lf") {
			t.Errorf("%s: git attributes %q, want eol=lf: see .gitattributes", f.path, f.attributes)
		}
		if f.index != "lf" && f.index != "none" {
			t.Errorf("%s: committed with line ends %s, want lf; list a binary file as -text in .gitattributes, or escape its CR", f.path, f.index)
		}
	}
	if bytes == 0 || text < 500 {
		t.Errorf("%d binary files, %d text files: the output of git ls-files --eol was not understood", bytes, text)
	}
}

// trackedFile is a file in git's index.
type trackedFile struct {
	path       string
	index      string // its line ends: lf, crlf, mixed, none, or -text for a binary file
	attributes string // what .gitattributes says
}

// tracked returns the files that git tracks.
func tracked(t *testing.T) []trackedFile {
	t.Helper()
	c := exec.Command("git", "ls-files", "--eol", "-z")
	c.Dir = root
	out, err := c.Output()
	if err != nil {
		t.Skipf("needs git and a clone of the repository: git ls-files: %v", err)
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
