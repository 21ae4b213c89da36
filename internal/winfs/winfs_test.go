package winfs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const (
	kubelet = `C:\var\lib\kubelet`
	pods    = kubelet + `\pods`
	outside = `C:\outside`
)

// world is an emulated node with a working directory, a directory outside of it, and
// two data volumes.
type world struct {
	t *testing.T
	*node.Node
	em     *emulated.Node
	raw    win32.API // the node without hooks, for changes by an attacker or a test
	hook   func(*win32.Call) error
	calls  atomic.Int64
	slept  time.Duration
	drives []win32.Use // mappings with letters
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, behavior.Windows{})
}

func newWorldOn(t *testing.T, windows behavior.Windows) *world {
	t.Helper()
	em := nodetest.Open(t, nodespec.Config{
		World: behavior.In("", windows),
		Disks: []nodespec.Disk{
			{Content: nodespec.ContentSystem},
			{Size: 64 << 20, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}},
			{Size: 64 << 20, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}},
		},
		Directories: []string{pods, outside + `\deep\deeper`},
		SMBServers:  []nodespec.SMBServer{{Name: "server", Shares: []string{"share", "other"}, NodeAccount: true}},
	}, emulated.Machine{})
	w := &world{t: t, em: em, raw: em}
	w.Node = node.New(win32.Observe(lettered{em, w}, func(c *win32.Call) error {
		w.calls.Add(1)
		if w.hook != nil {
			return w.hook(c)
		}
		return c.Do()
	}))
	w.Node.Clock = w
	w.WorkingDirs = []string{kubelet}
	w.file(outside + `\precious.txt`)
	w.file(outside + `\deep\deeper\precious.txt`)
	return w
}

// Now and Sleep implement a clock that does not wait.
func (w *world) Now() time.Time { return time.Unix(0, int64(w.slept)) }
func (w *world) Sleep(ctx context.Context, d time.Duration) error {
	w.slept += d
	return ctx.Err()
}

const (
	rawOptions = win32.FILE_SYNCHRONOUS_IO_NONALERT | win32.FILE_OPEN_REPARSE_POINT
	rawShare   = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE
)

func (w *world) create(path string, options, access uint32) win32.Handle {
	w.t.Helper()
	h, err := w.raw.NtCreateFile(0, `\??\`+path, access|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, rawShare, win32.FILE_CREATE, options|rawOptions)
	if err != nil {
		w.t.Fatalf("create %q: %v", path, err)
	}
	return h
}

func (w *world) closeRaw(h win32.Handle) {
	w.t.Helper()
	if err := w.raw.CloseHandle(h); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) file(path string) {
	w.t.Helper()
	w.closeRaw(w.create(path, win32.FILE_NON_DIRECTORY_FILE, win32.GENERIC_WRITE))
}

func (w *world) dir(path string) {
	w.t.Helper()
	w.closeRaw(w.create(path, win32.FILE_DIRECTORY_FILE, win32.FILE_LIST_DIRECTORY))
}

// plant creates a reparse point at path, like an attacker.
func (w *world) plant(path string, r win32.Reparse, dir bool) {
	w.t.Helper()
	options := uint32(win32.FILE_NON_DIRECTORY_FILE)
	if dir {
		options = win32.FILE_DIRECTORY_FILE
	}
	h := w.create(path, options, win32.FILE_WRITE_ATTRIBUTES)
	defer w.closeRaw(h)
	if err := w.raw.WithPrivilege(win32.SE_CREATE_SYMBOLIC_LINK_NAME, func(raw win32.API) error {
		_, err := raw.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, r.Encode(), nil)
		return err
	}); err != nil {
		w.t.Fatalf("plant %q: %v", path, err)
	}
}

func junction(to string) win32.Reparse {
	return win32.Reparse{Tag: win32.IO_REPARSE_TAG_MOUNT_POINT, Substitute: `\??\` + to, Print: to}
}

func symlink(to string) win32.Reparse {
	return win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: `\??\` + to, Print: to}
}

func relative(to string) win32.Reparse {
	return win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: to, Print: to, Relative: true}
}

// volumes are the volume names of C:, of the volume without a letter, and of E:.
func (w *world) volumes() (c, bare, e string) {
	w.t.Helper()
	name := func(root string) string {
		v, err := w.raw.VolumeNameForMountPoint(root)
		if err != nil {
			w.t.Fatal(err)
		}
		return v
	}
	c, e = name(`C:\`), name(`E:\`)
	all, err := w.raw.VolumeNames()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range all {
		info, err := w.raw.VolumeInformation(v)
		if err == nil && info.FileSystem == "NTFS" && v != c && v != e {
			bare = v
		}
	}
	if bare == "" {
		w.t.Fatalf("no volume without a letter among %q", all)
	}
	return c, bare, e
}

func (w *world) mount(dir, vol string) {
	w.t.Helper()
	if err := w.raw.SetMountPoint(dir+`\`, vol); err != nil {
		w.t.Fatalf("mount %s on %q: %v", vol, dir, err)
	}
}

// tree lists everything below dir without the code under test.
func (w *world) tree(dir string) []string {
	w.t.Helper()
	var found []string
	var list func(h win32.Handle, at string)
	list = func(h win32.Handle, at string) {
		buf := make([]byte, 1<<16)
		for {
			n, err := w.raw.QueryDirectory(h, false, buf)
			if err == win32.STATUS_NO_MORE_FILES || err == win32.STATUS_NO_SUCH_FILE {
				return
			}
			if err != nil {
				w.t.Fatalf("list %q: %v", at, err)
			}
			es, err := win32.DecodeDirectory(buf[:n])
			if err != nil {
				w.t.Fatal(err)
			}
			for _, e := range es {
				if e.Name == "." || e.Name == ".." {
					continue
				}
				found = append(found, at+e.Name)
				if e.Attributes&win32.FILE_ATTRIBUTE_DIRECTORY != 0 && e.ReparseTag == 0 {
					sub, err := w.raw.NtCreateFile(h, e.Name, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, rawShare, win32.FILE_OPEN, rawOptions)
					if err != nil {
						w.t.Fatalf("list %q: %v", at+e.Name, err)
					}
					list(sub, at+e.Name+`\`)
					w.closeRaw(sub)
				}
			}
		}
	}
	h, err := w.raw.NtCreateFile(0, `\??\`+dir, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, rawShare, win32.FILE_OPEN, rawOptions)
	if err != nil {
		w.t.Fatalf("list %q: %v", dir, err)
	}
	defer w.closeRaw(h)
	list(h, "")
	slices.Sort(found)
	return found
}

func (w *world) wantTree(dir string, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if got := w.tree(dir); !slices.Equal(got, want) {
		w.t.Errorf("%q contains %q, want %q", dir, got, want)
	}
}

// intact checks that everything outside is unchanged.
func (w *world) intact() {
	w.t.Helper()
	w.wantTree(outside, `deep`, `deep\deeper`, `deep\deeper\precious.txt`, `precious.txt`)
}

func wantErr(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s = %v, want %v", what, err, kind)
	}
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// operation is something that a request can do to a path.
type operation struct {
	name    string
	do      func(w *world, path string) error
	follows bool // a link at the path itself is followed
}

func operations() []operation {
	ctx := context.Background()
	return []operation{
		{"Lstat", func(w *world, p string) error { _, err := winfs.Lstat(ctx, w.Node, p); return err }, false},
		{"ReadDir", func(w *world, p string) error { _, err := winfs.ReadDir(ctx, w.Node, p); return err }, true},
		{"Exists", func(w *world, p string) error { _, err := winfs.Exists(ctx, w.Node, p); return err }, false},
		{"Readlink", func(w *world, p string) error { _, _, err := winfs.Readlink(ctx, w.Node, p); return err }, false},
		{"LinkTargetExists", func(w *world, p string) error { _, err := winfs.LinkTargetExists(ctx, w.Node, p); return err }, true},
		{"Look", func(w *world, p string) error { _, _, err := winfs.Look(ctx, w.Node, p); return err }, true},
		{"MkdirAll", func(w *world, p string) error { return winfs.MkdirAll(ctx, w.Node, p) }, true},
		{"Remove", func(w *world, p string) error { return winfs.Remove(ctx, w.Node, p) }, false},
		{"RemoveAll", func(w *world, p string) error { return winfs.RemoveAll(ctx, w.Node, p) }, false},
		{"RemoveContents", func(w *world, p string) error { return winfs.RemoveContents(ctx, w.Node, p) }, false},
		{"Symlink at", func(w *world, p string) error { return winfs.Symlink(ctx, w.Node, w.WorkingDirs[0], p) }, false},
		{"Symlink to", func(w *world, p string) error { return winfs.Symlink(ctx, w.Node, p, w.WorkingDirs[0]+`\new`) }, true},
		{"Hold", func(w *world, p string) error {
			h, err := winfs.Hold(ctx, w.Node, p)
			if err == nil {
				h.Close()
			}
			return err
		}, false},
		{"MountedVolume", func(w *world, p string) error { _, _, err := winfs.MountedVolume(ctx, w.Node, p); return err }, true},
		{"VolumeOf", func(w *world, p string) error { _, err := winfs.VolumeOf(ctx, w.Node, p); return err }, true},
		{"Holder", func(w *world, p string) error { _, _, err := winfs.Holder(ctx, w.Node, p); return err }, true},
	}
}

// links are the links to the outside that an attacker could create at path.
func links(w *world) map[string]func(path string) {
	return map[string]func(path string){
		"symlink":          func(p string) { w.plant(p, symlink(outside), true) },
		"relative symlink": func(p string) { w.plant(p, relative(`..\..\..\..\outside`), true) },
		"rooted symlink":   func(p string) { w.plant(p, relative(`\outside`), true) },
		"junction":         func(p string) { w.plant(p, junction(outside), true) },
		"junction by volume name": func(p string) {
			c, _, _ := w.volumes()
			w.plant(p, junction(strings.TrimPrefix(c, `\\?\`)+`outside`), true)
		},
		"chain": func(p string) {
			w.plant(pods+`\chain1`, junction(outside), true)
			w.plant(pods+`\chain2`, symlink(pods+`\chain1`), true)
			w.plant(p, relative(`chain2`), true)
		},
		"other case": func(p string) { w.plant(p, symlink(`c:\OUTSIDE`), true) },
		"symlink to the directory above": func(p string) {
			w.plant(p+`up`, junction(`C:\var\lib`), true)
			w.plant(p, symlink(p+`up\..\..\outside`), true) // NT does not resolve ".."
		},
	}
}

// A link to the outside is not followed, on the way to a path or at its end. At its end it is what an
// operation that does not follow it works on.
func TestLinksToTheOutside(t *testing.T) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			w := newWorld(t)
			for name, plant := range links(w) {
				t.Run(name, func(t *testing.T) {
					link := pods + `\` + strings.ReplaceAll(name, " ", "-")
					plant(link)
					for _, below := range []string{`\precious.txt`, `\deep`, `\deep\deeper`, `\missing`, `\missing\deeper`, `\precious.txt\below`, ``} {
						err := op.do(w, link+below)
						refused := errors.Is(err, hosterr.ErrPermissionDenied) || errors.Is(err, win32.ERROR_CANT_RESOLVE_FILENAME)
						if want := below != "" || op.follows; refused != want {
							if below == "" && name == "chain" && (op.name == "LinkTargetExists" || op.name == "Look") {
								continue // its direct target is inside
							}
							t.Errorf("%s(%q) = %v, want that it is refused: %t", op.name, link+below, err, want)
						}
					}
					w.intact()
				})
			}
		})
	}
}

func TestRefusalNamesTarget(t *testing.T) {
	w := newWorld(t)
	w.plant(pods+`\evil`, junction(outside), true)
	err := winfs.MkdirAll(t.Context(), w.Node, pods+`\evil\new`)
	want := `create directory "C:\var\lib\kubelet\pods\evil\new": leads to "C:\outside\new", which is not within the working directories [C:\var\lib\kubelet]`
	if err == nil || err.Error() != want {
		t.Errorf("MkdirAll = %v\nwant %s", err, want)
	}
}

func TestPathOutsideIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, op := range operations() {
		for _, path := range []string{outside, outside + `\deep`, outside + `\missing`, kubelet + `-evil\x`, `C:\var\lib`, `E:\x`} {
			if err := op.do(w, path); !errors.Is(err, hosterr.ErrPermissionDenied) {
				t.Errorf("%s(%q) = %v, want ErrPermissionDenied", op.name, path, err)
			}
		}
	}
	w.intact()
}

// An attacker replaces a directory with a junction to the outside before each call that
// an operation makes. The call then fails with an error that makes the operation start
// again.
func TestSwapAtEveryCall(t *testing.T) {
	swaps := map[string]int{}
	defer func() {
		for _, op := range operations() {
			if swaps[op.name] < 10 {
				t.Errorf("%s: %d swaps during the operation, want at least 10", op.name, swaps[op.name])
			}
		}
	}()
	every := func(op operation, below string, fail error) {
		t.Run(fmt.Sprintf("%s%s, %v", op.name, below, fail), func(t *testing.T) {
			w := newWorld(t)
			for k := 1; ; k++ {
				victim := fmt.Sprintf(`%s\victim%d`, pods, k)
				for _, d := range []string{``, `\deep`, `\deep\deeper`} {
					w.dir(victim + d)
				}
				w.file(victim + `\deep\deeper\file`)
				w.em.RemoveFile(kubelet + `\new`) // if "Symlink to" made it
				swapped := false
				w.hook = func(c *win32.Call) error {
					if w.calls.Load() == int64(k) {
						w.hook = nil
						swapped = true
						// A directory with open handles inside cannot be
						// renamed, so this attempt fails.
						if w.rename(victim, fmt.Sprintf(`aside%d`, k)) == nil {
							w.plant(victim, junction(outside), true)
							swaps[op.name]++
						}
						if fail != nil && c.Name != "CloseHandle" {
							return fail
						}
					}
					return c.Do()
				}
				w.calls.Store(0)
				err := op.do(w, victim+below)
				w.hook = nil
				w.intact()
				if open := w.em.OpenHandles(); len(open) > 0 {
					t.Fatalf("swap before call %d: handles left open: %q", k, open)
				}
				if t.Failed() {
					t.Fatalf("swap before call %d of %s(%q) = %v", k, op.name, victim+below, err)
				}
				if !swapped {
					if k == 1 {
						t.Fatal("the operation made no call")
					}
					return
				}
			}
		})
	}
	for _, op := range operations() {
		for _, below := range []string{``, `\deep`, `\deep\deeper`, `\missing\deeper`} {
			for _, fail := range []error{nil, win32.ERROR_NOT_READY} {
				every(op, below, fail)
			}
		}
	}
}

// rename renames a directory in its parent, like an attacker.
func (w *world) rename(from, to string) error {
	return w.em.RenameFile(from, from[:strings.LastIndex(from, `\`)+1]+to)
}

// Every call of every operation fails, and so do all later calls with the same name,
// because the operation may start again.
func TestFailureClosesHandles(t *testing.T) {
	for _, op := range operations() {
		for _, below := range []string{`\a`, `\a\link`, `\a\nothing`} {
			t.Run(op.name+below, func(t *testing.T) {
				w := newWorld(t)
				w.WorkingDirs = []string{`C:\kube`} // resolved in every operation
				w.plant(`C:\kube`, junction(kubelet), true)
				for k := 1; ; k++ {
					path := fmt.Sprintf(`C:\kube\pods\p%d`, k)
					must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, path+`\a\b`))
					w.file(path + `\a\b\file`)
					w.plant(path+`\a\link`, symlink(path+`\a\b`), true)
					failed := ""
					w.calls.Store(0)
					w.hook = func(c *win32.Call) error {
						if w.calls.Load() == int64(k) && c.Name != "CloseHandle" {
							failed = c.String()
						}
						if c.String() == failed {
							return win32.ERROR_IO_DEVICE
						}
						return c.Do()
					}
					err := op.do(w, path+below)
					n := w.calls.Load()
					w.hook = nil
					if open := w.em.OpenHandles(); len(open) > 0 {
						t.Fatalf("call %d of %d, %s, failed: handles left open: %q", k, n, failed, open)
					}
					// Only the search for mount points may skip what it cannot open.
					if failed != "" && err == nil && !strings.HasPrefix(op.name, "Remove") {
						t.Errorf("call %d of %d, %s, failed but %s succeeded", k, n, failed, op.name)
					}
					if n < int64(k) {
						return
					}
				}
			})
		}
	}
}

func TestInvalidNamesAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, op := range operations() {
		for _, name := range []string{
			pods + `\a:b`, pods + `\a::$INDEX_ALLOCATION`, pods + `\NUL`, pods + `\com1.txt\x`, pods + `\a.`, pods + `\a \b`, pods + "\\a\x00b",
			pods + `\a*`, pods + `\a?`, pods + `\a<b`, pods + `\a|b`, pods + `\a"b`, `pods`, `C:pods`, `\pods:x`, `/pods\NUL`, ``, `\\.\C:\x`, `\\?\GLOBALROOT\Device\HarddiskVolume1\x`,
			`\\?\C:\var\lib\kubelet\pods\..\..\..\..\outside`,
		} {
			w.calls.Store(0)
			if err := op.do(w, name); !errors.Is(err, hosterr.ErrInvalid) {
				t.Errorf("%s(%q) = %v, want ErrInvalid", op.name, name, err)
			}
			if n := w.calls.Load(); n != 0 && op.name != "Symlink to" {
				t.Errorf("%s(%q) made %d Win32 calls, want none", op.name, name, n)
			}
		}
	}
}

func TestLinkLoopsFail(t *testing.T) {
	w := newWorld(t)
	w.plant(pods+`\self`, symlink(pods+`\self`), true)
	w.plant(pods+`\ping`, relative(`pong`), true)
	w.plant(pods+`\pong`, relative(`ping`), true)
	for _, path := range []string{pods + `\self\x`, pods + `\ping\x`} {
		_, err := winfs.ReadDir(t.Context(), w.Node, path)
		if !errors.Is(err, hosterr.ErrFailedPrecondition) || !errors.Is(err, win32.ERROR_CANT_RESOLVE_FILENAME) {
			t.Errorf("ReadDir(%q) = %v, want ErrFailedPrecondition for ERROR_CANT_RESOLVE_FILENAME", path, err)
		}
	}
	// Windows follows at most 63 links.
	w.dir(pods + `\end`)
	to := `end`
	for i := range winfs.MaxLinks + 1 {
		from := fmt.Sprintf("hop%d", i+1)
		w.plant(pods+`\`+from, relative(to), true)
		to = from
	}
	if _, err := winfs.ReadDir(t.Context(), w.Node, fmt.Sprintf(`%s\hop%d`, pods, winfs.MaxLinks)); err != nil {
		t.Errorf("ReadDir through %d links = %v, want nil", winfs.MaxLinks, err)
	}
	if _, err := winfs.ReadDir(t.Context(), w.Node, fmt.Sprintf(`%s\hop%d`, pods, winfs.MaxLinks+1)); !errors.Is(err, win32.ERROR_CANT_RESOLVE_FILENAME) {
		t.Errorf("ReadDir through %d links = %v, want ERROR_CANT_RESOLVE_FILENAME", winfs.MaxLinks+1, err)
	}
}

// Until it is a link, no other process can open what becomes one.
func TestLinkIsNotSharedBeforeItIsOne(t *testing.T) {
	w := newWorld(t)
	path, asked := pods+`\link`, false
	w.hook = func(c *win32.Call) error {
		if c.Code == win32.FSCTL_SET_REPARSE_POINT {
			asked = true
			h, err := w.raw.NtCreateFile(0, `\??\`+path, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, rawShare, win32.FILE_OPEN, rawOptions)
			if !win32.IsCode(err, win32.ERROR_SHARING_VIOLATION) {
				t.Errorf("another process opens it: %v, want ERROR_SHARING_VIOLATION", errors.Join(err, w.raw.CloseHandle(h)))
			}
		}
		return c.Do()
	}
	if err := winfs.Symlink(t.Context(), w.Node, pods, path); err != nil || !asked {
		t.Errorf("Symlink: %v, asked %t", err, asked)
	}
}

func TestLinksWithInvalidTarget(t *testing.T) {
	w := newWorld(t)
	for name, r := range map[string]win32.Reparse{
		"device":          {Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: `\Device\HarddiskVolume1\outside`, Print: `x`},
		"global root":     symlink(`GLOBALROOT\Device\HarddiskVolume1\outside`),
		"stream":          symlink(outside + `:stream`),
		"relative stream": relative(`a:b`),
		"above the root":  relative(`..\..\..\..\..\..\outside`),
		"remote junction": junction(`UNC\server\share\x`),
	} {
		link := pods + `\` + strings.ReplaceAll(name, " ", "-")
		w.plant(link, r, true)
		for _, op := range operations() {
			wantErr(t, op.name+" through a link: "+name, op.do(w, link+`\x`), hosterr.ErrFailedPrecondition)
		}
	}
	w.intact()
}

// lettered is a node with mappings that have the letters of drives.
type lettered struct {
	win32.API
	w *world
}

func (l lettered) UseEnum() ([]win32.Use, error) {
	uses, err := l.API.UseEnum()
	return append(uses, l.w.drives...), err
}

// away maps a share on the node and removes its server from the network.
func (w *world) away() {
	w.t.Helper()
	must(w.t, "map the share", w.raw.UseAdd(win32.NewUse{Remote: `\\SERVER\Share`}))
	must(w.t, "take the server away", w.em.SetSMBServerDown("server", true))
}

// An attacker creates a link to a server, where Windows would log in with the node's
// account. The server accepts that account, so the test would notice it.
func TestUnmappedShareIsNotContacted(t *testing.T) {
	for _, target := range []string{`server\other`, `evil\share`, `server@SSL\share`, `server.\share`} {
		w := newWorld(t)
		must(t, "map another share", w.raw.UseAdd(win32.NewUse{Remote: `\\server\share`}))
		w.plant(pods+`\share`, symlink(`UNC\`+target+`\`), true)
		w.plant(pods+`\below`, symlink(`UNC\`+target+`\dir`), true)
		for _, op := range operations() {
			w.hook = func(c *win32.Call) error {
				if strings.Contains(c.Path, target) {
					t.Errorf("%s of a link to %s: %s opens %s", op.name, target, c.Name, c.Path)
				}
				return c.Do()
			}
			for _, path := range []string{`\share\x`, `\below\x`} {
				wantErr(t, op.name+path, op.do(w, pods+path), hosterr.ErrPermissionDenied)
			}
		}
		for _, path := range []string{`\share`, `\below`} {
			// The answer is the same whether or not the share exists.
			if exists, err := winfs.LinkTargetExists(t.Context(), w.Node, pods+path); exists || err != nil {
				t.Errorf("LinkTargetExists of a link to %s = %t, %v; want false without an error", target, exists, err)
			}
			_, err := winfs.LinkTargetExists(t.Context(), w.Node, pods+path+`\x`)
			wantErr(t, "LinkTargetExists below "+target, err, hosterr.ErrPermissionDenied)
			if exists, err := winfs.Exists(t.Context(), w.Node, pods+path); !exists || err != nil {
				t.Errorf("Exists of a link to %s = %t, %v; want true because it is not followed", target, exists, err)
			}
		}
	}
}

func TestSharesAreReadOnly(t *testing.T) {
	for _, names := range []string{behavior.ShareNamesClosed, behavior.ShareNamesOpen} {
		t.Run("normalized paths are "+names, func(t *testing.T) { testSharesAreReadOnly(t, behavior.Windows{ShareNames: names}) })
	}
}

// The path with which a file was opened counts on shares only: elsewhere, a refusal to
// return the normalized path refuses the request, even where the opened path is within a
// working directory.
func TestOpenedPathCountsOnlyOnShares(t *testing.T) {
	w := newWorld(t)
	w.file(pods + `\file`)
	opened := 0
	w.hook = func(c *win32.Call) error {
		if c.Name != "FinalPath" {
			return c.Do()
		}
		if c.Code&win32.FILE_NAME_OPENED == 0 {
			return win32.ERROR_ACCESS_DENIED
		}
		opened++
		return c.Do()
	}
	for _, op := range operations() {
		if err := op.do(w, pods+`\file`); err == nil {
			t.Errorf("%s succeeds", op.name)
		}
	}
	if opened == 0 {
		t.Error("the opened path was never asked for")
	}
	w.hook = nil
	w.wantTree(pods, `file`)
}

func testSharesAreReadOnly(t *testing.T, windows behavior.Windows) {
	w := newWorldOn(t, windows)
	w.away()
	w.plant(pods+`\share`, symlink(`UNC\server\share`), true)
	for _, op := range operations() {
		touched := false
		w.hook = func(c *win32.Call) error {
			touched = touched || strings.Contains(c.Path, "server")
			return c.Do()
		}
		err := op.do(w, pods+`\share\x`)
		switch op.name {
		case "Lstat", "ReadDir", "Exists", "Readlink", "LinkTargetExists", "Look", "Symlink to", "MountedVolume", "VolumeOf", "Holder":
			if errors.Is(err, hosterr.ErrPermissionDenied) || !touched {
				t.Errorf("%s below a link to a share = %v, share opened %t; want an error of the share", op.name, err, touched)
			}
		default:
			if !errors.Is(err, hosterr.ErrPermissionDenied) || touched {
				t.Errorf("%s below a link to a share = %v, share opened %t; want ErrPermissionDenied and false", op.name, err, touched)
			}
		}
	}
}

// What counts are the working directories that the node has now: a path that was used before
// they were set is not allowed for good.
func TestWorkingDirectoriesMayChange(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		dirs []string
		want error
	}{
		{dirs: nil},
		{[]string{kubelet}, hosterr.ErrPermissionDenied},
		{dirs: []string{kubelet, outside}},
		{[]string{"outside"}, hosterr.ErrFailedPrecondition},
		{[]string{kubelet}, hosterr.ErrPermissionDenied},
	} {
		w.WorkingDirs = c.dirs
		_, err := winfs.Exists(t.Context(), w.Node, outside+`\precious.txt`)
		wantErr(t, fmt.Sprintf("with %q: Exists", c.dirs), err, c.want)
	}
}

// A container chooses the targets of its links, so a long one must not cost a call for each
// of its names.
func TestLongPathCostsFewCalls(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat(`\a`, 1500)
	w.dir(pods + `\to`)
	w.plant(pods+`\link`, junction(pods+`\to`), true)
	w.plant(pods+`\long`, junction(pods+`\link`+long), true)
	for _, path := range []string{pods + long, pods + `\link` + long, pods + `\long\a`} {
		w.calls.Store(0)
		if exists, err := winfs.Exists(t.Context(), w.Node, path); exists || err != nil {
			t.Errorf("Exists(%.50q…) = %t, %v; want false", path, exists, err)
		}
		if n := w.calls.Load(); n > 150 {
			t.Errorf("%.50q… took %d calls, want at most 150", path, n)
		}
	}
}

// A link that leads through itself is resolved again for each of its names. Every operation
// stops within the same limit, changes nothing, and names the link.
func TestLinksThroughThemselvesCostFewCalls(t *testing.T) {
	w := newWorld(t)
	w.plant(pods+`\w`, relative(`w`+strings.Repeat(`\x`, 120)), true)
	before := w.tree(kubelet)
	for _, op := range operations() {
		if op.name == "Symlink to" {
			continue // it does not follow its target
		}
		w.calls.Store(0)
		err := op.do(w, pods+`\w\end`)
		if !errors.Is(err, hosterr.ErrFailedPrecondition) || !strings.Contains(err.Error(), "the link "+hosterr.Quote(pods+`\w`)+" leads through more than 1000 directories") {
			t.Errorf("%s = %v, want an error that names the link", op.name, err)
		}
		if n := w.calls.Load(); n > 2500 {
			t.Errorf("%s took %d calls, want at most 2,500", op.name, n)
		}
	}
	w.wantTree(kubelet, before...)
}

func TestWorkingDirectoryIsNotRemoved(t *testing.T) {
	w := newWorld(t)
	w.dir(kubelet + `\inner`)
	w.dir(kubelet + `\inner\most`)
	w.file(kubelet + `\inner\most\file`)
	w.WorkingDirs = []string{kubelet, kubelet + `\inner\most`}
	w.plant(pods+`\up`, junction(`C:\var\lib`), true)
	before := w.tree(kubelet)
	for _, op := range operations() {
		switch op.name {
		case "Remove", "RemoveAll", "RemoveContents", "Hold":
		default:
			continue
		}
		for _, path := range []string{kubelet, kubelet + `\`, `c:\VAR\lib\KUBELET`, pods + `\up\kubelet`, kubelet + `\inner\most`, kubelet + `\inner`} {
			if err := op.do(w, path); !errors.Is(err, hosterr.ErrPermissionDenied) {
				t.Errorf("%s(%q) = %v, want ErrPermissionDenied", op.name, path, err)
			}
		}
	}
	w.wantTree(kubelet, before...)
}

// No link leads to the kubelet's keys, and none removes the directory of all pods.
func TestKubeletKeysAndPodsAreClosed(t *testing.T) {
	for _, place := range []string{kubelet, `E:\real`} {
		w := newWorld(t)
		if place != kubelet { // the configured directory is a link
			w.dir(place)
			w.dir(place + `\pods`)
			w.WorkingDirs = []string{`C:\linked`}
			w.plant(`C:\linked`, junction(place), true)
		}
		w.dir(place + `\pki`)
		w.file(place + `\pki\key.pem`)
		w.dir(place + `\pods\8d9f`)
		dir := w.WorkingDirs[0]
		w.plant(place+`\pods\8d9f\junction`, junction(place+`\pki`), true)
		w.plant(place+`\pods\8d9f\symlink`, symlink(place+`\PKI`), true)
		w.plant(place+`\pods\8d9f\up`, junction(place), true)
		before := w.tree(place)
		names := []string{dir + `\pki`, dir + `\PKI\key.pem`, dir + `\pods\8d9f\junction\key.pem`, dir + `\pods\8d9f\symlink\key.pem`, dir + `\pods\8d9f\up\pki\key.pem`}
		for _, op := range operations() {
			for _, path := range names {
				if err := op.do(w, path); !errors.Is(err, hosterr.ErrPermissionDenied) {
					t.Errorf("%s(%q) = %v, want ErrPermissionDenied", op.name, path, err)
				}
			}
			for _, path := range []string{dir + `\pods`, dir + `\pods\8d9f\up\Pods`} {
				if op.name == "Symlink to" {
					continue // which may be made
				}
				err := op.do(w, path)
				switch op.name {
				case "Remove", "RemoveAll", "RemoveContents", "Hold":
					if !errors.Is(err, hosterr.ErrPermissionDenied) {
						t.Errorf("%s(%q) = %v, want ErrPermissionDenied", op.name, path, err)
					}
				case "Lstat", "ReadDir", "Exists", "MkdirAll":
					if err != nil {
						t.Errorf("%s(%q) = %v", op.name, path, err)
					}
				}
			}
		}
		w.wantTree(place, before...)
	}
}

func TestRootIsNotRemoved(t *testing.T) {
	w := newWorld(t)
	w.WorkingDirs = nil
	w.file(`E:\file`)
	for _, op := range operations() {
		switch op.name {
		case "Remove", "RemoveAll", "RemoveContents", "Hold":
			if err := op.do(w, `E:\`); !errors.Is(err, hosterr.ErrInvalid) {
				t.Errorf("%s of a root = %v, want ErrInvalid", op.name, err)
			}
		}
	}
	if !slices.Contains(w.tree(`E:\`), "file") {
		t.Error(`E:\file is gone`)
	}
}

func TestWorkingDirectoryMayBeLink(t *testing.T) {
	w := newWorld(t)
	w.dir(`E:\kubelet`)
	w.dir(`E:\other`)
	w.file(`E:\other\file`)
	w.plant(`C:\kube`, symlink(`E:\kubelet`), true)
	w.WorkingDirs = []string{`C:\kube`}
	must(t, "make a directory", winfs.MkdirAll(t.Context(), w.Node, `C:\kube\plugins\a`))
	w.wantTree(`E:\kubelet`, `plugins`, `plugins\a`)
	// Its other name is allowed, too.
	must(t, "make a directory", winfs.MkdirAll(t.Context(), w.Node, `E:\kubelet\plugins\b`))
	w.plant(`E:\kubelet\plugins\evil`, relative(`..\..\other`), true)
	wantErr(t, "a way out", winfs.RemoveAll(t.Context(), w.Node, `C:\kube\plugins\evil\file`), hosterr.ErrPermissionDenied)
	for _, path := range []string{`C:\kube`, `E:\kubelet`} {
		wantErr(t, "removing "+path, winfs.RemoveAll(t.Context(), w.Node, path), hosterr.ErrPermissionDenied)
	}
	must(t, "remove", winfs.RemoveAll(t.Context(), w.Node, `C:\kube\plugins`))
	w.wantTree(`E:\other`, `file`)
}
