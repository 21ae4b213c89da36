package native_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// zsyscall_windows.go has the calls of all prototypes.
func TestCallsAreThoseOfThePrototypes(t *testing.T) {
	const generated = "zsyscall_windows.go"
	sources, err := filepath.Glob("*_windows.go")
	if err != nil {
		t.Fatal(err)
	}
	sources = slices.DeleteFunc(sources, func(name string) bool { return name == generated || strings.HasSuffix(name, "_test.go") })
	out := filepath.Join(t.TempDir(), generated)
	// Built with -trimpath, it would not know GOROOT, and take every package for one of Go's own.
	c := exec.Command("go", append([]string{"run", "-trimpath=false", "golang.org/x/sys/windows/mkwinsyscall", "-output", out}, sources...)...)
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("mkwinsyscall: %v\n%s", err, said)
	}
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(generated); err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s is out of date (%v): run make generate", generated, err)
	}
}
