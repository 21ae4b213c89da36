package main

import (
	"os"
	"os/exec"
	"testing"
)

// A process that has ended does not run, whether or not its parent has waited for it.
func TestRuns(t *testing.T) {
	if !runs(os.Getpid()) {
		t.Error("this process does not run")
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !runs(cmd.Process.Pid) {
		t.Error("sleep does not run")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a process that was killed was seen to have ended", func() bool { return !runs(cmd.Process.Pid) })
	_ = cmd.Wait() // killed
	if runs(cmd.Process.Pid) {
		t.Error("a process runs after its parent has waited for it")
	}
}
