package serve

import "time"

// defaultDeadline applies to calls without a deadline whose method is not in
// [deadlines]. Most methods take milliseconds, or up to a minute if Windows has to
// wait for a device or a server.
const defaultDeadline = 2 * time.Minute

// deadlines are the deadlines of methods that may take longer. A method name
// applies to all versions.
var deadlines = map[string]time.Duration{
	// A quick format writes little data, but the volume may be large and its disk
	// may have been attached just now.
	"FormatVolume": 10 * time.Minute,
	"ResizeVolume": 10 * time.Minute,

	// Windows scans every bus and waits for volumes to arrive.
	"Rescan":        5 * time.Minute,
	"PartitionDisk": 5 * time.Minute,

	// Windows writes its cache to the disk.
	"WriteVolumeCache": 5 * time.Minute,
	"UnmountVolume":    5 * time.Minute,
	"DismountVolume":   5 * time.Minute,

	// The tree may have any number of files.
	"Rmdir":         10 * time.Minute,
	"RmdirContents": 10 * time.Minute,

	// Windows tries for minutes to reach a portal that does not respond.
	"AddTargetPortal":      5 * time.Minute,
	"DiscoverTargetPortal": 5 * time.Minute,
	"ConnectTarget":        5 * time.Minute,
	"DisconnectTarget":     5 * time.Minute,

	// Services stop one after the other, and each may take as long as it makes
	// progress.
	"StartService": 10 * time.Minute,
	"StopService":  10 * time.Minute,
}

// deadlineOf returns the default deadline of a method, named without its service.
func deadlineOf(method string) time.Duration {
	if d, ok := deadlines[method]; ok {
		return d
	}
	return defaultDeadline
}
