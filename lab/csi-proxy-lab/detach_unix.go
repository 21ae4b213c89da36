//go:build unix

package main

import "syscall"

// detached makes a process that outlives the command, and its terminal.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
