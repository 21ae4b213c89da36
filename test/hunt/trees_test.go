package hunt_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

var everything = flag.Bool("hunt.everything", false, "make the trees of three and four entries in TestTrees, too")

// tree is the entries below a directory: what each is, and in which it is.
type tree struct {
	kinds   []byte // 'd' directory, 'f' file, 'l' link to a directory outside
	parents []int  // -1 for the directory itself
}

// trees returns all trees of n entries, without those that differ only in names.
func trees(n int) (all []tree) {
	known := map[string]bool{}
	var extend func(tree)
	extend = func(t tree) {
		if len(t.kinds) == n {
			if shape := t.shape(-1); !known[shape] {
				known[shape] = true
				all = append(all, t)
			}
			return
		}
		for parent := -1; parent < len(t.kinds); parent++ {
			if parent >= 0 && t.kinds[parent] != 'd' {
				continue
			}
			for _, kind := range []byte("dfl") {
				extend(tree{append(slices.Clone(t.kinds), kind), append(slices.Clone(t.parents), parent)})
			}
		}
	}
	extend(tree{})
	return all
}

// shape describes what is in a directory of the tree, without names.
func (t tree) shape(dir int) string {
	var parts []string
	for i, parent := range t.parents {
		if parent == dir {
			parts = append(parts, string(t.kinds[i])+"("+t.shape(i)+")")
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "")
}

// path returns the path of an entry. Outside, there is something with the same name.
func (t tree) path(i int) string {
	if i < 0 {
		return treeBase
	}
	return t.path(t.parents[i]) + `\` + string(rune('a'+i))
}

const (
	treeBase = base + `\trees`
	outside  = `C:\outside`
	parked   = base + `\parked`
	links    = base + `\links`
	made     = base + `\made`
)

// treeOp is an operation on an entry. It must not do or see anything outside. PathValid is none,
// because no version of the API has it.
type treeOp struct {
	name string
	do   func(ctx context.Context, f *forest, path string) (sees bool, err error)
}

// mountAndUnmount is three operations.
const mountAndUnmount = "Mkdir, MountVolume and UnmountVolume within"

func treeOps() []treeOp {
	return []treeOp{
		{"Mkdir within", func(ctx context.Context, f *forest, path string) (bool, error) {
			_, err := f.of.Filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: path + `\new\deep`})
			return false, err
		}},
		{"Rmdir", func(ctx context.Context, f *forest, path string) (bool, error) {
			_, err := f.of.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: path})
			return false, err
		}},
		{"Rmdir with force", func(ctx context.Context, f *forest, path string) (bool, error) {
			_, err := f.of.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: path, Force: true})
			return false, err
		}},
		{"RmdirContents", func(ctx context.Context, f *forest, path string) (bool, error) {
			_, err := f.of.Filesystem.RmdirContents(ctx, &filesystem.RmdirContentsRequest{Path: path})
			return false, err
		}},
		{"CreateSymlink within", func(ctx context.Context, f *forest, path string) (bool, error) {
			_, err := f.of.Filesystem.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: base, TargetPath: path + `\new`})
			return false, err
		}},
		{"PathExists within", func(ctx context.Context, f *forest, path string) (bool, error) {
			out, err := f.of.Filesystem.PathExists(ctx, &filesystem.PathExistsRequest{Path: path + `\secret`})
			return err == nil && out.Exists, err
		}},
		{"IsSymlink within", func(ctx context.Context, f *forest, path string) (bool, error) {
			out, err := f.of.Filesystem.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: path + `\secretlink`})
			return err == nil && out.IsSymlink, err
		}},
		// Whether a link is one to a directory depends on its target.
		{"CreateSymlink to", func(ctx context.Context, f *forest, path string) (bool, error) {
			_, err := f.of.Filesystem.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: path + `\secretdir`, TargetPath: made})
			files, bad := f.m.Files(made)
			f.must(bad)
			if len(files) == 0 {
				return false, err
			}
			f.must(f.m.RemoveFile(made))
			return files[0].Link != nil && files[0].Dir, err
		}},
		{"MountVolume", func(ctx context.Context, f *forest, path string) (bool, error) {
			_, err := f.of.Volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: f.volume, TargetPath: path})
			return false, err
		}},
		{"MountVolume within", func(ctx context.Context, f *forest, path string) (bool, error) {
			_, err := f.of.Volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: f.volume, TargetPath: path + `\secretdir`})
			return false, err
		}},
		{"UnmountVolume within", func(ctx context.Context, f *forest, path string) (bool, error) {
			_, err := f.of.Volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: f.volume, TargetPath: path + `\mounted`})
			return false, err
		}},
		{mountAndUnmount, func(ctx context.Context, f *forest, path string) (bool, error) {
			path += `\mounted`
			_, err := f.of.Filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: path})
			_, mount := f.of.Volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: f.volume, TargetPath: path})
			_, unmount := f.of.Volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: f.volume, TargetPath: path})
			if mount == nil && unmount == nil {
				f.mounted++
			}
			return false, errors.Join(err, mount, unmount)
		}},
		{"GetVolumeIDFromTargetPath within", func(ctx context.Context, f *forest, path string) (bool, error) {
			out, err := f.of.Volume.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: path + `\mounted`})
			return err == nil && out.VolumeID == f.volume, err
		}},
		{"GetClosestVolumeIDFromTargetPath within", func(ctx context.Context, f *forest, path string) (bool, error) {
			out, err := f.of.Volume.GetClosestVolumeIDFromTargetPath(ctx, &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: path + `\mounted`})
			return err == nil && out.VolumeID == f.volume, err
		}},
		{"NewSMBGlobalMapping within", func(ctx context.Context, f *forest, path string) (bool, error) {
			_, err := f.of.SMB.NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: `\\files\data`, LocalPath: path + `\new`, Username: "A", Password: "secret of A"})
			return false, err
		}},
	}
}

// forest is a node on which trees are made.
type forest struct {
	t       *testing.T
	m       *emulated.Node
	of      *services.Services // as of the daemon
	free    *services.Services // without rules
	volume  string             // the ID of a volume, which is mounted outside
	spare   int                // links in the directory links
	mounted int                // how often the volume was mounted in a tree, and unmounted
	calls   int
	before  int    // the call before which the entry is swapped; -1 for none
	swap    func() // swaps it
	outside string
	kept    []string // open handles of the daemon
	fault   string   // what is wrong, or ""
}

// relevant reports whether a call depends on the names in a tree. The others of these operations
// have a handle, or their paths are not in the tree: a swap before one of them is one before
// the next of these.
func relevant(c *win32.Call) bool {
	return strings.Contains(c.Path, treeBase[len(`C:\`):]) &&
		slices.Contains([]string{"NtCreateFile", "FinalPath", "QueryDirectory", "SetInformation", "DeviceIoControl", "SetMountPoint", "DeleteMountPoint"}, c.Name)
}

// newForest makes a node. dirs are the working directories of the daemon.
func newForest(t *testing.T, dirs []string) *forest {
	dir, err := os.MkdirTemp("/dev/shm", "hunt")
	if err != nil {
		dir = t.TempDir()
	}
	f := &forest{t: t, before: -1}
	clock := nodetest.NewClock(time.Unix(1e9, 0))
	c := nodespec.Config{
		StateDir: dir, Log: quiet, Directories: []string{treeBase, parked, links, outside + `\secret`},
		Disks: []nodespec.Disk{
			{Content: nodespec.ContentSystem, Size: 1 << 30},
			{Size: 64 * mib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}},
		},
		SMBServers: []nodespec.SMBServer{{Name: "files", Shares: shareNames[:], Accounts: shareUsers}},
	}
	if f.m, err = emulated.Open(c, emulated.Machine{Now: clock.Now, Rand: random(1), Sleep: clock.Advance}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(f.m.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	open := func(api win32.API, dirs []string) *services.Services {
		n := node.New(api)
		n.Log, n.Clock, n.WorkingDirs = quiet, clock, dirs
		if len(dirs) > 0 { // as in the daemon
			t.Cleanup(winfs.KeepSystemRoot(n))
			f.kept = f.m.OpenHandles()
		}
		s, err := services.Open(n)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	info, err := f.m.Show()
	f.must(err)
	for _, v := range info.Volumes {
		if len(v.MountedAt) == 0 && v.FileSystem == "NTFS" {
			f.volume = v.ID
		}
	}
	f.free = open(f.m, nil)
	f.of = open(win32.Observe(f.m, f.hook), dirs)
	for i := range 4 {
		at := fmt.Sprintf(`%s\%c`, outside, 'a'+i)
		f.must(f.m.PutFile(at, true, 0), f.m.PutFile(at+`\file`, false, 1), f.m.PutFile(at+`\secret`, false, 1))
		f.hide(at)
	}
	f.hide(outside)
	f.outside = f.describe(outside)
	return f
}

func (f *forest) hook(c *win32.Call) error {
	if relevant(c) {
		if f.calls == f.before {
			f.swap()
		}
		f.calls++
	}
	return c.Do()
}

func (f *forest) must(errs ...error) {
	f.t.Helper()
	if err := errors.Join(errs...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *forest) link(to, at string) {
	f.t.Helper()
	_, err := f.free.Filesystem.CreateSymlink(context.Background(), &filesystem.CreateSymlinkRequest{SourcePath: to, TargetPath: at})
	f.must(err)
}

// take moves a link to the directory outside to a path.
func (f *forest) take(at string) error {
	if f.spare == 0 {
		f.link(outside, links+`\0`)
		f.spare++
	}
	f.spare--
	return f.m.RenameFile(fmt.Sprintf(`%s\%d`, links, f.spare), at)
}

// hide makes in a directory outside what operations look for.
func (f *forest) hide(dir string) {
	f.link(outside, dir+`\secretlink`)
	f.must(f.m.PutFile(dir+`\secretdir`, true, 0), f.m.PutFile(dir+`\mounted`, true, 0))
	_, err := f.free.Volume.MountVolume(context.Background(), &volume.MountVolumeRequest{VolumeID: f.volume, TargetPath: dir + `\mounted`})
	f.must(err)
}

func (f *forest) describe(dir string) string {
	files, err := f.m.Files(dir)
	f.must(err)
	var b strings.Builder
	for _, x := range files {
		fmt.Fprintf(&b, "%d %s %t %d %t\n", x.ID, x.Path, x.Dir, x.Size, x.Link != nil)
	}
	return b.String()
}

// grow makes a tree.
func (f *forest) grow(t tree) {
	for i, kind := range t.kinds {
		switch kind {
		case 'd':
			f.must(f.m.PutFile(t.path(i), true, 0))
		case 'f':
			f.must(f.m.PutFile(t.path(i), false, 1))
		case 'l':
			f.must(f.take(t.path(i)))
		}
	}
}

// clear removes what is in a directory, and keeps links to the directory outside.
func (f *forest) clear(dir string) {
	files, err := f.m.Files(dir)
	f.must(err)
	for _, x := range slices.Backward(files) {
		if x.Path == dir {
			continue
		}
		if x.Link != nil && strings.HasSuffix(x.Link.Target, outside) {
			f.must(f.m.RenameFile(x.Path, fmt.Sprintf(`%s\%d`, links, f.spare)))
			f.spare++
			continue
		}
		f.must(f.m.RemoveFile(x.Path))
	}
}

// swaps are what another program makes of an entry.
var swaps = []string{"link", "file", "nothing"}

// replace gives the path of an entry to something else. The entry goes to another directory.
func (f *forest) replace(path, by string) {
	if f.m.RenameFile(path, parked+`\entry`) != nil {
		return // it is gone already
	}
	switch by {
	case "link":
		f.must(f.take(path))
	case "file":
		f.must(f.m.PutFile(path, false, 1))
	}
}

// try makes a tree and runs an operation on an entry, during which another entry is swapped.
// It returns whether the operation made so many calls.
func (f *forest) try(t tree, o treeOp, at, other int, by string, before int) (reached bool) {
	f.grow(t)
	f.calls, f.before = 0, before
	f.swap = func() { f.replace(t.path(other), by) }
	sees, err := o.do(context.Background(), f, t.path(at))
	what := fmt.Sprintf("tree %q, %s %s, %s becomes %s before call %d", t.shape(-1), o.name, t.path(at), t.path(other), by, before)
	now, open := f.describe(outside), f.m.OpenHandles()
	switch {
	case sees:
		f.fault = fmt.Sprintf("%s: it sees what is outside: %v", what, err)
	case now != f.outside:
		f.fault = fmt.Sprintf("%s: what is outside was changed from\n%s\nto\n%s", what, f.outside, now)
	case !slices.Equal(open, f.kept):
		f.fault = fmt.Sprintf("%s: handles left open: %q", what, open)
	}
	f.clear(treeBase)
	f.clear(parked)
	if len(f.describe(treeBase)) == 0 {
		f.must(f.m.PutFile(treeBase, true, 0))
	}
	return f.calls > before && f.fault == ""
}

// near reports whether one of two entries is in the other, or they are the same.
func (t tree) near(a, b int) bool {
	within := func(i, dir int) bool {
		for ; i >= 0; i = t.parents[i] {
			if i == dir {
				return true
			}
		}
		return false
	}
	return within(a, b) || within(b, a)
}

// TestTrees makes each tree, and runs each operation on each entry while each entry on its
// path or in it is swapped, before each call that depends on names.
func TestTrees(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	f := newForest(t, []string{kubelet})
	count, cases := 0, 0
	most := 2
	if *everything {
		most = 4
	}
	for n := 1; n <= most; n++ {
		for _, tree := range trees(n) {
			count++
			cases += f.tryAll(tree, treeOps(), swaps)
			if f.fault != "" {
				t.Fatal(f.fault)
			}
		}
	}
	t.Attr("measured", fmt.Sprintf("%d trees of up to %d entries, %d cases, %d unmounted volumes: no operation did or saw anything outside", count, most, cases, f.mounted))
}

// tryAll makes a tree for each operation, entry, swap, and call, until something is wrong.
func (f *forest) tryAll(t tree, ops []treeOp, swaps []string) (cases int) {
	for _, o := range ops {
		for at := range t.kinds {
			for other := range t.kinds {
				if !t.near(at, other) {
					continue
				}
				for _, by := range swaps {
					for before := 0; f.fault == "" && f.try(t, o, at, other, by, before); before++ {
						cases++
					}
				}
			}
		}
	}
	return cases
}

// Without working directories, trees find operations that do or see what is outside, and one
// that unmounts the volume there.
func TestTreesWithoutGuard(t *testing.T) {
	all := treeOps()
	one := slices.DeleteFunc(slices.Clone(all), func(o treeOp) bool { return o.name != mountAndUnmount })
	for _, ops := range [][]treeOp{all, one} {
		f := newForest(t, nil)
		if f.tryAll(trees(1)[0], ops, swaps); f.fault == "" {
			t.Error("no operation did or saw anything outside")
		}
		t.Log(f.fault)
	}
}
