package logs_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/logs"
)

// An administrator may rename or delete the file. Windows does not let them.
func TestFileOfWhichTheNameIsGone(t *testing.T) {
	dir := t.TempDir()
	var fallback bytes.Buffer
	f := logs.NewFile(filepath.Join(dir, "a.log"), logs.Limits{Bytes: 20, Backups: 9}, "", &fallback, nil)
	defer f.Close()
	fmt.Fprintln(f, "a line of the first")
	if err := os.Rename(filepath.Join(dir, "a.log"), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, "a line of the second")
	fmt.Fprintln(f, "a line of the third")
	all := read(t, dir)
	if all["moved"] != "a line of the first\n" || strings.Join(inOrder(all), "") != "a line of the second\na line of the third\n" {
		t.Errorf("the files have %q", all)
	}
	if !strings.Contains(fallback.String(), "rotate log file") {
		t.Errorf("the fallback has %q, want why the file was not renamed", &fallback)
	}
}
