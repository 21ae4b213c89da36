package dllsearch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every program for Windows restricts the search before it does anything else.
func TestEveryProgramBeginsWithIt(t *testing.T) {
	programs := []string{}
	all, err := filepath.Glob("../../*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(file))
		if name == "csi-proxy-api-gen" { // not shipped
			continue
		}
		programs = append(programs, name)
		if !strings.Contains(string(text), "func main() {\n\tdllsearch.Main(") && !strings.Contains(string(text), "func main() { dllsearch.Main(") {
			t.Errorf("main of %s does not begin with dllsearch.Main", name)
		}
	}
	if want := []string{"csi-proxy", "csi-proxy-sim", "csi-proxy-verify", "csi-proxyctl"}; !slices.Equal(programs, want) {
		t.Errorf("programs %q, want %q", programs, want)
	}
}
