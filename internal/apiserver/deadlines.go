package apiserver

import "time"

// defaultDeadline is what a call gets that comes without a deadline, unless
// [deadlines] has its method. Most methods answer in milliseconds; when Windows
// waits for a device or a server, in a minute.
const defaultDeadline = 2 * time.Minute

// deadlines are the methods that may take longer, by their names in any version
// that has them.
var deadlines = map[string]time.Duration{
	// A quick format writes little, but to a volume of any size, on a disk that
	// may have just arrived.
	"FormatVolume": 10 * time.Minute,
	"ResizeVolume": 10 * time.Minute,

	// Windows asks each bus, and waits for volumes to arrive.
	"Rescan":        5 * time.Minute,
	"PartitionDisk": 5 * time.Minute,

	// What was written and is still in memory goes to the disk.
	"WriteVolumeCache": 5 * time.Minute,
	"UnmountVolume":    5 * time.Minute,
	"DismountVolume":   5 * time.Minute,

	// A tree of any number of files.
	"Rmdir":         10 * time.Minute,
	"RmdirContents": 10 * time.Minute,

	// Windows tries for minutes to reach a portal that does not answer.
	"AddTargetPortal":      5 * time.Minute,
	"DiscoverTargetPortal": 5 * time.Minute,
	"ConnectTarget":        5 * time.Minute,
	"DisconnectTarget":     5 * time.Minute,

	// Services stop one after the other, each as long as it makes progress.
	"StartService": 10 * time.Minute,
	"StopService":  10 * time.Minute,
}

// deadlineOf is the default deadline of a method, named without its service.
func deadlineOf(method string) time.Duration {
	if d, ok := deadlines[method]; ok {
		return d
	}
	return defaultDeadline
}
