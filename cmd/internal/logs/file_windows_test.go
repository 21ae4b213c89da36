package logs_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/logs"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/sddl"
)

// Windows does not rename a file that another program has open without sharing that. No
// line is lost, and the file is renamed later.
func TestFileThatAnotherProgramReads(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	var fallback bytes.Buffer
	f := logs.NewFile(path, logs.Limits{Bytes: 100, Backups: 9}, "", &fallback, nil)
	defer f.Close()
	want := ""
	line := func() {
		text := fmt.Sprintf("line %03d\n", len(want)/9)
		fmt.Fprint(f, text)
		want += text
	}
	line()
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		line()
	}
	if texts := inOrder(read(t, dir)); len(texts) != 1 || texts[0] != want || !strings.Contains(fallback.String(), "rotate log file") {
		t.Errorf("the files have %q\nfallback: %s", texts, &fallback)
	}
	reader.Close()
	for range 30 {
		line()
	}
	if texts := inOrder(read(t, dir)); len(texts) < 3 || strings.Join(texts, "") != want {
		t.Errorf("the files have %q", texts)
	}
}

// By what a directory inherits from the root of a volume, all users could put files into it.
func TestMadeDirectoryIsOfAdministrators(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "logs")
	f := logs.NewFile(filepath.Join(dir, "a.log"), logs.Limits{}, "", os.Stderr, nil)
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, path := range []string{filepath.Dir(dir), dir} {
		sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			t.Fatal(err)
		}
		entries, ok := sddl.Allowed(sd.String())
		if !ok || len(entries) == 0 {
			t.Fatalf("%s has the access %s", path, sd)
		}
		for _, e := range entries {
			if slices.Contains([]string{"WD", "AU", "BU", "IU"}, e.Account) {
				t.Errorf("%s: %s has access: %s", path, e.Account, sd)
			}
		}
	}
}
