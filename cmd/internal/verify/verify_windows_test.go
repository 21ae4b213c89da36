package verify

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/testbed"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
)

func needsWine(t *testing.T) {
	t.Helper()
	if !underWine() {
		t.Skip("needs Wine: on Windows, run csi-proxy-verify.exe itself")
	}
}

// The whole program, as far as Wine goes.
func TestUnderWine(t *testing.T) {
	needsWine(t)
	path := filepath.Join(t.TempDir(), "report")
	var out, trouble bytes.Buffer
	exit := Run(t.Context(), "test", []string{"-machine-settings", "-report", path}, nil, &out, &trouble)
	if exit != 0 {
		t.Errorf("exit code %d: %s\n%s", exit, trouble.String(), out.String())
	}
	text, err := os.ReadFile(path + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	const most = 124 // the rest needs Windows
	if r.Windows != wine || r.count(passed) != most {
		t.Errorf("on %s: %d ok, want %d on Wine:\n%s", r.Windows, r.count(passed), most, out.String())
	}
	t.Attr("measured", strings.TrimSpace("csi-proxy-verify under Wine: "+lastLine(out.String())))
	parent, err := systemDir()
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(parent, directoryPrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("the run left %q, %v", left, err)
	}
}

// What a killed run left is removed, and nothing else is.
func TestUndo(t *testing.T) {
	needsWine(t)
	parent, err := systemDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, directoryPrefix+"undo")
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	const service = "contract-undo"
	var services testbed.Services
	if err := services.Set(conformance.Service{Name: service}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing left
		for _, e := range []entry{{kindDirectory, dir}, {kindService, service}} {
			if err := undo(e); err != nil {
				t.Errorf("undo %+v: %v", e, err)
			}
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}

	other := t.TempDir()
	for _, e := range []entry{{kindDirectory, other}, {kindDirectory, parent}, {kindService, "RpcSs"}, {kindStopped, "RpcSs"},
		{kindAccount, "Administrator"}, {kindShare, "C$"}, {kindMapping, `\\server\share`}, {"disk", "1"}} {
		if err := undo(e); err == nil {
			t.Errorf("undo %+v: no error, although it is not of this program", e)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a directory of another program: %v", err)
	}
}
