package migrating

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/test/migrating/after"
	"github.com/kubernetes-csi/csi-proxy/v2/test/migrating/alpha"
	"github.com/kubernetes-csi/csi-proxy/v2/test/migrating/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/test/migrating/shell"
)

// diskMounter is implemented by the mounters before and after the migration.
type diskMounter interface {
	FormatAndMount(ctx context.Context, serial, target string) error
	Unmount(ctx context.Context, target string) error
	Expand(ctx context.Context, target string) error
	Publish(ctx context.Context, source, target string) error
	Unpublish(ctx context.Context, target string) error
}

type shareMounter interface {
	MountShare(ctx context.Context, share, target, user, password string) error
	UnmountShare(ctx context.Context, share, target string) error
}

var (
	_ diskMounter  = (*pipes.Mounter)(nil)
	_ diskMounter  = after.Mounter{}
	_ shareMounter = (*alpha.Mounter)(nil)
	_ shareMounter = after.Mounter{}
	_ interface {
		FormatAndMount(ctx context.Context, serial, target string) error
		Expand(ctx context.Context, target string) error
		MountShare(ctx context.Context, share, target, user, password string) error
	} = shell.Mounter{}
)

func node(t *testing.T) *simnode.Node {
	return simnode.New(t, func(c *simnode.Config) { c.Log = slog.New(slog.DiscardHandler) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	staged = `C:\var\lib\kubelet\plugins\kubernetes.io\csi\vol-1\globalmount`
	pod    = `C:\var\lib\kubelet\pods`
)

// inProcess returns the mounter of a HostProcess container, on a simulated node.
func inProcess(t *testing.T, n *simnode.Node) after.Mounter {
	t.Helper()
	p, err := n.NewProcess(rules.Rules{})
	must(t, err)
	m, err := mounter.New(mounter.Node{
		Disk: p.Disk(), Volume: p.Volume(), Files: p.Filesystem(), SMB: p.SMB(),
		Can: func(ctx context.Context) (context.Context, mounter.Abilities, error) {
			return ctx, mounter.AllAbilities(), nil
		},
	}, mounter.Options{})
	must(t, err)
	return after.Mounter{Mounter: m}
}

// throughPipes returns the mounter of a container that uses pipes.
func throughPipes(t *testing.T, n *simnode.Node) after.Mounter {
	t.Helper()
	m, err := after.ThroughPipes(t.Context(), remote.WithPipePath(serve.Start(t, n).PipePath))
	must(t, err)
	return m
}

// The mounters before and after the migration handle a volume in the same way.
func TestMountersOfDisks(t *testing.T) {
	for name, connect := range map[string]func(t *testing.T, n *simnode.Node) diskMounter{
		"client v1.x": func(t *testing.T, n *simnode.Node) diskMounter {
			serve.Start(t, n, func(c *serve.Config) { c.StandardPipes = true })
			m, err := pipes.NewMounter()
			must(t, err)
			t.Cleanup(m.Close)
			return m
		},
		"after, in process":    func(t *testing.T, n *simnode.Node) diskMounter { return inProcess(t, n) },
		"after, through pipes": func(t *testing.T, n *simnode.Node) diskMounter { return throughPipes(t, n) },
	} {
		t.Run(name, func(t *testing.T) {
			n := node(t)
			m := connect(t, n)
			ctx := t.Context()
			d, err := n.AttachDisk(simnode.Disk{Size: 10 << 30, Serial: "vol-1"})
			must(t, err)
			must(t, n.AwaitDisk(d.Number))
			must(t, m.FormatAndMount(ctx, "vol-1", staged))
			must(t, m.FormatAndMount(ctx, "vol-1", staged)) // the kubelet retries
			mounted := func() (at []string, size uint64) {
				state, err := n.Show()
				must(t, err)
				for _, v := range state.Volumes {
					if v.Disks[0] == d.Number && v.FileSystem == "NTFS" {
						return v.MountedAt, uint64(v.Size)
					}
				}
				t.Fatalf("disk %d has no formatted volume", d.Number)
				return nil, 0
			}
			at, small := mounted()
			if !strings.Contains(strings.Join(at, " "), `globalmount`) {
				t.Errorf("mounted at %q, want %q", at, staged)
			}
			must(t, m.Publish(ctx, staged, pod+`\mount`))
			must(t, n.GrowDisk(d.Number, 20<<30))
			must(t, m.Expand(ctx, staged))
			if _, size := mounted(); size < small+9<<30 {
				t.Errorf("the volume grew from %d to %d bytes, want at least 9 GiB more", small, size)
			}
			must(t, m.Unpublish(ctx, pod+`\mount`))
			must(t, m.Unmount(ctx, staged))
			must(t, m.Unmount(ctx, staged))
			if at, _ := mounted(); len(at) > 0 {
				t.Errorf("still mounted at %q", at)
			}
			soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			if err := m.FormatAndMount(soon, "vol-2", staged); err == nil {
				t.Error("FormatAndMount of a missing disk succeeded")
			}
		})
	}
}

// With the mounters before and after the migration, two links share a mapping.
func TestMountersOfShares(t *testing.T) {
	for name, connect := range map[string]func(t *testing.T, n *simnode.Node) (first, restarted shareMounter){
		"alpha": func(_ *testing.T, n *simnode.Node) (first, restarted shareMounter) {
			return &alpha.Mounter{Disk: n.Disk(), Volume: n.Volume(), Filesystem: n.Filesystem(), SMB: n.SMB()}, nil
		},
		"after, in process": func(t *testing.T, n *simnode.Node) (first, restarted shareMounter) {
			return inProcess(t, n), inProcess(t, n)
		},
		"after, through pipes": func(t *testing.T, n *simnode.Node) (first, restarted shareMounter) {
			return throughPipes(t, n), throughPipes(t, n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := node(t)
			m, restarted := connect(t, n)
			ctx := t.Context()
			const share = `\\files.example.com\data`
			one, two := `C:\var\lib\kubelet\plugins\smb\pv-1\globalmount`, `C:\var\lib\kubelet\plugins\smb\pv-2\globalmount`
			mappings := func(want int) {
				t.Helper()
				state, err := n.Show()
				must(t, err)
				if len(state.SMBMappings) != want {
					t.Errorf("mappings = %+v, want %d", state.SMBMappings, want)
				}
			}
			for _, dir := range []string{one, two} {
				parent := dir[:strings.LastIndexByte(dir, '\\')]
				_, err := n.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: parent})
				must(t, err)
				must(t, m.MountShare(ctx, share, dir, "csi", "csi"))
			}
			mappings(1)
			if restarted != nil { // a driver that counts in memory would have lost its count
				m = restarted
			}
			must(t, m.UnmountShare(ctx, share, one))
			mappings(1)
			must(t, m.UnmountShare(ctx, share, two))
			mappings(0)
		})
	}
}

// VolumeSize works the same by hand and with package negotiate.
func TestVolumeSizeByHandAndNegotiated(t *testing.T) {
	for _, apis := range [][]string{nil, {"volume/v1beta1"}} {
		n := node(t)
		d, err := n.AttachDisk(simnode.Disk{Size: 1 << 30, Serial: "vol-1"})
		must(t, err)
		must(t, n.AwaitDisk(d.Number))
		must(t, inProcess(t, n).FormatAndMount(t.Context(), "vol-1", staged))
		state, err := n.Show()
		must(t, err)
		var id string
		for _, v := range state.Volumes {
			if strings.Contains(strings.Join(v.MountedAt, " "), "globalmount") {
				id = v.ID
			}
		}
		serve.Start(t, n, func(c *serve.Config) { c.StandardPipes, c.APIs = true, apis })
		byHand, err := pipes.VolumeSizeByHand(t.Context(), id)
		must(t, err)
		negotiated, err := pipes.VolumeSize(t.Context(), id)
		must(t, err)
		if byHand != negotiated || byHand < 1<<29 {
			t.Errorf("with %v served, sizes = %d and %d", apis, byHand, negotiated)
		}
	}
	serve.Start(t, node(t), func(c *serve.Config) { c.StandardPipes, c.APIs = true, []string{"volume/v1alpha1"} })
	if _, err := pipes.VolumeSize(t.Context(), "x"); !errors.Is(err, negotiate.ErrTooOld) {
		t.Errorf("VolumeSize with an old proxy = %v, want ErrTooOld", err)
	}
}
