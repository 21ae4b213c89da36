package mountutils_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	mount "k8s.io/mount-utils"

	"github.com/kubernetes-csi/csi-proxy/mountutils"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// What public drivers assert of the Interface of their SafeFormatAndMount, in 2026.
type (
	azureFile interface {
		mount.Interface
		SMBMount(source, target, fsType string, mountOptions, sensitiveMountOptions []string) error
		MakeDir(path string) error
		Rmdir(path string) error
		IsMountPointMatch(mp mount.MountPoint, dir string) bool
		ExistsPath(path string) (bool, error)
		GetAPIVersions() string
		EvalHostSymlinks(pathname string) (string, error)
	}
	azureDisk interface { // without GetVolumeStats, which returns a type of CSI
		mount.Interface
		FormatAndMount(source, target, fstype string, options []string) error
		ExistsPath(path string) (bool, error)
		Rmdir(path string) error
		Rescan() error
		FindDiskByLun(lun string) (string, error)
		GetDeviceNameFromMount(mountPath, pluginMountDir string) (string, error)
		GetVolumeSizeInBytes(devicePath string) (int64, error)
		ResizeVolume(devicePath string) error
		GetAPIVersions() string
	}
	gcePD interface {
		mount.Interface
		GetAPIVersions() string
		RemovePodDir(target string) error
		UnmountDevice(target string) error
		GetDiskNumber(deviceName string, partition string, volumeKey string) (string, error)
		FormatAndMount(source string, target string, fstype string, options []string) error
		IsMountPointMatch(mp mount.MountPoint, dir string) bool
		ExistsPath(path string) (bool, error)
		GetDiskTotalBytes(devicePath string) (int64, error)
	}
)

var (
	_ azureFile = (*mountutils.Mounter)(nil)
	_ azureDisk = (*mountutils.Mounter)(nil)
	_ gcePD     = (*mountutils.Mounter)(nil)
)

const (
	gib     = 1 << 30
	kubelet = `C:\var\lib\kubelet`
	staging = kubelet + `\plugins\kubernetes.io\csi\example\vol\globalmount`
	target  = kubelet + `\pods\1\volumes\kubernetes.io~csi\vol\mount`
)

func newNode(t *testing.T) *simnode.Node {
	return simnode.New(t, func(c *simnode.Config) {
		c.Log = slog.New(slog.DiscardHandler)
		c.SMBServers = []simnode.SMBServer{{Name: "files", Shares: []string{"data"}, Accounts: []simnode.SMBAccount{{User: "ann", Password: "ann-1"}}}}
	})
}

// eachWay runs a test in process and through pipes.
func eachWay(t *testing.T, test func(t *testing.T, n *simnode.Node, m *mountutils.Mounter)) {
	open := func(t *testing.T, n *simnode.Node, on mounter.Node) *mountutils.Mounter {
		m, err := mountutils.New(on, mountutils.Options{Mounter: mounter.Options{Log: slog.New(slog.DiscardHandler), Local: local(n)}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	t.Run("in process", func(t *testing.T) {
		n := newNode(t)
		p, err := n.NewProcess(rules.Rules{})
		if err != nil {
			t.Fatal(err)
		}
		can := func(ctx context.Context) (context.Context, mounter.Abilities, error) {
			return ctx, mounter.AllAbilities(), nil
		}
		test(t, n, open(t, n, mounter.Node{Disk: p.Disk(), Volume: p.Volume(), Files: p.Filesystem(), SMB: p.SMB(), Can: can}))
	})
	t.Run("pipes", func(t *testing.T) {
		n := newNode(t)
		c, err := pipes.Open(t.Context(), []string{"disk", "volume", "filesystem", "smb"}, remote.WithPipePath(serve.Start(t, n).PipePath))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		test(t, n, open(t, n, c.Node))
	})
}

// local is the node's files as a container sees them that mounts the kubelet's directory.
func local(n *simnode.Node) mounter.Local {
	return mounter.Local{Readlink: func(p string) (string, error) {
		files, err := n.Files(p[:strings.LastIndexByte(p, '\\')])
		if i := slices.IndexFunc(files, func(f simnode.File) bool { return f.Path == p && f.Link != nil }); err == nil && i >= 0 {
			return strings.Replace(files[i].Link.Target, `\??\UNC\`, `\\`, 1), nil
		}
		return "", errors.Join(err, fs.ErrNotExist)
	}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func state(t *testing.T, n *simnode.Node) simnode.State {
	t.Helper()
	s, err := n.Show()
	must(t, err)
	return s
}

// The life of a disk's volume, as Azure Disk and GCE PD make the calls, each made twice.
func TestDisk(t *testing.T) {
	eachWay(t, func(t *testing.T, n *simnode.Node, m *mountutils.Mounter) {
		d, err := n.AttachDisk(simnode.Disk{Size: gib, Address: &simnode.Address{Port: 5, Lun: 7}, Identifiers: []simnode.Identifier{{CodeSet: "ascii", Type: 1, Text: "Google  pvc-1"}}})
		must(t, err)
		must(t, m.Rescan())
		must(t, n.AwaitDisk(d.Number))
		want := strconv.FormatUint(uint64(d.Number), 10)
		if byLUN, err := m.FindDiskByLun("7"); byLUN != want || err != nil {
			t.Errorf("FindDiskByLun: %q, %v, want %s", byLUN, err, want)
		}
		if byName, err := m.GetDiskNumber("pvc-1", "", "key"); byName != want || err != nil {
			t.Errorf("GetDiskNumber: %q, %v, want %s", byName, err, want)
		}
		if size, err := m.GetDiskTotalBytes(want); size != gib || err != nil {
			t.Errorf("GetDiskTotalBytes: %d, %v", size, err)
		}
		if not, err := m.IsLikelyNotMountPoint(staging); !not || !os.IsNotExist(err) {
			t.Errorf("IsLikelyNotMountPoint of nothing: %t, %v", not, err)
		}
		for range 2 {
			must(t, m.FormatAndMount(want, staging, "ntfs", nil))
			must(t, m.Mount(staging, target, "", []string{"bind"}))
		}
		for _, path := range []string{staging, target} {
			if is, err := m.IsMountPoint(path); !is || err != nil {
				t.Errorf("IsMountPoint of %s: %t, %v", path, is, err)
			}
			if refs, err := m.GetMountRefs(path); len(refs) != 1 || err != nil {
				t.Errorf("GetMountRefs of %s: %q, %v", path, refs, err)
			}
		}
		id, err := m.GetDeviceNameFromMount(target, "")
		must(t, err)
		must(t, n.GrowDisk(d.Number, 2*gib))
		must(t, m.ResizeVolume(id))
		if size, err := m.GetVolumeSizeInBytes(id); size < 2*gib-64<<20 || err != nil {
			t.Errorf("GetVolumeSizeInBytes: %d, %v", size, err)
		}
		for range 2 {
			must(t, m.Unmount(target))
			must(t, m.UnmountDevice(staging))
		}
		if mounts := state(t, n).Mounts; len(mounts) > 0 {
			t.Errorf("left on the node: %v", mounts)
		}
		for _, path := range []string{staging, target} {
			if there, err := m.ExistsPath(path); there || err != nil {
				t.Errorf("ExistsPath of %s: %t, %v", path, there, err)
			}
			if refs, err := m.GetMountRefs(path); len(refs) > 0 || err != nil {
				t.Errorf("GetMountRefs of nothing at %s: %q, %v", path, refs, err)
			}
		}
	})
}

// The life of a share, as Azure File and SMB make the calls, each made twice.
func TestShare(t *testing.T) {
	eachWay(t, func(t *testing.T, n *simnode.Node, m *mountutils.Mounter) {
		must(t, m.MakeDir(staging))
		for range 2 {
			must(t, m.SMBMount("//files/data", staging, "cifs", []string{"ann", "vers=3"}, []string{"ann-1"}))
			must(t, m.Mount(staging, target, "", []string{"bind"}))
		}
		if to, err := m.EvalHostSymlinks(staging); !strings.HasPrefix(to, `\\files\data`) || err != nil {
			t.Errorf("EvalHostSymlinks: %q, %v", to, err)
		}
		must(t, m.Unmount(target))
		if len(state(t, n).SMBMappings) != 1 {
			t.Error("the mapping went with a link to the staged share")
		}
		for range 2 {
			must(t, m.Unmount(staging))
		}
		if left := state(t, n).SMBMappings; len(left) > 0 {
			t.Errorf("left on the node: %v", left)
		}
		must(t, m.SMBMount("//files/data", staging, "cifs", []string{"ann"}, []string{"ann-1"}))
		must(t, n.SetSMBServerDown("files", true))
		if not, err := m.IsLikelyNotMountPoint(staging); not || err != nil {
			t.Errorf("IsLikelyNotMountPoint while the server is down: %t, %v", not, err)
		}
		must(t, n.SetSMBServerDown("files", false))
		must(t, m.Unmount(staging))
		for what, remove := range map[string]func(string) error{"Unmount": m.Unmount, "Rmdir": m.Rmdir} {
			must(t, m.MountSensitive(`\\files\data`, staging, "cifs", []string{"ann"}, []string{"ann-1"}))
			must(t, remove(staging))
			if left := state(t, n).SMBMappings; len(left) > 0 {
				t.Errorf("%s left on the node: %v", what, left)
			}
		}
	})
}

// A directory with content is never removed.
func TestContentIsKept(t *testing.T) {
	eachWay(t, func(t *testing.T, n *simnode.Node, m *mountutils.Mounter) {
		must(t, m.MakeDir(target))
		must(t, n.MakeFile(target+`\precious`))
		for what, err := range map[string]error{
			"Rmdir": m.Rmdir(target), "RemovePodDir": m.RemovePodDir(target), "Unmount": m.Unmount(target), "UnmountDevice": m.UnmountDevice(target),
		} {
			if err == nil {
				t.Errorf("%s of a directory with a file succeeded", what)
			}
		}
		if there, err := n.Filesystem().PathExists(t.Context(), &filesystem.PathExistsRequest{Path: target + `\precious`}); err != nil || !there.Exists {
			t.Errorf("the file is gone: %v", err)
		}
	})
}

// What is not possible is an error that says what is.
func TestRefused(t *testing.T) {
	eachWay(t, func(t *testing.T, n *simnode.Node, m *mountutils.Mounter) {
		refused := func(what string, err, kind error, text string) {
			t.Helper()
			if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %v that says %q", what, err, kind, text)
			}
		}
		_, err := m.List()
		refused("List", err, hosterr.ErrUnimplemented, "lists mounts")
		_, err = m.FindDiskByLun("seven")
		refused("LUN", err, hosterr.ErrInvalid, `LUN "seven"`)
		_, err = m.GetDiskNumber("pvc-1", "2", "")
		refused("partition", err, hosterr.ErrUnimplemented, `partition "2"`)
		_, err = m.GetDiskTotalBytes("-1")
		refused("disk number", err, hosterr.ErrInvalid, `disk "-1"`)
		refused("disk number", m.FormatAndMount("4294967296", target, "", nil), hosterr.ErrInvalid, "want a decimal number")
		refused("file system", m.FormatAndMount("0", target, "refs", nil), hosterr.ErrUnimplemented, "want ntfs")
		refused("one credential", m.Mount(`\\files\data`, target, "cifs", []string{"ann"}), hosterr.ErrInvalid, "with one option")
		refused("nothing staged", m.Mount(staging, target, "", nil), hosterr.ErrFailedPrecondition, "nothing is staged")
		_, err = m.GetDeviceNameFromMount(kubelet, "")
		refused("no volume", err, mounter.ErrNotMounted, "no volume is mounted there")
	})
	m, err := mountutils.New(mounter.Node{}, mountutils.Options{})
	must(t, err)
	for what, call := range map[string]func() error{
		"ExistsPath":           func() error { _, err := m.ExistsPath(target); return err },
		"Unmount":              func() error { return m.Unmount(target) },
		"FormatAndMount":       func() error { return m.FormatAndMount("1", target, "", nil) },
		"GetDiskTotalBytes":    func() error { _, err := m.GetDiskTotalBytes("1"); return err },
		"GetVolumeSizeInBytes": func() error { _, err := m.GetVolumeSizeInBytes("v"); return err },
		"ResizeVolume":         func() error { return m.ResizeVolume("v") },
	} {
		if err := call(); !errors.Is(err, hosterr.ErrUnimplemented) || !strings.Contains(err.Error(), "without the group") {
			t.Errorf("%s on a node without groups: %v", what, err)
		}
	}
	if _, err := mountutils.New(mounter.Node{}, mountutils.Options{Limit: -1}); !errors.Is(err, hosterr.ErrInvalid) {
		t.Errorf("a negative limit: %v", err)
	}
}

// hangs is a node on which no call ends before its context.
type hangs struct{ filesystem.Interface }

func (hangs) PathExists(ctx context.Context, _ *filesystem.PathExistsRequest) (*filesystem.PathExistsResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A call ends at the limit.
func TestLimit(t *testing.T) {
	m, err := mountutils.New(mounter.Node{Files: hangs{}}, mountutils.Options{Limit: time.Millisecond})
	must(t, err)
	if _, err := m.ExistsPath(target); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ExistsPath of a node that hangs: %v", err)
	}
	if _, err := m.IsMountPoint(target); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("IsMountPoint of a node that hangs: %v", err)
	}
	if err := m.Unmount(target); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Unmount on a node that hangs: %v", err)
	}
}

// late is a node whose answer comes when the time of the call is over.
type late struct{ volume.Interface }

func (l late) GetDiskNumberFromVolumeID(ctx context.Context, r *volume.GetDiskNumberFromVolumeIDRequest) (*volume.GetDiskNumberFromVolumeIDResponse, error) {
	out, err := l.Interface.GetDiskNumberFromVolumeID(context.WithoutCancel(ctx), r)
	<-ctx.Done()
	return out, err
}

// Unmount does not succeed without unmounting, even if all that it has asked for is answered.
func TestUnmountAtLimit(t *testing.T) {
	n := newNode(t)
	p, err := n.NewProcess(rules.Rules{})
	must(t, err)
	d, err := n.AttachDisk(simnode.Disk{Size: gib, Address: &simnode.Address{Port: 5, Lun: 7}})
	must(t, err)
	must(t, n.AwaitDisk(d.Number))
	on := mounter.Node{Disk: p.Disk(), Volume: p.Volume(), Files: p.Filesystem(), Can: func(ctx context.Context) (context.Context, mounter.Abilities, error) {
		return ctx, mounter.AllAbilities(), nil
	}}
	m, err := mountutils.New(on, mountutils.Options{})
	must(t, err)
	must(t, m.FormatAndMount(strconv.FormatUint(uint64(d.Number), 10), staging, "ntfs", nil))
	on.Volume = late{on.Volume}
	m, err = mountutils.New(on, mountutils.Options{Limit: 100 * time.Millisecond})
	must(t, err)
	if err := m.Unmount(staging); err == nil && len(state(t, n).Mounts) > 0 {
		t.Error("Unmount succeeded, and the volume is still mounted")
	}
}

// old is a proxy whose errors have no kind, and which counts what is written.
type old struct {
	volume.Interface
	at, disk error
	written  int
}

func (o *old) GetVolumeIDFromTargetPath(ctx context.Context, r *volume.GetVolumeIDFromTargetPathRequest) (*volume.GetVolumeIDFromTargetPathResponse, error) {
	if o.at != nil {
		return nil, o.at
	}
	return o.Interface.GetVolumeIDFromTargetPath(ctx, r)
}

func (o *old) GetDiskNumberFromVolumeID(ctx context.Context, r *volume.GetDiskNumberFromVolumeIDRequest) (*volume.GetDiskNumberFromVolumeIDResponse, error) {
	if o.disk != nil {
		return nil, o.disk
	}
	return o.Interface.GetDiskNumberFromVolumeID(ctx, r)
}

func (o *old) WriteVolumeCache(ctx context.Context, r *volume.WriteVolumeCacheRequest) (*volume.WriteVolumeCacheResponse, error) {
	o.written++
	return o.Interface.WriteVolumeCache(ctx, r)
}

// No volume is unmounted unwritten because a proxy without kinds of errors failed once.
func TestUnmountWrites(t *testing.T) {
	failed := errors.New("PowerShell failed")
	for what, o := range map[string]*old{"which volume": {at: failed}, "which disk": {disk: failed}} {
		n := newNode(t)
		p, err := n.NewProcess(rules.Rules{})
		must(t, err)
		d, err := n.AttachDisk(simnode.Disk{Size: gib, Address: &simnode.Address{Port: 5, Lun: 7}})
		must(t, err)
		must(t, n.AwaitDisk(d.Number))
		on := mounter.Node{Disk: p.Disk(), Volume: p.Volume(), Files: p.Filesystem(), Can: func(ctx context.Context) (context.Context, mounter.Abilities, error) {
			return ctx, mounter.AllAbilities(), nil
		}}
		m, err := mountutils.New(on, mountutils.Options{})
		must(t, err)
		must(t, m.FormatAndMount(strconv.FormatUint(uint64(d.Number), 10), staging, "ntfs", nil))
		o.Interface, on.Volume = on.Volume, o
		m, err = mountutils.New(on, mountutils.Options{})
		must(t, err)
		if err := m.Unmount(staging); err == nil && o.written == 0 {
			t.Errorf("unmounted, and not written, because it failed to say %s", what)
		}
		o.at, o.disk = nil, nil
		must(t, m.Unmount(staging))
		if o.written == 0 || len(state(t, n).Mounts) > 0 {
			t.Errorf("failed to say %s once: written %d times, mounted %v", what, o.written, state(t, n).Mounts)
		}
	}
}
