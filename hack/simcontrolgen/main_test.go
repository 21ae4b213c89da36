package main

import (
	"bytes"
	"testing"
)

func TestGeneratedCodeIsThatOfTheProtoFile(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-check", "-dir", "../../internal/simcontrol"}, &stdout, &stderr); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
}

func TestWrongUsage(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-chekc"}, &stdout, &stderr); code != 2 {
		t.Errorf("unknown flag: exit code %d, want 2", code)
	}
	if code := run(t.Context(), []string{"-dir", t.TempDir()}, &stdout, &stderr); code != 1 {
		t.Errorf("no proto file: exit code %d, want 1", code)
	}
}
