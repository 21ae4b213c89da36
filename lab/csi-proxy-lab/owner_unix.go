//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// owner returns the ID of the user to whom a file belongs, -1 if it is unknown.
func owner(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
