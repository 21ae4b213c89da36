//go:build !windows

package driver

// UnderWine reports whether this Windows is Wine. This is neither.
func UnderWine() bool { return false }
