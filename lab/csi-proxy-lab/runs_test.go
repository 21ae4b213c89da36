package main

import (
	"os"
	"os/exec"
	"testing"
	"time"
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
	for deadline := time.Now().Add(10 * time.Second); runs(cmd.Process.Pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a killed process runs until its parent waits for it")
		}
	}
	_ = cmd.Wait() // killed
	if runs(cmd.Process.Pid) {
		t.Error("a process runs after its parent has waited for it")
	}
}
