package main

import (
	"os"
	"regexp"
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
