package simnode

import (
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// State is a node as it is.
type State struct {
	Disks        []DiskInfo
	Volumes      []VolumeInfo
	Services     []ServiceInfo
	ISCSITargets []ISCSITargetInfo
	// ISCSIPortals are registered with the node's initiator.
	ISCSIPortals []ISCSIPortal
	SMBServers   []SMBServerInfo
	SMBMappings  []SMBMappingInfo
	// Detached are the identities of disks that can be attached again.
	Detached []string
	// Faults are those that Fail has begun, used up or not.
	Faults []Fault
	// OpenHandles are what the handles that are open were opened with. There
	// are none while no call is running; a test that finds some has found a leak.
	OpenHandles []string
}

// DiskInfo is an attached disk.
type DiskInfo struct {
	Number     uint32
	ID         string // lasting identity; a detached disk comes back by it
	Image      string // the file that holds its content
	Size       Size
	SeenSize   Size // what Windows knows of, which lags behind until a rescan
	SectorSize uint32
	Style      string // "RAW", "MBR", "GPT"
	Serial     string
	Page83     string
	Online     bool
	ReadOnly   bool
	System     bool // holds C:
	Waiting    bool // for a rescan to be seen at all
}

// ServiceInfo is a Windows service.
type ServiceInfo struct {
	Service
	// Status is "stopped", "start pending", "stop pending", "running" or "paused".
	Status string
}

// VolumeInfo is a volume.
type VolumeInfo struct {
	ID         string   // \\?\Volume{…}\
	Disks      []uint32 // more than one for a spanned volume
	Offset     Size     // on the first of them
	Size       Size
	Arrived    bool   // Windows sees it
	FileSystem string // empty for a volume without one
	Entries    int    // files and directories, the root among them
	MountedAt  []string
}

// Show tells what the node consists of.
func (n *Node) Show() (State, error) {
	info, err := n.emulated.Show()
	if err != nil {
		return State{}, err
	}
	if info.Broken != "" {
		return State{}, fmt.Errorf("simulated node: every call fails: %s", info.Broken)
	}
	ids, err := n.bare.ListDiskIDs()
	if err != nil {
		return State{}, err
	}
	state := State{Detached: info.Detached, Faults: n.faults.show(), OpenHandles: n.emulated.OpenHandles()}
	for _, d := range info.Disks {
		state.Disks = append(state.Disks, DiskInfo{
			Number: d.Number, ID: d.ID, Image: d.Image, Size: Size(d.Size), SeenSize: Size(d.SeenSize), SectorSize: d.SectorSize, Style: d.Style,
			Serial: ids[d.Number].SerialNumber, Page83: ids[d.Number].Page83,
			Online: !d.Offline, ReadOnly: d.ReadOnly, System: d.System, Waiting: d.Waiting,
		})
	}
	if err := n.showSMB(&state, info); err != nil {
		return State{}, err
	}
	state.ISCSITargets = iscsiTargets(info.ISCSITargets)
	for _, p := range info.ISCSIPortals {
		state.ISCSIPortals = append(state.ISCSIPortals, ISCSIPortal(p))
	}
	for _, s := range info.Services {
		described, err := translate[Service](s.ServiceConfig)
		if err != nil {
			return State{}, err
		}
		state.Services = append(state.Services, ServiceInfo{described, s.Status})
	}
	for _, v := range info.Volumes {
		state.Volumes = append(state.Volumes, VolumeInfo{
			ID: v.Name, Disks: v.Disks, Offset: Size(v.Offset), Size: Size(v.Length),
			Arrived: v.Arrived, FileSystem: v.FileSystem, Entries: v.Entries, MountedAt: v.Paths,
		})
	}
	return state, nil
}

// diskInfo finds a disk by its number.
func (n *Node) diskInfo(op string, number uint32) (DiskInfo, error) {
	state, err := n.Show()
	if err != nil {
		return DiskInfo{}, err
	}
	i := slices.IndexFunc(state.Disks, func(d DiskInfo) bool { return d.Number == number })
	if i < 0 {
		return DiskInfo{}, hosterr.Wrap(op, fmt.Sprintf("disk %d", number), hosterr.ErrNotFound)
	}
	return state.Disks[i], nil
}

// refused is an error of the emulation's own controls: what was asked for
// cannot be done.
func refused(err error) error {
	if err == nil {
		return nil
	}
	return hosterr.Text(hosterr.ErrInvalid, "%w", err)
}

// AttachDisk plugs in a new disk, or one that was detached if d.ID is its
// identity.
func (n *Node) AttachDisk(d Disk) (DiskInfo, error) {
	c, err := translate[emulated.DiskConfig](d)
	if err != nil {
		return DiskInfo{}, refused(err)
	}
	number, err := n.emulated.Attach(c)
	if err != nil {
		return DiskInfo{}, refused(err)
	}
	return n.diskInfo("attach", number)
}

// DetachDisk pulls a disk out, whatever uses it. What is on it stays, until it
// is attached again by its ID.
func (n *Node) DetachDisk(number uint32) error {
	if _, err := n.diskInfo("detach", number); err != nil {
		return err
	}
	return refused(n.emulated.Detach(number))
}

// GrowDisk gives a disk a new, larger size. Windows sees it with the next
// rescan.
func (n *Node) GrowDisk(number uint32, size Size) error {
	if _, err := n.diskInfo("grow", number); err != nil {
		return err
	}
	return refused(n.emulated.Grow(number, uint64(size)))
}

// SetService makes a Windows service, or replaces the one of that name.
func (n *Node) SetService(s Service) error {
	c, err := translate[emulated.ServiceConfig](s)
	if err != nil {
		return refused(err)
	}
	return refused(n.emulated.SetService(c))
}

// Reboot restarts the node's Windows: handles die, disks come up as they were
// last set to, services run that Windows starts by itself, and what was grown
// or attached is seen. Files, volumes and
// mounts stay.
func (n *Node) Reboot() error { return refused(n.emulated.Reboot()) }
