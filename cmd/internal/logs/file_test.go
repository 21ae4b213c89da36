package logs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/logs"
)

// read returns the content of the files of a directory, by name.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// inOrder returns the content of the backups of a.log, the oldest first, and that of a.log.
func inOrder(files map[string]string) (texts []string) {
	var names []string
	for name := range files {
		if strings.HasPrefix(name, "a-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range append(names, "a.log") {
		texts = append(texts, files[name])
	}
	return texts
}

func TestRotationKeepsEveryLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing", "logs")
	var fallback bytes.Buffer
	f := logs.NewFile(filepath.Join(dir, "a.log"), logs.Limits{Bytes: 40, Backups: 100}, "header\n", &fallback, nil)
	defer f.Close()
	want := ""
	for i := range 30 {
		line := fmt.Sprintf("line %02d\n", i)
		if n, err := f.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		want += line
		if got := strings.ReplaceAll(strings.Join(inOrder(read(t, dir)), ""), "header\n", ""); got != want {
			t.Fatalf("after line %d the files have\n%s", i, got)
		}
	}
	texts := inOrder(read(t, dir))
	for _, text := range texts {
		if len(text) > 40 || !strings.HasPrefix(text, "header\n") {
			t.Errorf("a file has %q, want a header and at most 40 bytes", text)
		}
	}
	if len(texts) != 8 || fallback.Len() > 0 { // four lines in each
		t.Errorf("%d files, want 8; fallback: %s", len(texts), &fallback)
	}
}

func TestOldBackupsAreDeleted(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-48 * time.Hour)
	for name, isOld := range map[string]bool{
		"a-20260101T000000.000.log": true,
		"a-20260102T000000.000.log": false,
		"a-20260103T000000.000.log": false,
		"a-20260104T000000.000.log": false,
		// Files of others.
		"a-notes.log": true, "a-crash.log": true, "a-20260101T000000.000.txt": true, "b-20260101T000000.000.log": true,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if isOld {
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() (names []string) {
		for name := range read(t, dir) {
			if !strings.HasSuffix(name, ".txt") && strings.HasPrefix(name, "a-2") {
				names = append(names, name[:len("a-20260101")])
			}
		}
		slices.Sort(names)
		return names
	}
	for _, c := range []struct {
		limits logs.Limits
		want   []string
	}{
		{logs.Limits{Backups: 4}, []string{"a-20260101", "a-20260102", "a-20260103", "a-20260104"}},
		{logs.Limits{Backups: 4, Age: 24 * time.Hour}, []string{"a-20260102", "a-20260103", "a-20260104"}},
		{logs.Limits{Backups: 2, Age: 24 * time.Hour}, []string{"a-20260103", "a-20260104"}},
		{logs.Limits{}, nil},
	} {
		f := logs.NewFile(filepath.Join(dir, "a.log"), c.limits, "", os.Stderr, nil)
		if err := errors.Join(f.Open(), f.Close()); err != nil {
			t.Fatal(err)
		}
		if got := left(); !slices.Equal(got, c.want) {
			t.Errorf("%+v leaves %q, want %q", c.limits, got, c.want)
		}
	}
	if n := len(read(t, dir)); n != 5 {
		t.Errorf("%d files are left, want a.log and the four of others", n)
	}
}

// A log file that cannot be opened loses no line, and is tried again.
func TestUnwritableFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "logs")
		if err := os.WriteFile(dir, nil, 0o600); err != nil { // no directory
			t.Fatal(err)
		}
		var fallback bytes.Buffer
		f := logs.NewFile(filepath.Join(dir, "a.log"), logs.Limits{}, "", &fallback, nil)
		defer f.Close()
		if err := f.Open(); err == nil || !strings.Contains(err.Error(), "open log file") {
			t.Errorf("Open = %v, want an error", err)
		}
		fmt.Fprintln(f, "one")
		time.Sleep(time.Minute)
		fmt.Fprintln(f, "two")
		if got := fallback.String(); !strings.HasPrefix(got, "one\nopen log file: ") || !strings.HasSuffix(got, "\ntwo\n") {
			t.Errorf("the fallback has %q", got)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		fmt.Fprintln(f, "three")
		if got := read(t, dir)["a.log"]; got != "three\n" {
			t.Errorf("the file has %q once it can be written", got)
		}
	})
}
