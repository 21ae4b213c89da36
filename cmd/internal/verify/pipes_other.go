//go:build !windows

package verify

// These are asked of Windows only.

func rightsOfClient(*place) string    { return "" }
func addedInstance(*place) string     { return "" }
func ownSecondInstance(*place) string { return "" }
func ownerRights(*place) string       { return "" }
func iscsiBuffers(*place) string      { return "" }
func disksOfMachine(*place) string    { return "" }
func partitionsOfOurs(*place) string  { return "" }
func largestSize(*place) string       { return "" }
func volumeOfReFS(*place) string      { return "" }
func bothFormats(*place) string       { return "" }
func bothMappings(*place) string      { return "" }
func loginToTarget(*place) string     { return "" }
