package main

import (
	"bytes"
	"testing"
)

func TestGeneratedCodeIsThatOfTheProtoFile(t *testing.T) {
	for _, dir := range []string{"../../internal/simcontrol", "../../internal/admin"} {
		var stderr bytes.Buffer
		if code := run(t.Context(), []string{"-check", "-dir", dir}, &stderr); code != 0 {
			t.Errorf("%s: exit code %d\n%s", dir, code, &stderr)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"-chekc"}, &stderr); code != 2 {
		t.Errorf("unknown flag: exit code %d, want 2", code)
	}
	if code := run(t.Context(), []string{"-dir", t.TempDir()}, &stderr); code != 1 {
		t.Errorf("no proto file: exit code %d, want 1", code)
	}
}
