//go:build !windows

package driver

// UnderWine tells Wine from Windows, of which this is neither.
func UnderWine() bool { return false }
