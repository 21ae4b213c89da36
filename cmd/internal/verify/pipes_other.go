//go:build !windows

package verify

// These are asked of Windows only.

func pipeWithOldClient(*place) string { return "" }
func rightsOfClient(*place) string    { return "" }
func addedInstance(*place) string     { return "" }
func ownSecondInstance(*place) string { return "" }
