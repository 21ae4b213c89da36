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

// Windows does not rename a file that another program has open without sharing that. No
// line is lost, and the file is renamed later.
func TestFileThatAnotherProgramReads(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	var fallback bytes.Buffer
	f := logs.NewFile(path, logs.Limits{Bytes: 100, Backups: 9}, "", &fallback)
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
