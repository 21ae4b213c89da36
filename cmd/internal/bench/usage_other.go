//go:build !windows

package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage returns the resident memory of this process in bytes, or 0 where it cannot be read,
// and the processor time that it has used.
func usage() (resident uint64, processor time.Duration) {
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseUint(fields[1], 10, 64)
			resident = pages * uint64(os.Getpagesize())
		}
	}
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		processor = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return resident, processor
}
