package mounter_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

// v1Pipes is a proxy of this project with the versions of the existing one, so that its clients
// go on when the existing one takes its place.
var v1Pipes = way{name: "v1 pipes", pipes: true, apis: v13}

// risk is a call that destroys something if it relies on what another proxy guaranteed.
type risk struct {
	name   string
	change func(*simnode.Config)
	before func(t *testing.T, x *world)
	call   func(ctx context.Context, x *world) error
	// lost returns what was destroyed, or pretended, by a call that returned err.
	lost func(x *world, err error) string
}

func risks() []risk {
	id := mounter.Identity{SerialNumber: "d"}
	stage := func(ctx context.Context, x *world) error {
		d, err := x.m.FindDisk(ctx, id)
		if err == nil {
			_, err = x.m.StageDisk(ctx, d, staging, mounter.StageOptions{})
		}
		return err
	}
	attach := func(d simnode.Disk) func(*testing.T, *world) {
		return func(t *testing.T, x *world) {
			d.Size, d.Serial = gib, "d"
			info, err := x.node.AttachDisk(d)
			if err == nil {
				err = x.node.AwaitDisk(info.Number)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	disk := func(x *world) simnode.DiskInfo {
		all := x.state().Disks
		return all[slices.IndexFunc(all, func(d simnode.DiskInfo) bool { return d.Serial == "d" })]
	}
	share := mounter.Share{Remote: `\\files\data\vol`, User: "ann", Password: "ann-1"}
	const second = kubelet + `\plugins\kubernetes.io\csi\example\vol2\globalmount`
	as := func(*simnode.Config) {} // as it is
	unknown := []simnode.Bytes{{At: 4096, Data: []byte("precious")}}
	return []risk{
		{"stage a disk with unknown content", as, attach(simnode.Disk{Bytes: unknown}), stage, func(x *world, err error) string {
			if s := disk(x).Style; s != "RAW" {
				return "the disk was RAW and is " + s
			}
			return ""
		}},
		{"stage a volume with unknown content", as, attach(simnode.Disk{Content: nodespec.ContentGPT, Partitions: []simnode.Partition{{}}, Bytes: []simnode.Bytes{{At: 100 << 20, Data: []byte("precious")}}}), stage, func(x *world, err error) string {
			for _, v := range x.state().Volumes {
				if slices.Contains(v.Disks, disk(x).Number) && v.FileSystem != "RAW" && v.FileSystem != "" {
					return "the volume was formatted with " + v.FileSystem
				}
			}
			return ""
		}},
		{"expand by little", as, func(t *testing.T, x *world) {
			attach(simnode.Disk{Content: nodespec.ContentGPT, Partitions: []simnode.Partition{{FileSystem: "NTFS"}}})(t, x)
			if err := stage(x.soon(), x); err != nil {
				t.Fatal(err)
			}
			if err := x.node.GrowDisk(disk(x).Number, gib+64<<20); err != nil {
				t.Fatal(err)
			}
			x.proxy.skipGrowth = true
		}, func(ctx context.Context, x *world) error {
			_, err := x.m.Expand(ctx, staging, 0)
			return err
		}, func(x *world, err error) string {
			for _, v := range x.state().Volumes {
				if slices.Contains(v.Disks, disk(x).Number) && v.Size < gib && err == nil {
					return "a growth that was skipped is a success"
				}
			}
			return ""
		}},
		{"unstage a share with another link", as, func(t *testing.T, x *world) {
			// The driver cannot see who uses the mapping.
			x.m = x.mounter(x.open(), mounter.Options{Local: mounter.Local{Dirs: func(string) ([]string, error) { return nil, errors.New("not mounted") }}})
			if err := x.m.MakeDir(x.soon(), strings.TrimSuffix(second, `\globalmount`)); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{staging, second} {
				if err := x.m.StageShare(x.soon(), share, path); err != nil {
					t.Fatal(err)
				}
			}
		}, func(ctx context.Context, x *world) error {
			return x.m.UnstageShare(ctx, staging, share.Remote)
		}, func(x *world, err error) string {
			if x.proxy.unmapped > 0 {
				return "the mapping of another link was removed"
			}
			return ""
		}},
		{"find a disk by a LUN that the temporary disk has, too", func(c *simnode.Config) {
			c.Disks = []simnode.Disk{
				{Size: 40 * gib, Content: nodespec.ContentGPTNoMSR, Partitions: []simnode.Partition{{FileSystem: "NTFS", Letter: "C"}}, Vendor: "Msft", Product: "Virtual Disk", Address: &simnode.Address{}},
				{Size: gib, Content: nodespec.ContentGPTNoMSR, Partitions: []simnode.Partition{{FileSystem: "NTFS", Label: "Temporary Storage"}}, Vendor: "Msft", Product: "Virtual Disk", Address: &simnode.Address{Lun: 1}},
			}
		}, func(*testing.T, *world) {}, func(ctx context.Context, x *world) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			m := x.mounter(x.conn, mounter.Options{Clock: &fakeClock{each: func(n int) {
				if n == 3 {
					cancel()
				}
			}}})
			_, err := m.FindDisk(ctx, mounter.AzureLUN(1))
			return err
		}, func(x *world, err error) string {
			if err == nil {
				return "the temporary disk was found"
			}
			return ""
		}},
	}
}

// Between any two calls of a method, the proxy may be replaced by the existing one, and the
// existing one by ours. Nothing is lost that either of them alone would keep.
func TestProxyIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	older := func(c *serve.Config) {
		c.Rules = rules.Rules{WorkingDirs: c.WorkingDirs, AllowedServices: c.AllowedServices, FormatExisting: true, DiskContent: rules.DiskContentUnknown, AllDiskLocations: true} // D32
	}
	ours := func(c *serve.Config) {
		c.Rules = rules.Rules{WorkingDirs: c.WorkingDirs, AllowedServices: c.AllowedServices}
	}
	for _, r := range risks() {
		for _, rollback := range []bool{true, false} {
			name := r.name + ", upgrade"
			if rollback {
				name = r.name + ", rollback"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for n := 1; ; n++ {
					x := newWorld(t, v1Pipes, r.change)
					r.before(t, x)
					to := ours
					if rollback {
						to = older
					} else {
						x.replace(older, true)
					}
					x.mu.Lock()
					x.calls = 0
					x.before = func(call int, _ string) error {
						if call == n {
							x.replace(to, rollback)
						}
						return nil
					}
					x.mu.Unlock()
					err := r.call(x.soon(), x)
					if lost := r.lost(x, err); lost != "" {
						t.Errorf("replaced before call %d, %s: %s (%v)", n, x.made[max(0, len(x.made)-x.calls+n-1)], lost, err)
					}
					if x.calls < n {
						if n < 5 {
							t.Errorf("the method makes %d calls: the count is wrong", n-1)
						}
						return
					}
				}
			})
		}
	}
}
