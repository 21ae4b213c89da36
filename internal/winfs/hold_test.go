package winfs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// unconfined returns the same node without working directories, as for a driver in
// process.
func unconfined(w *world) *node.Node {
	n := node.New(w.API)
	n.Clock = w
	return n
}

func TestVolumeMountedInWorkingDirectoryIsAllowed(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, bare, e := w.volumes()
	for _, c := range []struct{ name, volume string }{{"without a letter", bare}, {"with a letter", e}} {
		t.Run(c.name, func(t *testing.T) {
			mnt := pods + `\mnt`
			w.dir(mnt)
			w.mount(mnt, c.volume)
			must(t, "make directories", winfs.MkdirAll(ctx, w.Node, mnt+`\a\b`))
			must(t, "link to it", winfs.Symlink(ctx, w.Node, mnt+`\a`, pods+`\link`))
			if ok, err := winfs.LinkTargetExists(ctx, w.Node, pods+`\link`); !ok || err != nil {
				t.Errorf("LinkTargetExists = %t, %v; want true", ok, err)
			}
			if ok, err := winfs.Exists(ctx, w.Node, pods+`\link\b`); !ok || err != nil {
				t.Errorf("Exists through the link = %t, %v; want true", ok, err)
			}
			for _, path := range []string{mnt, mnt + `\a\b`, pods + `\link`} {
				if v, err := winfs.VolumeOf(ctx, w.Node, path); v != c.volume || err != nil {
					t.Errorf("VolumeOf(%q) = %s, %v; want %s", path, v, err, c.volume)
				}
			}
			must(t, "remove on it", winfs.RemoveAll(ctx, w.Node, pods+`\link\b`))
			must(t, "remove on it", winfs.RemoveAll(ctx, w.Node, mnt+`\a`))
			must(t, "remove the link", winfs.Remove(ctx, w.Node, pods+`\link`))
			wantErr(t, "empty the mounted volume", winfs.RemoveContents(ctx, w.Node, mnt), hosterr.ErrFailedPrecondition)
			must(t, "unmount and remove", winfs.Remove(ctx, w.Node, mnt))
		})
	}
}

// A mount point of the system volume leads out of the working directory, even if
// Windows has registered it.
func TestSystemVolumeMountPointIsRefused(t *testing.T) {
	for name, mount := range map[string]func(w *world, dir, vol string){
		"planted":             func(w *world, dir, vol string) { w.plant(dir, junction(vol[4:]), true) },
		"known to the system": func(w *world, dir, vol string) { w.dir(dir); w.mount(dir, vol) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c, _, _ := w.volumes()
			mount(w, pods+`\evil`, c)
			for _, op := range operations() {
				for _, below := range []string{`\outside`, `\outside\precious.txt`, `\outside\new\dir`, `\Windows`} {
					wantErr(t, op.name+below, op.do(w, pods+`\evil`+below), hosterr.ErrPermissionDenied)
				}
				if op.follows && op.name != "LinkTargetExists" && op.name != "Look" {
					wantErr(t, op.name, op.do(w, pods+`\evil`), hosterr.ErrPermissionDenied)
				}
			}
			w.intact()
			must(t, "remove the mount point", winfs.RemoveAll(t.Context(), w.Node, pods+`\evil`))
			w.intact()
		})
	}
}

// The same applies if the working directory is on another volume than Windows, and to
// mount points of that volume.
func TestMountPointsLeadingOutOfDataVolume(t *testing.T) {
	for name, mount := range map[string]func(w *world){
		"of the system's volume": func(w *world) {
			c, _, _ := w.volumes()
			w.mount(`E:\kubelet\evil`, c)
		},
		"of its own volume": func(w *world) {
			_, _, e := w.volumes()
			w.mount(`E:\kubelet\evil`, e)
			// Windows may register a mount point of a volume in itself; the emulated
			// mount manager does not.
			w.API = circle{w.API, e}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.WorkingDirs = []string{`E:\kubelet`}
			w.dir(`E:\kubelet`)
			w.dir(`E:\kubelet\evil`)
			w.dir(`E:\outside`)
			mount(w)
			for _, op := range operations() {
				wantErr(t, op.name, op.do(w, `E:\kubelet\evil\outside`), hosterr.ErrPermissionDenied)
			}
			w.intact()
			w.wantTree(`E:\kubelet`, `evil`)
		})
	}
}

// circle is a node where volume e is mounted in itself.
type circle struct {
	win32.API
	e string
}

func (c circle) VolumePathNames(vol string) ([]string, error) {
	names, err := c.API.VolumePathNames(vol)
	if vol == c.e {
		names = append(names, `E:\kubelet\evil\`)
	}
	return names, err
}

// A volume that is mounted elsewhere is outside, too.
func TestVolumeMountedElsewhereIsRefused(t *testing.T) {
	w := newWorld(t)
	w.file(`E:\precious`)
	w.plant(pods+`\evil`, symlink(`E:\`), true)
	for _, op := range operations() {
		wantErr(t, op.name, op.do(w, pods+`\evil\precious`), hosterr.ErrPermissionDenied)
	}
}

func TestMountedVolume(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c, bare, _ := w.volumes()
	const gone = `\\?\Volume{00000000-1111-2222-3333-444444444444}\`
	w.dir(pods + `\plain`)
	w.file(pods + `\file`)
	w.dir(pods + `\mnt`)
	w.mount(pods+`\mnt`, bare)
	w.plant(pods+`\tomnt`, symlink(pods+`\mnt`), true)
	w.plant(pods+`\toplain`, symlink(pods+`\plain`), true)
	w.plant(pods+`\dangling`, symlink(pods+`\mnt\nothing`), true)
	w.plant(pods+`\gone`, junction(gone[4:]), true)
	w.plant(pods+`\togone`, symlink(pods+`\gone`), true)
	must(t, "make a directory", winfs.MkdirAll(ctx, w.Node, pods+`\mnt\a`))
	w.plant(pods+`\below`, symlink(pods+`\mnt\a`), true)
	w.plant(pods+`\tobelow`, symlink(pods+`\below`), true)
	w.plant(pods+`\junction`, junction(pods+`\mnt\a`), true)
	w.plant(pods+`\byname`, symlink(bare[4:]), true)
	w.plant(pods+`\belowname`, junction(bare[4:]+`a`), true)
	for _, tt := range []struct {
		path, volume string
		mounted      bool
		of           string
	}{
		{`\plain`, "", false, c},
		{`\file`, "", false, c},
		{`\mnt`, bare, true, bare},
		{`\tomnt`, bare, true, bare},
		{`\toplain`, "", false, c},
		{`\below`, "", false, bare},
		{`\tobelow`, "", false, bare},
		{`\junction`, "", false, bare},
		{`\byname`, bare, true, bare},
		{`\belowname`, "", false, bare},
		{`\dangling`, "", false, bare},
		{`\gone`, gone, true, gone},
		{`\togone`, gone, true, gone},
	} {
		v, mounted, err := winfs.MountedVolume(ctx, w.Node, pods+tt.path)
		if v != tt.volume || mounted != tt.mounted || err != nil {
			t.Errorf("MountedVolume(%q) = %q, %t, %v; want %q, %t", tt.path, v, mounted, err, tt.volume, tt.mounted)
		}
		if v, err := winfs.VolumeOf(ctx, w.Node, pods+tt.path); v != tt.of || err != nil {
			t.Errorf("VolumeOf(%q) = %q, %v; want %q", tt.path, v, err, tt.of)
		}
	}
	if v, mounted, err := winfs.MountedVolume(ctx, unconfined(w), `C:\`); v != "" || mounted || err != nil {
		t.Errorf(`MountedVolume(C:\) = %q, %t, %v; want none`, v, mounted, err)
	}
	if v, err := winfs.VolumeOf(ctx, unconfined(w), `c:\`); v != c || err != nil {
		t.Errorf(`VolumeOf(c:\) = %q, %v; want %q`, v, err, c)
	}
	for _, path := range []string{`\nothing`, `\plain\nothing`, `\gone\x`} {
		_, err := winfs.VolumeOf(ctx, w.Node, pods+path)
		wantErr(t, "VolumeOf("+path+")", err, hosterr.ErrNotFound)
	}
}

func TestHeldParentCannotBeRenamed(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, bare, _ := w.volumes()
	for _, d := range []string{`\a`, `\a\b`, `\a\b\c`} {
		w.dir(pods + d)
	}
	w.plant(pods+`\link`, symlink(pods+`\a\b`), true)
	held, err := winfs.Hold(ctx, w.Node, pods+`\link\c`)
	must(t, "hold", err)
	if want := pods + `\a\b\c`; held.Path != want || held.Link != nil {
		t.Errorf("held is %q, link %v; want %q", held.Path, held.Link, want)
	}
	for _, d := range []string{`\a\b`, `\a`} {
		if err := w.rename(pods+d, "x"); err == nil {
			t.Errorf("%s was renamed while a directory in it was held", d)
		}
	}
	// The mount functions work on a held directory.
	must(t, "mount", w.raw.SetMountPoint(held.Path+`\`, bare))
	if v, err := held.Mounted(); v != bare || err != nil {
		t.Errorf("Mounted() = %q, %v, want %q", v, err, bare)
	}
	held.Close()
	held, err = winfs.Hold(ctx, w.Node, pods+`\link\c`)
	must(t, "hold", err)
	if held.Link == nil || held.Link.Volume != bare || held.Link.Tag != win32.IO_REPARSE_TAG_MOUNT_POINT {
		t.Errorf("the held mount point leads to %+v, want %s", held.Link, bare)
	}
	must(t, "unmount", w.raw.DeleteMountPoint(held.Path+`\`))
	if v, err := held.Mounted(); v != "" || err != nil {
		t.Errorf("Mounted() = %q, %v after unmounting", v, err)
	}
	held.Close()

	// Another directory that takes the path is not the held one.
	held, err = winfs.Hold(ctx, w.Node, pods+`\link\c`)
	must(t, "hold", err)
	must(t, "move the held directory", w.rename(pods+`\a\b\c`, "moved"))
	w.dir(pods + `\a\b\c`)
	must(t, "mount on the other", w.raw.SetMountPoint(held.Path+`\`, bare))
	if v, err := held.Mounted(); v != "" || err != nil {
		t.Errorf("Mounted() = %q, %v, but the volume is mounted on another directory", v, err)
	}
	held.Close()

	w.file(pods + `\file`)
	_, err = winfs.Hold(ctx, w.Node, pods+`\file`)
	wantErr(t, "hold a file", err, hosterr.ErrFailedPrecondition)
	_, err = winfs.Hold(ctx, w.Node, pods+`\nothing`)
	wantErr(t, "hold nothing", err, hosterr.ErrNotFound)
}

// A volume is unmounted or removed before each call that the lookup makes. The result
// must be that volume or an error, and never the volume that contains the mount point,
// which a caller might grow.
func TestVolumeOfMountPointDuringUnmount(t *testing.T) {
	const mnt = pods + `\mnt`
	unmount := func(w *world) { must(w.t, "unmount", w.raw.DeleteMountPoint(mnt+`\`)) }
	remove := func(w *world) {
		unmount(w)
		must(w.t, "remove", winfs.Remove(context.Background(), plainNode(w), mnt))
	}
	mounted := func(w *world, path string) (string, error) {
		v, ok, err := winfs.MountedVolume(w.t.Context(), w.Node, path)
		if !ok && v != "" {
			w.t.Errorf("MountedVolume(%q) = %q, false; want no name", path, v)
		}
		return v, err
	}
	const none, below = "none", "the volume below"
	volumeOf := func(w *world, path string) (string, error) { return winfs.VolumeOf(w.t.Context(), w.Node, path) }
	for _, tt := range []struct {
		name   string
		path   string
		ask    func(*world, string) (string, error)
		happen func(*world)
		plain  string // the result for the remaining directory
	}{
		{"MountedVolume, unmounted", mnt, mounted, unmount, none},
		{"MountedVolume, removed", mnt, mounted, remove, none},
		{"VolumeOf, unmounted", mnt, volumeOf, unmount, below},
		{"VolumeOf, removed", mnt, volumeOf, remove, ""},
		{"VolumeOf within, unmounted", mnt + `\a`, volumeOf, unmount, ""},
		{"VolumeOf within, removed", mnt + `\a`, volumeOf, remove, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			points := int64(0)
			for k := int64(1); ; k++ {
				w := newWorld(t)
				c, bare, _ := w.volumes()
				w.dir(mnt)
				w.mount(mnt, bare)
				must(t, "make a directory", winfs.MkdirAll(t.Context(), w.Node, mnt+`\a`))
				w.calls.Store(0)
				w.hook = func(call *win32.Call) error {
					if w.calls.Load() == k {
						tt.happen(w)
					}
					return call.Do()
				}
				v, err := tt.ask(w, tt.path)
				w.hook = nil
				if w.calls.Load() < k {
					break
				}
				points++
				switch {
				case err == nil && (v == bare || v == "" && tt.plain == none || v == c && tt.plain == below):
				case v == "" && errors.Is(err, hosterr.ErrNotFound):
				default:
					t.Errorf("before call %d: %q, %v; want %q or nothing there", k, v, err, bare)
				}
			}
			if points < 4 {
				t.Errorf("tested only %d points", points)
			}
		})
	}
}

// plainNode returns the node without hooks and working directories, as another program
// uses it.
func plainNode(w *world) *node.Node {
	n := node.New(w.raw)
	n.Clock = w
	return n
}
