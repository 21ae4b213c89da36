package emulated

import (
	"os"
	"syscall"
	"testing"
)

// allocatedBytes returns the disk space that a file uses.
func allocatedBytes(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	ok(t, err)
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}
