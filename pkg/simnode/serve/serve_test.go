package serve_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	disks "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	filesystems "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	diskv1 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	diskv1beta1 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta1"
	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/control"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Servers of parallel tests do not affect each other.
func TestParallelServers(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			n := simnode.New(t)
			info, err := n.AttachDisk(simnode.Disk{Size: 1 << 30, Serial: fmt.Sprintf("serial-%d", i)})
			must(t, err)
			must(t, n.AwaitDisk(info.Number))
			s := serve.Start(t, n)
			c, err := diskv1.NewClientWithPipePath(s.PipePath(diskv1.GroupName, diskv1.Version))
			must(t, err)
			defer c.Close()
			out, err := c.ListDiskIDs(t.Context(), &disks.ListDiskIDsRequest{})
			must(t, err)
			if got := out.DiskIDs[3].GetSerialNumber(); got != fmt.Sprintf("serial-%d", i) {
				t.Errorf("disk 3 of node %d has the serial number %q", i, got)
			}
		})
	}
}

// A driver that calls NewClient without a path needs no change.
func TestStandardPipes(t *testing.T) {
	s := serve.Start(t, simnode.New(t), func(c *serve.Config) { c.StandardPipes = true })
	c, err := diskv1.NewClient()
	must(t, err)
	defer c.Close()
	_, err = c.Rescan(t.Context(), &disks.RescanRequest{})
	must(t, err)
	if dir := os.Getenv("CSI_PROXY_DIR"); dir != s.Dir() {
		t.Errorf("Dir = %q, want CSI_PROXY_DIR, which is %q", s.Dir(), dir)
	}
}

// An old proxy serves only old versions.
func TestSelectedVersions(t *testing.T) {
	s := serve.Start(t, simnode.New(t), func(c *serve.Config) { c.APIs = []string{"disk/v1beta1", "volume/v1beta1"} })
	if _, err := diskv1.NewClientWithPipePath(s.PipePath("disk", diskv1.Version)); err == nil {
		t.Error("a version that is not served has a pipe")
	}
	c, err := diskv1beta1.NewClientWithPipePath(s.PipePath("disk", diskv1beta1.Version))
	must(t, err)
	must(t, c.Close())

	_, err = serve.Open(simnode.New(t), serve.Config{APIs: []string{"disk/v9"}})
	if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), `"disk/v9"`) || !strings.Contains(err.Error(), "disk/v1beta1") {
		t.Errorf("Open with an unknown version = %v, want an error that lists the known ones", err)
	}
}

// Flags of csi-proxy say what is served and by which rules.
func TestFlags(t *testing.T) {
	s := serve.Start(t, simnode.New(t), func(c *serve.Config) {
		c.Flags = []string{"-enable-api=filesystem", `-working-dir=D:\csi`, "-read-only-api"}
	})
	if _, err := diskv1.NewClientWithPipePath(s.PipePath("disk", diskv1.Version)); err == nil {
		t.Error("a group that is not served has a pipe")
	}
	c, err := filesystemv1.NewClientWithPipePath(s.PipePath("filesystem", filesystemv1.Version))
	must(t, err)
	defer c.Close()
	_, err = c.PathExists(t.Context(), &filesystems.PathExistsRequest{Path: `D:\csi\a`})
	must(t, err)
	if _, err := c.Mkdir(t.Context(), &filesystems.MkdirRequest{Path: `D:\csi\a`}); err == nil || !strings.Contains(err.Error(), "read-only-api") {
		t.Errorf("Mkdir with -read-only-api: %v", err)
	}
	must(t, s.Replace(func(c *serve.Config) { c.Flags = []string{`-working-dir=D:\csi`} }))
	_, err = c.Mkdir(t.Context(), &filesystems.MkdirRequest{Path: `D:\csi\a`})
	if err != nil && strings.Contains(err.Error(), "read-only-api") {
		t.Errorf("Mkdir after a restart without -read-only-api: %v", err)
	}
	if disk, err := diskv1.NewClientWithPipePath(s.PipePath("disk", diskv1.Version)); err != nil {
		t.Errorf("after a restart with all groups: %v", err)
	} else {
		must(t, disk.Close())
	}
	for arg, want := range map[string]string{
		"-v=4": "want one of those that say what csi-proxy serves: -disk-content", "read-only-api": "want flags", "-disk-content=all": "want strict, cleaned or unknown",
		"-kubelet-path=": "want a directory", "-enable-api=disc": `no API "disc"`, "-working-dir=csi": "csi",
	} {
		_, err := serve.Open(simnode.New(t), serve.Config{Flags: []string{arg}})
		if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("flag %s: %v, want ErrInvalid and %q", arg, err, want)
		}
	}
}

// A driver's connection works again after the proxy was restarted.
func TestRestart(t *testing.T) {
	n := simnode.New(t)
	s := serve.Start(t, n)
	d, err := remote.NewDisk(t.Context(), remote.WithPipePath(s.PipePath))
	must(t, err)
	defer d.Close()
	rescan := func() error {
		_, err := d.Rescan(t.Context(), &disk.RescanRequest{})
		return err
	}
	must(t, rescan())
	must(t, s.Stop())
	must(t, s.Stop())
	if err := rescan(); !errors.Is(err, hosterr.ErrUnavailable) {
		t.Errorf("Rescan while the proxy is stopped = %v, want unavailable", err)
	}
	must(t, s.Restart())
	for err := rescan(); err != nil; err = rescan() {
		if !errors.Is(err, hosterr.ErrUnavailable) {
			t.Fatalf("Rescan after the proxy was restarted = %v", err)
		}
	}
	must(t, s.Restart()) // while the proxy runs
}

// A proxy that is killed in a call makes no further Win32 call, and the next one completes the
// work.
func TestKill(t *testing.T) {
	n := simnode.New(t)
	s := serve.Start(t, n)
	d, err := remote.NewDisk(t.Context(), remote.WithPipePath(s.PipePath))
	must(t, err)
	defer d.Close()
	partition := func() error {
		_, err := d.PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: 1})
		return err
	}
	in, killed := make(chan bool), make(chan bool)
	_, err = n.Fail(simnode.Fault{Call: winapi.DeviceIoControl, CodeName: "IOCTL_DISK_CREATE_DISK", Times: 1, Do: func() { close(in); <-killed }})
	must(t, err)
	answer := make(chan error)
	go func() { answer <- partition() }()
	<-in
	go func() {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
		close(killed)
	}()
	if err := <-answer; !errors.Is(err, hosterr.ErrUnavailable) {
		t.Errorf("PartitionDisk of a proxy that is killed = %v, want unavailable", err)
	}
	<-killed
	must(t, s.Kill())
	state := func() simnode.State {
		state, err := n.Show()
		must(t, err)
		return state
	}
	for len(state().OpenHandles) > 0 {
		runtime.Gosched()
	}
	if p := state().Disks[1].Partitions; len(p) > 0 {
		t.Errorf("the killed proxy has made the partitions %v", p)
	}
	must(t, s.Restart())
	for err := partition(); err != nil; err = partition() {
		if !errors.Is(err, hosterr.ErrUnavailable) {
			t.Fatalf("PartitionDisk of the next proxy = %v", err)
		}
	}
}

func TestCloseRemovesSockets(t *testing.T) {
	n := simnode.New(t)
	s, err := serve.Open(n, serve.Config{})
	must(t, err)
	dir, path := s.Dir(), s.PipePath("disk", apiversion.NewVersionOrPanic("v1"))
	must(t, s.Close())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat the directory of the sockets: %v, want that it does not exist", err)
	}
	if _, err := diskv1.NewClientWithPipePath(path); err == nil {
		t.Error("a closed server accepts connections")
	}
}

// Another process can change the node where the configuration allows it.
func TestControl(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("control.Open opens the standard pipe, and this server has pipes of its own; runs on Linux")
	}
	n := simnode.New(t)
	s := serve.Start(t, n, func(c *serve.Config) { c.Control = true })
	node, err := control.Open(t.Context(), s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	info, err := node.AttachDisk(simnode.Disk{Size: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.DetachDisk(info.Number); err != nil {
		t.Errorf("the disk that was attached through the pipe: %v", err)
	}
}
