//go:build !windows

package fmifs

import "os/exec"

func isolate(*exec.Cmd) {}

// confine does nothing, because there is no fmifs.dll. The child that tests start
// ends with its standard input.
func confine(int) (leave func(), err error) { return func() {}, nil }
