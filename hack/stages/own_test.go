package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The stage unit leaves out only tests that exist and that another stage runs.
func TestOtherStagesRunWhatUnitLeavesOut(t *testing.T) {
	var source strings.Builder
	for _, file := range []string{"../../test/operations/load_test.go", "../../cmd/internal/daemon/logs_test.go", "../../cmd/internal/daemon/flood_linux_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	stages, err := os.ReadFile("stages.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(ownStages, -1) {
		ran := strings.Contains(string(stages), `"-run", "^`+name+`$"`) || strings.Contains(name, "Flood") && strings.Contains(string(stages), `"-run", "Flood"`)
		if !strings.Contains(source.String(), "func "+name+"(") || !ran {
			t.Errorf("%s is left out of the stage unit, and is gone, or no stage runs it", name)
		}
	}
}

// The race detector runs on packages that start goroutines, and on tests that do.
func TestRacing(t *testing.T) {
	found, err := racingTests(t.Context(), "../../internal/...", "../../pkg/...")
	if err != nil {
		t.Fatal(err)
	}
	const root = "github.com/kubernetes-csi/csi-proxy/v2/"
	for name, want := range map[string]bool{"internal/apiserver/serve": true, "internal/node": true, "pkg/conformance": true, "internal/winpath": false, "pkg/disk": false} {
		if slices.Contains(found.packages, root+name) != want {
			t.Errorf("the stage race runs all tests of %s: %t, want %t", name, !want, want)
		}
	}
	if !slices.Contains(found.others, root+"pkg/disk") || !slices.Contains(found.tests, "TestRescanIsShared") || slices.Contains(found.tests, "TestPartitionDiskSearchesIfPartitionsHaveNoNames") {
		t.Errorf("of %q the stage race runs %q", found.others, found.tests)
	}
	t.Logf("all of %q\nsome of %q: %q", found.packages, found.others, found.tests)
}
