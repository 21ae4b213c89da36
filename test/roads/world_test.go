package roads

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// proxy is what a driver calls.
type proxy struct {
	disk   disk.Interface
	volume volume.Interface
	files  filesystem.Interface
	smb    smb.Interface
	lost   *loss // nil in process, where no response can be lost

	restart func() error // of CSI Proxy; nil in process
}

// A way is how a driver reaches CSI Proxy: the versions that it finds served, or the
// library in its own process.
type way struct {
	name string
	apis []string // nil in process
}

var inProcess = way{name: "in process"}

func served(name string, apis ...string) way { return way{name: name, apis: apis} }

// loss drops the response to one call: the call is made, and its caller gets an error.
type loss struct {
	mu    sync.Mutex
	skip  int    // calls to let through; negative means all
	which string // the method whose response was lost
}

func (l *loss) arm(skip int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skip, l.which = skip, ""
}

// disarm returns the method whose response was lost, if any was.
func (l *loss) disarm() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skip = -1
	return l.which
}

func (l *loss) intercept(ctx context.Context, method string, in, out any, c *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := call(ctx, method, in, out, c, opts...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.skip < 0 {
		return err
	}
	l.skip--
	if l.skip >= 0 {
		return err
	}
	l.which = method[strings.LastIndex(method, "/")+1:]
	return status.Error(codes.Unavailable, "the response was lost")
}

// connect returns n as a driver reaches it. formatExisting is -format-existing=ntfs.
func connect(t *testing.T, n *simnode.Node, w way, formatExisting bool) proxy {
	t.Helper()
	if w.apis == nil {
		return proxy{disk: n.Disk(), volume: n.Volume(), files: n.Filesystem(), smb: n.SMB()}
	}
	s := serve.Start(t, n, func(c *serve.Config) {
		c.APIs = w.apis
		c.WorkingDirs = []string{`C:\var\lib\kubelet`, discovery}
		c.FormatExisting = formatExisting
	})
	lost := &loss{skip: -1}
	var groups []string
	for _, api := range w.apis {
		group, _, _ := strings.Cut(api, "/")
		groups = append(groups, group)
	}
	c, err := pipes.Open(t.Context(), groups, remote.WithPipePath(s.PipePath), remote.WithDialOptions(grpc.WithChainUnaryInterceptor(lost.intercept)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy{c.Disk, c.Volume, c.Files, c.SMB, lost, s.Restart}
}

const (
	// The paths of the volume are spelled as a kubelet with its default --root-dir spells
	// them.
	staging   = `\var\lib\kubelet\plugins\kubernetes.io\csi\driver.example.com\5f2c\globalmount`
	target    = `c:\var\lib\kubelet\pods\6a1b\volumes\kubernetes.io~csi\pvc-1\mount`
	discovery = `C:\mnt\disks`

	share    = `\\files.example.com\data`
	user     = `AZURE\csi`
	password = "csi"

	gib = 1 << 30
)

// full returns the path as Windows' own calls need it.
func full(path string) string {
	if strings.HasPrefix(path, `\`) {
		return "C:" + path
	}
	return path
}

// normal is what every driver does with most of the paths that it gets.
func normal(path string) string {
	path = strings.ReplaceAll(path, "/", `\`)
	if strings.HasPrefix(path, `\`) {
		return "c:" + path
	}
	return path
}

func parent(path string) string { return path[:strings.LastIndex(path, `\`)] }

// A visit is one volume on one node, as one driver sees it.
type visit struct {
	proxy
	ctx             context.Context
	node            *simnode.Node
	staging, target string
	id              string // of the disk, to attach it again
	want            int64  // bytes, of the last expansion

	referenced bool // the SMB driver's own file about its use of the mapping
	probes     int
}

// write makes a file, as a program on the node could.
func (v *visit) write(path string) error {
	v.probes++
	return v.node.MakeFile(fmt.Sprintf(`%s\probe-%d`, full(path), v.probes))
}

// readable reports whether a program on the node can use the directory. A volume that
// refuses to be written is there.
func (v *visit) readable(path string) bool {
	err := v.write(path)
	return err == nil || protected(err)
}

// protected reports whether err is ERROR_WRITE_PROTECT.
func protected(err error) bool {
	return strings.HasSuffix(err.Error(), "The media is write protected.")
}

// ask makes a call, and returns a value of its response.
func ask[In, Out, V any](v *visit, method func(context.Context, *In) (*Out, error), in *In, value func(*Out) V) (got V, err error) {
	out, err := method(v.ctx, in)
	if err == nil {
		got = value(out)
	}
	return got, err
}

func (v *visit) exists(path string) (bool, error) {
	return ask(v, v.files.PathExists, &filesystem.PathExistsRequest{Path: normal(path)}, func(r *filesystem.PathExistsResponse) bool { return r.Exists })
}

func (v *visit) isLink(path string) (bool, error) {
	return ask(v, v.files.IsSymlink, &filesystem.IsSymlinkRequest{Path: path}, func(r *filesystem.IsSymlinkResponse) bool { return r.IsSymlink })
}

func (v *visit) mkdir(path string) error {
	_, err := v.files.Mkdir(v.ctx, &filesystem.MkdirRequest{Path: normal(path)})
	return err
}

func (v *visit) rmdir(path string) error {
	_, err := v.files.Rmdir(v.ctx, &filesystem.RmdirRequest{Path: normal(path), Force: true})
	return err
}

func (v *visit) link(source, target string) error {
	_, err := v.files.CreateSymlink(v.ctx, &filesystem.CreateSymlinkRequest{SourcePath: normal(source), TargetPath: normal(target)})
	return err
}

func (v *visit) volumeAt(path string) (string, error) {
	return ask(v, v.volume.GetVolumeIDFromTargetPath, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: path}, func(r *volume.GetVolumeIDFromTargetPathResponse) string { return r.VolumeID })
}

func (v *visit) diskOf(id string) (uint32, error) {
	return ask(v, v.volume.GetDiskNumberFromVolumeID, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: id}, func(r *volume.GetDiskNumberFromVolumeIDResponse) uint32 { return r.DiskNumber })
}

func (v *visit) sizeOf(id string) (int64, error) {
	return ask(v, v.volume.GetVolumeStats, &volume.GetVolumeStatsRequest{VolumeID: id}, func(r *volume.GetVolumeStatsResponse) int64 { return r.TotalBytes })
}

func (v *visit) diskSize(number uint32) (int64, error) {
	return ask(v, v.disk.GetDiskStats, &disk.GetDiskStatsRequest{DiskNumber: number}, func(r *disk.GetDiskStatsResponse) int64 { return r.TotalBytes })
}

func (v *visit) online(number uint32, online bool) error {
	_, err := v.disk.SetDiskState(v.ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: online})
	return err
}

func (v *visit) resize(id string) error {
	_, err := v.volume.ResizeVolume(v.ctx, &volume.ResizeVolumeRequest{VolumeID: id})
	return err
}

var errNoVolume = errors.New("ListVolumesOnDisk returned no volume")

// formatAndMount is the heart of all block drivers. They differ in whether they take
// the disk online, and in how they spell the target.
func (v *visit) formatAndMount(number uint32, target string, setOnline bool) error {
	if _, err := v.disk.PartitionDisk(v.ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return err
	}
	if setOnline {
		if err := v.online(number, true); err != nil {
			return err
		}
	}
	list, err := v.volume.ListVolumesOnDisk(v.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return err
	}
	if len(list.VolumeIDs) == 0 {
		return errNoVolume
	}
	id := list.VolumeIDs[0]
	formatted, err := v.volume.IsVolumeFormatted(v.ctx, &volume.IsVolumeFormattedRequest{VolumeID: id})
	if err != nil {
		return err
	}
	if !formatted.Formatted {
		if _, err := v.volume.FormatVolume(v.ctx, &volume.FormatVolumeRequest{VolumeID: id}); err != nil {
			return err
		}
	}
	_, err = v.volume.MountVolume(v.ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: target})
	return err
}

// unmount is how EBS, GCE PD and vSphere unstage a mounted volume.
func (v *visit) unmount(path string) error {
	id, err := v.volumeAt(path)
	if err != nil {
		return err
	}
	if _, err := v.volume.UnmountVolume(v.ctx, &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: path}); err != nil {
		return err
	}
	if err := v.rmdir(path); err != nil {
		return err
	}
	number, err := v.diskOf(id)
	if err != nil {
		return err
	}
	return v.online(number, false)
}

// clear removes what the kubelet made at a path that a driver wants to link.
func (v *visit) clear(path string) error {
	exists, err := v.exists(path)
	if err != nil || !exists {
		return err
	}
	return v.rmdir(path)
}

// linked is what the Azure and SMB drivers ask before they mount: is there a link
// already, and can it be read? A link that cannot is removed. So is one that IsSymlink
// fails for, if the driver itself gets one of certain errors for the path.
func (v *visit) linked(path string, remove func(string) error) (bool, error) {
	exists, err := v.exists(path)
	if err != nil || !exists {
		return false, err
	}
	is, err := v.isLink(normal(path))
	if err != nil && !v.corrupted(path) || err == nil && !is {
		return false, err
	}
	if err == nil && v.readable(path) {
		return true, nil
	}
	return false, remove(path)
}

// corrupted reports whether a program on the node gets an error that the drivers take
// for a lost connection: 53, 64, 65, 66, 67, 1219 or 1326.
func (v *visit) corrupted(path string) bool {
	// The directory does not exist, so nothing is made.
	err := v.node.MakeFile(full(path) + `\none\file`)
	return err != nil && slices.ContainsFunc([]string{
		"The network path was not found.",
		"The specified network name is no longer available.",
		"Network access is denied.",
		"The network resource type is not correct.",
		"The network name cannot be found.",
		"Multiple connections to a server or shared resource by the same user, using more than one user name, are not allowed. Disconnect all previous connections to the server or shared resource and try again.",
		"The user name or password is incorrect.",
	}, func(text string) bool { return strings.HasSuffix(err.Error(), text) })
}

// variable matches what differs between runs or says nothing here.
var variable = regexp.MustCompile(`(?i)\{?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}?`)

// short makes an error fit into a table.
func short(err error) string {
	text := strings.NewReplacer(normal(staging), "…globalmount", staging, "…globalmount", target, "…mount", `\\?\Volume`, "Volume").Replace(err.Error())
	text = variable.ReplaceAllString(text, "{…}")
	text = strings.Join(strings.Fields(text), " ")
	return strings.ReplaceAll(text, "|", `\|`)
}
