//go:build !windows

package logs

import "os"

// makeDirs makes a directory, and those above it, unless they exist.
func makeDirs(dir string) error { return os.MkdirAll(dir, 0o755) }
