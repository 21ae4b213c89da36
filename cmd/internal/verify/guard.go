package verify

import (
	"fmt"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// guard refuses calls that change a disk or volume which does not belong to the program.
type guard struct {
	api  win32.API
	owns func(disk uint32) (bool, error)

	mu      sync.Mutex
	volumes map[string]uint32 // the disk of each own volume, for the time when it is offline
	refused []string
}

// harmless reports whether a control code changes nothing on a disk or volume, or nothing but
// what Windows knows about it. A lock keeps others out; those of reparse points are of files,
// which no guard of disks is about.
func harmless(c *win32.Call) bool {
	switch c.Code {
	case win32.FSCTL_LOCK_VOLUME:
		return false
	case win32.FSCTL_SET_REPARSE_POINT, win32.FSCTL_DELETE_REPARSE_POINT:
		return true
	}
	return !c.Changed(nil)
}

// hook is for [win32.Observe].
func (g *guard) hook(c *win32.Call) error {
	var own bool
	var err error
	switch c.Name {
	case "DeviceIoControl":
		if harmless(c) {
			return c.Do()
		}
		own, err = g.ownsHandle(c.Handle, c.Path)
	case "WriteAt":
		own, err = g.ownsHandle(c.Handle, c.Path)
	case "Format":
		own, err = g.ownsVolume(c.Path)
	default:
		return c.Do()
	}
	switch {
	case err != nil: // the device is gone
		return err
	case own:
		return c.Do()
	}
	g.mu.Lock()
	g.refused = append(g.refused, fmt.Sprintf("%s %s on %s", c.Name, win32.ControlCodeName(c.Code), c.Path))
	g.mu.Unlock()
	return win32.ERROR_WRITE_PROTECT // which no host tries again
}

// refusals are the calls that were refused.
func (g *guard) refusals() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// ownsVolume reports whether all of a volume is on own disks.
func (g *guard) ownsVolume(name string) (bool, error) {
	path := strings.TrimSuffix(name, `\`)
	h, err := g.api.CreateFile(path, 0, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
	if err != nil {
		return false, err
	}
	defer g.api.CloseHandle(h)
	return g.ownsHandle(h, path)
}

// ownsHandle asks the open device itself on which disks it is, because numbers and names
// are given out again.
func (g *guard) ownsHandle(h win32.Handle, path string) (bool, error) {
	out := make([]byte, 1024)
	n, failure := g.api.DeviceIoControl(h, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, out)
	if failure == nil {
		extents, err := win32.DecodeExtents(out[:n])
		if err != nil || len(extents) == 0 {
			return false, fmt.Errorf("extents of a volume: %d, %w", len(extents), err)
		}
		for _, e := range extents {
			if own, err := g.owns(e.Disk); !own || err != nil {
				return false, err
			}
		}
		g.mu.Lock()
		g.volumes[strings.ToLower(path)] = extents[0].Disk
		g.mu.Unlock()
		return true, nil
	}
	if n, failure = g.api.DeviceIoControl(h, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, out); failure == nil {
		d, err := win32.DecodeDeviceNumber(out[:n])
		if err != nil {
			return false, err
		}
		return g.owns(d.DeviceNumber)
	}
	// A volume that is offline answers neither.
	var disk, partition uint32
	if _, scan := fmt.Sscanf(strings.ToLower(path), `\\?\harddisk%dpartition%d`, &disk, &partition); scan == nil {
		return g.owns(disk)
	}
	g.mu.Lock()
	disk, known := g.volumes[strings.ToLower(path)]
	g.mu.Unlock()
	if !known {
		return false, failure
	}
	return g.owns(disk)
}
