package hunt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// call makes a request of a process, and returns what the answer says.
type call func(ctx context.Context, p *process) (value string, err error)

// checked returns a call of a service that asks the daemon's rules first.
func checked[S, In, Out any](service func(*process) S, do func(S, context.Context, *In) (*Out, error), in *In, value func(*Out) string) call {
	return func(ctx context.Context, p *process) (string, error) {
		if err := p.rules.Check(in); err != nil {
			return "", err
		}
		out, err := do(service(p), ctx, in)
		if err != nil || value == nil {
			return "", err
		}
		return value(out), nil
	}
}

func diskCall[In, Out any](do func(disk.Interface, context.Context, *In) (*Out, error), in *In, value func(*Out) string) call {
	return checked(func(p *process) disk.Interface { return p.Disk }, do, in, value)
}

func volumeCall[In, Out any](do func(volume.Interface, context.Context, *In) (*Out, error), in *In, value func(*Out) string) call {
	return checked(func(p *process) volume.Interface { return p.Volume }, do, in, value)
}

func fileCall[In, Out any](do func(filesystem.Interface, context.Context, *In) (*Out, error), in *In, value func(*Out) string) call {
	return checked(func(p *process) filesystem.Interface { return p.Filesystem }, do, in, value)
}

func systemCall[In, Out any](do func(system.Interface, context.Context, *In) (*Out, error), in *In, value func(*Out) string) call {
	return checked(func(p *process) system.Interface { return p.System }, do, in, value)
}

// The paths of a disk object, and the sizes that its disk has one after the other.
var sizes = []uint64{128 * mib, 192 * mib, 256 * mib}

// generation returns the index of the size that a part of a disk was made for, or -1.
func generation(n uint64) int {
	return slices.IndexFunc(sizes, func(size uint64) bool { return n <= size && n+34*mib > size })
}

// diskObject is a disk with its volume and two directories to mount it on.
type diskObject struct {
	whole
	w      *world
	id     string
	number uint32 // as the driver knows it
	volume string // its ID, once it was there
	grown  int
}

// serial returns the serial number by which drivers find a disk.
func serial(id string) string { return "serial of " + id }

func (o *diskObject) name() string         { return o.id }
func (o *diskObject) path(i string) string { return base + `\` + o.id + `-` + i }

func (o *diskObject) requests() []string {
	return []string{
		"Rescan", "Find", "Find", "Partition", "Partition", "Online", "Online", "Offline", "State", "List", "Format", "Format", "IsFormatted", "Resize", "Stats", "Flush",
		"Mkdir0", "Mkdir1", "Rmdir0", "Rmdir1", "Mount0", "Mount0", "Mount1", "Unmount0", "Unmount1", "IsMounted0", "IsMounted1", "Exists0", "Exists1",
	}
}

func (o *diskObject) events() []string {
	return []string{"detach", "attach", "grow", "put0", "put1", "offline"}
}

func (o *diskObject) useful() []string {
	d, v := o.find(o.w.show())
	switch {
	case d == nil:
		return []string{"attach"}
	case d.Waiting:
		return []string{"Rescan"}
	case len(basic(d)) == 0:
		return []string{"Find", "Partition", "Partition", "Offline", "Online"}
	case !d.Online || v == nil || !v.Arrived:
		return []string{"Online"}
	case v.FileSystem == "":
		return []string{"IsFormatted", "Format", "Offline"}
	case !o.w.exists(o.path("0")):
		return []string{"Mkdir0"}
	case len(v.MountedAt) == 0:
		return []string{"Mount0", "Format"}
	case v.Entries == 1:
		return []string{"put0", "Resize", "IsMounted0"}
	case o.grown < len(sizes)-1 && d.SeenSize == d.Size:
		return []string{"grow", "IsFormatted", "IsMounted0", "Unmount0"}
	case d.SeenSize < d.Size:
		return []string{"Rescan", "Rescan", "Resize", "grow", "IsMounted0"}
	}
	return []string{"Rescan", "Find", "Resize", "Resize", "Stats", "Format", "IsMounted0", "Unmount0", "Offline", "Rmdir0"}
}

// find returns the disk and its volume on the node.
func (o *diskObject) find(info nodespec.State) (d *nodespec.DiskInfo, v *nodespec.VolumeInfo) {
	for i := range info.Disks {
		if info.Disks[i].ID == o.id {
			d = &info.Disks[i]
		}
	}
	if d == nil {
		return nil, nil
	}
	for i := range info.Volumes {
		if slices.Contains(info.Volumes[i].Disks, d.Number) {
			v = &info.Volumes[i]
		}
	}
	return d, v
}

func (o *diskObject) learn() {
	d, v := o.find(o.w.show())
	if d != nil {
		o.number = d.Number
	}
	if v != nil {
		o.volume = v.ID
	}
}

func (o *diskObject) prepare(op string) call {
	info := o.w.show()
	op, at := split(op)
	id, n, path := o.volume, o.number, o.path(at)
	if d, _ := o.find(info); d == nil {
		// The number that the disk had, or another one that no disk has.
		for slices.ContainsFunc(info.Disks, func(d nodespec.DiskInfo) bool { return d.Number == n }) {
			n++
		}
	}
	if slices.Contains([]string{"Partition", "Online", "Offline", "State", "List"}, op) {
		o.w.named = &n
	}
	if id == "" && slices.Contains([]string{"Format", "IsFormatted", "Resize", "Stats", "Flush", "Mount", "Unmount"}, op) {
		return nil
	}
	switch op {
	case "Rescan":
		return diskCall(disk.Interface.Rescan, &disk.RescanRequest{}, nil)
	case "Find":
		return diskCall(disk.Interface.ListDiskIDs, &disk.ListDiskIDsRequest{}, func(r *disk.ListDiskIDsResponse) string {
			for n, ids := range r.DiskIDs {
				if ids.SerialNumber == serial(o.id) {
					return fmt.Sprint(n)
				}
			}
			return "none"
		})
	case "Partition":
		return diskCall(disk.Interface.PartitionDisk, &disk.PartitionDiskRequest{DiskNumber: n}, nil)
	case "Online", "Offline":
		return diskCall(disk.Interface.SetDiskState, &disk.SetDiskStateRequest{DiskNumber: n, IsOnline: op == "Online"}, nil)
	case "State":
		return diskCall(disk.Interface.GetDiskState, &disk.GetDiskStateRequest{DiskNumber: n}, func(r *disk.GetDiskStateResponse) string { return fmt.Sprint(r.IsOnline) })
	case "List":
		return volumeCall(volume.Interface.ListVolumesOnDisk, &volume.ListVolumesOnDiskRequest{DiskNumber: n}, func(r *volume.ListVolumesOnDiskResponse) string { return fmt.Sprint(len(r.VolumeIDs)) })
	case "Format":
		return volumeCall(volume.Interface.FormatVolume, &volume.FormatVolumeRequest{VolumeID: id}, nil)
	case "IsFormatted":
		return volumeCall(volume.Interface.IsVolumeFormatted, &volume.IsVolumeFormattedRequest{VolumeID: id}, func(r *volume.IsVolumeFormattedResponse) string { return fmt.Sprint(r.Formatted) })
	case "Resize":
		return volumeCall(volume.Interface.ResizeVolume, &volume.ResizeVolumeRequest{VolumeID: id}, nil)
	case "Stats":
		return volumeCall(volume.Interface.GetVolumeStats, &volume.GetVolumeStatsRequest{VolumeID: id}, func(r *volume.GetVolumeStatsResponse) string {
			return fmt.Sprint(generation(uint64(r.TotalBytes)))
		})
	case "Flush":
		return volumeCall(volume.Interface.WriteVolumeCache, &volume.WriteVolumeCacheRequest{VolumeID: id}, nil)
	case "Mkdir":
		return fileCall(filesystem.Interface.Mkdir, &filesystem.MkdirRequest{Path: path}, nil)
	case "Rmdir":
		return fileCall(filesystem.Interface.Rmdir, &filesystem.RmdirRequest{Path: path}, nil)
	case "Exists":
		return fileCall(filesystem.Interface.PathExists, &filesystem.PathExistsRequest{Path: path}, func(r *filesystem.PathExistsResponse) string { return fmt.Sprint(r.Exists) })
	case "Mount":
		return volumeCall(volume.Interface.MountVolume, &volume.MountVolumeRequest{VolumeID: id, TargetPath: path}, nil)
	case "Unmount":
		return volumeCall(volume.Interface.UnmountVolume, &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: path}, nil)
	case "IsMounted":
		return volumeCall(volume.Interface.GetVolumeIDFromTargetPath, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: path}, func(r *volume.GetVolumeIDFromTargetPathResponse) string {
			if r.VolumeID != o.volume {
				return r.VolumeID
			}
			return "true"
		})
	}
	return nil
}

// split splits the digit at the end of an operation from its name.
func split(op string) (name, at string) {
	name = strings.TrimRight(op, "0123456789")
	return name, op[len(name):]
}

func (o *diskObject) happen(what string) ([]operation, bool) {
	info := o.w.show()
	d, v := o.find(info)
	op, at := split(what)
	var value string
	switch op {
	case "detach":
		if d == nil || o.w.m.Detach(d.Number) != nil {
			return nil, false
		}
	case "attach":
		if d != nil {
			return nil, false
		}
		n, err := o.w.m.Attach(nodespec.Disk{ID: o.id}) // with the lowest number that is free
		if err != nil {
			return nil, false
		}
		o.w.s.takes(o, n)
		value = fmt.Sprint(n)
	case "grow":
		if d == nil || o.grown == len(sizes)-1 || o.w.m.Grow(d.Number, sizes[o.grown+1]) != nil {
			return nil, false
		}
		o.grown++
	case "put": // a pod writes
		files, err := o.w.m.Files(o.path(at))
		if d == nil || v == nil || v.FileSystem == "" || err != nil || len(files) == 0 || files[0].Link == nil || !files[0].Link.Exists {
			return nil, false
		}
		if o.w.m.PutFile(o.path(at)+`\data`, false, 1) != nil {
			return nil, false
		}
	case "offline": // another program, which has no locks of ours, begins and ends at once
		if d == nil || d.Waiting || d.System || !d.Online {
			return nil, false
		}
		if err := setOffline(o.w.m, d.Number); err != nil {
			return nil, false
		}
	}
	return []operation{{op: what, value: value}}, true
}

func (o *diskObject) restarted(reboot bool) []operation {
	o.learn()
	ops := ifReboot(reboot)
	for i := range ops {
		ops[i].value = fmt.Sprint(o.number)
	}
	return ops
}

// ifReboot returns the event of a restart of Windows. That of CSI Proxy alone changes nothing.
func ifReboot(reboot bool) []operation {
	if !reboot {
		return nil
	}
	return []operation{{op: "reboot"}}
}

func (o *diskObject) observe() []operation {
	info := o.w.show()
	d, v := o.find(info)
	var value []string
	switch {
	case d == nil:
		value = append(value, "here=0")
	case d.Waiting:
		value = append(value, fmt.Sprintf("here=1 rest=%t", o.w.rest))
	default:
		value = append(value, fmt.Sprintf("here=2 online=%t style=%s parts=%d", d.Online, d.Style, len(basic(d))))
	}
	if d != nil && !d.Waiting && v != nil && d.Online && v.Arrived {
		value = append(value, fmt.Sprintf("fs=%t entries=%d", v.FileSystem != "", v.Entries))
	}
	for i := range 2 {
		files, err := o.w.m.Files(o.path(fmt.Sprint(i)))
		there := err == nil && len(files) > 0
		value = append(value, fmt.Sprintf("dir%d=%t mount%d=%t", i, there, i, there && files[0].Link != nil))
	}
	return []operation{{op: "observe", value: strings.Join(value, " ")}}
}

func basic(d *nodespec.DiskInfo) (parts []nodespec.PartitionInfo) {
	for _, p := range d.Partitions {
		if strings.EqualFold(p.Type, "{ebd0a0a2-b9e5-4433-87c0-68b6b72699c7}") {
			parts = append(parts, p)
		}
	}
	return parts
}

// exists reports whether a path exists on the node.
func (w *world) exists(path string) bool {
	files, err := w.m.Files(path)
	return err == nil && len(files) > 0
}

// foreignObject is a disk whose bytes are not CSI Proxy's. Whatever is asked, it stays.
type foreignObject struct {
	whole
	w  *world
	id string
}

func (o *foreignObject) name() string { return o.id }
func (o *foreignObject) requests() []string {
	return []string{"Partition", "Online", "List", "Format", "Mount0", "Resize"}
}
func (o *foreignObject) events() []string { return nil }
func (o *foreignObject) useful() []string { return nil }
func (o *foreignObject) learn()           {}
func (o *foreignObject) prepare(op string) call {
	own := diskObject{w: o.w, id: o.id}
	own.learn()
	return own.prepare(op)
}
func (o *foreignObject) happen(string) ([]operation, bool) { return nil, false }
func (o *foreignObject) restarted(bool) []operation        { return nil }
func (o *foreignObject) observe() []operation              { return nil }

// treeObject is a small tree of directories. Each path is a register, because requests that
// change several paths are seen half done by those that ask.
type treeObject struct {
	w   *world
	dir string
}

var treePaths = []string{"", `\a`, `\a\b`, `\d`, treeLink}

const treeLink = `\link`

func (o *treeObject) name() string { return "tree" }
func (o *treeObject) requests() []string {
	return []string{"MkdirB", "MkdirB", "MkdirD", "MkdirD", "Link", "Link", "IsLink", "RmdirA", "RmdirAll", "RmdirLink", "RmdirB", "RmdirD", "Empty", "Exists0", "Exists1", "Exists2", "Exists3", "Exists4"}
}
func (o *treeObject) learn() {}
func (o *treeObject) useful() []string {
	switch {
	case !o.w.exists(o.dir + `\d`):
		return []string{"MkdirD", "MkdirB"}
	case !o.w.exists(o.dir + treeLink):
		return []string{"Link"}
	}
	return []string{"RmdirLink", "RmdirAll", "Empty", "IsLink", "Link"}
}
func (o *treeObject) events() []string { return []string{"file", "swap", "lose"} }

func (o *treeObject) prepare(op string) call {
	mkdir := func(p string) call {
		return fileCall(filesystem.Interface.Mkdir, &filesystem.MkdirRequest{Path: o.dir + p}, nil)
	}
	rmdir := func(p string, force bool) call {
		return fileCall(filesystem.Interface.Rmdir, &filesystem.RmdirRequest{Path: o.dir + p, Force: force}, nil)
	}
	switch op {
	case "MkdirB":
		return mkdir(`\a\b`)
	case "MkdirD":
		return mkdir(`\d`)
	case "Link":
		return fileCall(filesystem.Interface.CreateSymlink, &filesystem.CreateSymlinkRequest{SourcePath: o.dir + `\d`, TargetPath: o.dir + `\link`}, nil)
	case "IsLink":
		return fileCall(filesystem.Interface.IsSymlink, &filesystem.IsSymlinkRequest{Path: o.dir + `\link`}, func(r *filesystem.IsSymlinkResponse) string { return fmt.Sprint(r.IsSymlink) })
	case "RmdirA":
		return rmdir(`\a`, true)
	case "RmdirAll":
		return rmdir("", true)
	case "RmdirLink":
		return rmdir(`\link`, false)
	case "RmdirB":
		return rmdir(`\a\b`, false)
	case "RmdirD":
		return rmdir(`\d`, false)
	case "Empty":
		return fileCall(filesystem.Interface.RmdirContents, &filesystem.RmdirContentsRequest{Path: o.dir}, nil)
	}
	_, at := split(op)
	return fileCall(filesystem.Interface.PathExists, &filesystem.PathExistsRequest{Path: o.dir + treePaths[at[0]-'0']}, func(r *filesystem.PathExistsResponse) string { return fmt.Sprint(r.Exists) })
}

func (o *treeObject) happen(what string) ([]operation, bool) {
	var err error
	switch what {
	case "file":
		err = o.w.m.PutFile(o.dir+`\a\file`, false, 1)
	case "swap":
		err = o.w.m.RenameFile(o.dir+`\d`, o.dir+`\a\b`)
	case "lose":
		err = o.w.m.RemoveFile(o.dir + `\d`)
	}
	return []operation{{op: what}}, err == nil
}

func (o *treeObject) restarted(bool) []operation { return nil }

func (o *treeObject) observe() (all []operation) {
	files, err := o.w.m.Files(o.dir)
	if err != nil {
		return nil
	}
	for i, p := range treePaths {
		at := slices.IndexFunc(files, func(f nodespec.File) bool { return strings.EqualFold(f.Path, o.dir+p) })
		all = append(all, operation{op: fmt.Sprintf("Exists%d", i), value: fmt.Sprint(at >= 0)})
		if p != treeLink {
			continue
		}
		kind := "some"
		switch {
		case at < 0:
			kind = "none"
		case files[at].Link != nil && files[at].Dir:
			kind = "link"
		case files[at].Link != nil:
			kind = "loose"
		}
		all = append(all, operation{op: "observe", value: kind})
	}
	return all
}

// serviceObject is the service Top, which depends on Base.
type serviceObject struct {
	whole
	w *world
}

func (o *serviceObject) name() string       { return "service" }
func (o *serviceObject) requests() []string { return []string{"Start", "Stop", "StopBase", "Get"} }
func (o *serviceObject) events() []string   { return nil }
func (o *serviceObject) useful() []string   { return nil }
func (o *serviceObject) learn()             {}
func (o *serviceObject) prepare(op string) call {
	switch op {
	case "Start":
		return systemCall(system.Interface.StartService, &system.StartServiceRequest{Name: "Top"}, nil)
	case "Stop", "StopBase":
		name := "Top"
		if op == "StopBase" {
			name = "Base"
		}
		return systemCall(system.Interface.StopService, &system.StopServiceRequest{Name: name, Force: true}, nil)
	}
	return systemCall(system.Interface.GetService, &system.GetServiceRequest{Name: "Top"}, func(r *system.GetServiceResponse) string { return fmt.Sprint(r.Status) })
}
func (o *serviceObject) happen(string) ([]operation, bool) { return nil, false }
func (o *serviceObject) restarted(reboot bool) []operation { return ifReboot(reboot) }
func (o *serviceObject) observe() []operation {
	for _, s := range o.w.show().Services {
		if s.Name == "Top" {
			return []operation{{op: "observe", value: s.Status}}
		}
	}
	return nil
}

// describeAnswer returns an answer in one line.
func describeAnswer(value string, err error) string {
	if err != nil {
		kind := hosterr.KindOf(err)
		if kind == nil {
			kind = errors.New("no kind")
		}
		return fmt.Sprintf("%v (%v)", err, kind)
	}
	return "success " + value
}

// whole is an object whose operations do one thing at one moment.
type whole struct{}

func (whole) halves(_ string, op operation) []operation { return []operation{op} }
