package winfs_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

func TestMkdirAll(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for range 2 { // succeeds if the directory exists
		must(t, "make", winfs.MkdirAll(ctx, w.Node, pods+`\a\b\c`))
	}
	w.wantTree(pods, `a`, `a\b`, `a\b\c`)
	w.file(pods + `\a\file`)
	wantErr(t, "over a file", winfs.MkdirAll(ctx, w.Node, pods+`\a\file`), hosterr.ErrAlreadyExists)
	wantErr(t, "below a file", winfs.MkdirAll(ctx, w.Node, pods+`\a\file\x`), hosterr.ErrFailedPrecondition)
	w.plant(pods+`\dangling`, symlink(pods+`\nothing`), true)
	for _, p := range []string{`\dangling`, `\dangling\x`} {
		wantErr(t, "through a link without target", winfs.MkdirAll(ctx, w.Node, pods+p), hosterr.ErrFailedPrecondition)
	}
	w.plant(pods+`\link`, symlink(pods+`\a`), true)
	must(t, "through a link", winfs.MkdirAll(ctx, w.Node, pods+`\link\d\e`))
	w.wantTree(pods, `a`, `a\b`, `a\b\c`, `a\d`, `a\d\e`, `a\file`, `dangling`, `link`)
	wantErr(t, "on a drive that does not exist", winfs.MkdirAll(ctx, unconfined(w), `Q:\a`), hosterr.ErrNotFound)
}

func TestMkdirAllChecksLinkCreatedMeanwhile(t *testing.T) {
	w := newWorld(t)
	planted := false
	w.hook = func(c *win32.Call) error {
		if c.Name == "FinalPath" && !planted {
			planted = true
			err := c.Do()
			w.plant(pods+`\a`, junction(outside), true)
			return err
		}
		return c.Do()
	}
	wantErr(t, "MkdirAll", winfs.MkdirAll(t.Context(), w.Node, pods+`\a\b`), hosterr.ErrPermissionDenied)
	w.intact()
}

func TestRemoveAll(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.dir(pods + `\a`)
	for i := range 300 { // names for more than one buffer
		w.file(fmt.Sprintf(`%s\a\a file with a rather long name, number %d`, pods, i))
	}
	must(t, "prepare", winfs.MkdirAll(ctx, w.Node, pods+`\a\b\c\d`))
	w.file(pods + `\a\b\c\file`)
	w.dir(pods + `\kept`)
	w.file(pods + `\kept\file`)
	w.plant(pods+`\a\b\symlink`, symlink(outside), true)
	w.plant(pods+`\a\b\junction`, junction(pods+`\kept`), true)
	w.plant(pods+`\a\b\filelink`, symlink(outside+`\precious.txt`), false)
	w.plant(pods+`\a\b\loop`, relative(`..`), true)
	w.plant(pods+`\a\dangling`, symlink(pods+`\nothing`), true)
	for range 2 { // succeeds if nothing exists
		must(t, "remove", winfs.RemoveAll(ctx, w.Node, pods+`\a`))
	}
	must(t, "below a missing directory", winfs.RemoveAll(ctx, w.Node, pods+`\a\b`))
	must(t, "below a file", winfs.RemoveAll(ctx, w.Node, pods+`\kept\file\x`))
	w.wantTree(pods, `kept`, `kept\file`)
	must(t, "a file", winfs.RemoveAll(ctx, w.Node, pods+`\kept\file`))
	w.plant(pods+`\link`, junction(outside), true)
	must(t, "a link", winfs.RemoveAll(ctx, w.Node, pods+`\link`))
	w.wantTree(pods, `kept`)
	w.intact()
}

func TestRemoveAllRefusesTreeWithMountedVolume(t *testing.T) {
	w := newWorld(t)
	_, bare, _ := w.volumes()
	must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, pods+`\a\z\mnt`))
	for _, f := range []string{`\a\1`, `\a\z\1`, `\a\zz`} {
		w.file(pods + f)
	}
	w.mount(pods+`\a\z\mnt`, bare)
	w.file(pods + `\a\z\mnt\data`)
	before := w.tree(pods)
	for name, do := range map[string]func() error{
		"RemoveAll":      func() error { return winfs.RemoveAll(t.Context(), w.Node, pods+`\a`) },
		"RemoveContents": func() error { return winfs.RemoveContents(t.Context(), w.Node, pods+`\a`) },
	} {
		err := do()
		if !errors.Is(err, hosterr.ErrFailedPrecondition) || !strings.Contains(err.Error(), pods+`\a\z\mnt`) {
			t.Errorf("%s = %v, want ErrFailedPrecondition with the mount point", name, err)
		}
		w.wantTree(pods, before...)
		// Its disk is missing for a moment, or another program has it open, when the search comes to
		// a directory or to the mount point itself.
		for _, at := range []string{"z", "mnt"} {
			for call, code := range map[string]error{"NtCreateFile": win32.ERROR_NO_SUCH_DEVICE, "QueryDirectory": win32.ERROR_NO_SUCH_DEVICE, "DeviceIoControl": win32.ERROR_NO_SUCH_DEVICE, "NtCreateFile ": win32.STATUS_SHARING_VIOLATION} {
				times := 0
				w.hook = func(c *win32.Call) error {
					if c.Name == strings.TrimSpace(call) && strings.HasSuffix(c.Path, at) && times < 3 {
						times++
						return code
					}
					return c.Do()
				}
				err := do()
				w.hook = nil
				if !errors.Is(err, hosterr.ErrFailedPrecondition) && !errors.Is(err, hosterr.ErrUnavailable) {
					t.Errorf("%s with %v at %q in %s = %v, want ErrFailedPrecondition or ErrUnavailable", name, code, at, call, err)
				}
				w.wantTree(pods, before...)
			}
		}
	}
	// A mount point that appears after the search is found during removal, and kept.
	must(t, "unmount", w.raw.DeleteMountPoint(pods+`\a\z\mnt\`))
	w.hook = func(c *win32.Call) error {
		if c.Name == "SetInformation" && c.Code == win32.FileDispositionInformationEx {
			w.hook = nil
			w.mount(pods+`\a\z\mnt`, bare)
		}
		return c.Do()
	}
	wantErr(t, "RemoveAll", winfs.RemoveAll(t.Context(), w.Node, pods+`\a`), hosterr.ErrFailedPrecondition)
	if ok, err := winfs.Exists(t.Context(), w.Node, pods+`\a\z\mnt\data`); !ok || err != nil {
		t.Errorf("the data of the mounted volume: %t, %v", ok, err)
	}
}

func TestRemoveMountPointKeepsVolume(t *testing.T) {
	for name, remove := range map[string]func(*world, string) error{
		"Remove":    func(w *world, p string) error { return winfs.Remove(context.Background(), w.Node, p) },
		"RemoveAll": func(w *world, p string) error { return winfs.RemoveAll(context.Background(), w.Node, p) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, _, e := w.volumes()
			w.file(`E:\data`)
			w.dir(pods + `\mnt`)
			w.mount(pods+`\mnt`, e)
			must(t, "remove", remove(w, pods+`\mnt`))
			w.wantTree(pods)
			w.wantTree(`E:\`, "data")
			paths, err := w.raw.VolumePathNames(e)
			if err != nil || len(paths) != 1 || paths[0] != `E:\` {
				t.Errorf("the mount manager has %q, %v for the volume; want only E:\\", paths, err)
			}
		})
	}
}

// Remove unmounts a volume only once, even if it starts again. A volume that is mounted
// after that is in use.
func TestRemoveUnmountsOnce(t *testing.T) {
	const mnt = pods + `\mnt`
	for _, again := range []error{nil, win32.ERROR_NOT_READY} {
		w := newWorld(t)
		_, bare, e := w.volumes()
		w.dir(mnt)
		w.mount(mnt, bare)
		unmounted, looked := false, false
		w.hook = func(c *win32.Call) error {
			if unmounted && !looked && c.Name != "CloseHandle" {
				looked = true
				w.mount(mnt, e)
				if again != nil {
					return again
				}
			}
			err := c.Do()
			unmounted = unmounted || c.Name == "DeleteMountPoint" && err == nil
			return err
		}
		err := winfs.RemoveAll(t.Context(), w.Node, mnt)
		w.hook = nil
		wantErr(t, fmt.Sprintf("remove, with another attempt because of %v", again), err, hosterr.ErrFailedPrecondition)
		if v, mounted, err := winfs.MountedVolume(t.Context(), w.Node, mnt); v != e || !mounted || err != nil {
			t.Errorf("mounted afterwards, with %v: %q, %t, %v; want %q", again, v, mounted, err, e)
		}
	}
}

func TestRemoveReadOnlyFiles(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("without POSIX deletes %t", old), func(t *testing.T) {
			w := newWorld(t)
			must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, pods+`\a\b`))
			h := w.create(pods+`\a\b\file`, win32.FILE_NON_DIRECTORY_FILE, win32.FILE_WRITE_ATTRIBUTES)
			info := make([]byte, 40)
			binary.LittleEndian.PutUint32(info[32:], win32.FILE_ATTRIBUTE_READONLY)
			must(t, "make read-only", w.raw.SetInformation(h, win32.FileBasicInformation, info))
			w.closeRaw(h)
			w.file(pods + `\a\file`)
			if old {
				w.hook = func(c *win32.Call) error {
					if c.Name == "SetInformation" && c.Code == win32.FileDispositionInformationEx {
						return win32.STATUS_INVALID_INFO_CLASS
					}
					return c.Do()
				}
			}
			must(t, "remove", winfs.RemoveAll(t.Context(), w.Node, pods+`\a`))
			w.wantTree(pods)
		})
	}
}

// Access control lists of files that a container made may grant the node's account nothing
// but deleting them.
func TestRemoveWithRightToDeleteOnly(t *testing.T) {
	const only = win32.DELETE | win32.SYNCHRONIZE
	w := newWorld(t)
	must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, pods+`\a\empty`))
	w.file(pods + `\a\file`)
	w.file(pods + `\file`)
	w.dir(pods + `\empty`)
	w.plant(pods+`\link`, symlink(outside), true)
	w.plant(pods+`\a\junction`, junction(outside), true)
	for _, p := range []string{`\a\empty`, `\a\file`, `\a\junction`, `\file`, `\empty`, `\link`} {
		must(t, "set rights", w.em.SetRights(pods+p, only))
	}
	must(t, "a file", winfs.Remove(t.Context(), w.Node, pods+`\file`))
	must(t, "an empty directory", winfs.Remove(t.Context(), w.Node, pods+`\empty`))
	must(t, "a link", winfs.RemoveAll(t.Context(), w.Node, pods+`\link`))
	must(t, "a tree", winfs.RemoveAll(t.Context(), w.Node, pods+`\a`))
	w.wantTree(pods)
	w.intact()

	// A directory that cannot be listed stays if it is not empty.
	w.dir(pods + `\a`)
	w.file(pods + `\a\file`)
	must(t, "set rights", w.em.SetRights(pods+`\a`, only))
	wantErr(t, "a directory that cannot be listed", winfs.RemoveAll(t.Context(), w.Node, pods+`\a`), hosterr.ErrPermissionDenied)
	must(t, "set rights", w.em.SetRights(pods+`\a`, 0))
	w.wantTree(pods, `a`, `a\file`)
	// Nothing is removed that does not even grant that.
	must(t, "set rights", w.em.SetRights(pods+`\a\file`, win32.FILE_READ_ATTRIBUTES|win32.SYNCHRONIZE))
	wantErr(t, "a file that may not be deleted", winfs.Remove(t.Context(), w.Node, pods+`\a\file`), hosterr.ErrPermissionDenied)
	w.wantTree(pods, `a`, `a\file`)
}

// A directory that another process removes meanwhile has a path as long as it is open, in
// NTFS' directory of deleted files.
func TestRemoveDirectoryRemovedMeanwhile(t *testing.T) {
	w := newWorld(t)
	must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, pods+`\a\b`))
	w.file(pods + `\a\b\file`)
	w.hook = func(c *win32.Call) error {
		if c.Name == "NtCreateFile" && strings.HasSuffix(c.Path, `b\file`) {
			w.hook = nil
			must(t, "remove the file", w.em.RemoveFile(pods+`\a\b\file`))
			must(t, "remove the directory", w.em.RemoveFile(pods+`\a\b`))
			return win32.STATUS_DELETE_PENDING
		}
		return c.Do()
	}
	must(t, "remove", winfs.RemoveAll(t.Context(), w.Node, pods+`\a`))
	if w.slept != 0 {
		t.Errorf("waited %v for a directory that is gone", w.slept)
	}
	w.wantTree(pods)
}

// DeleteVolumeMountPoint may fail for a mount point whose disk was removed.
func TestRemoveMountPointOfGoneVolume(t *testing.T) {
	for _, refusal := range []win32.Errno{0, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_INVALID_PARAMETER, win32.ERROR_NOT_A_REPARSE_POINT, win32.ERROR_ACCESS_DENIED} {
		for _, value := range []string{behavior.GoneMountPointRefused, behavior.GoneMountPointRemoved} {
			w := newWorldOn(t, behavior.Windows{GoneMountPoint: value})
			w.plant(pods+`\gone`, junction(`Volume{00000000-1111-2222-3333-444444444444}\`), true)
			_, bare, _ := w.volumes()
			w.dir(pods + `\live`)
			w.mount(pods+`\live`, bare)
			w.hook = func(c *win32.Call) error {
				if c.Name == "DeleteMountPoint" && refusal != 0 {
					return refusal
				}
				return c.Do()
			}
			must(t, fmt.Sprintf("remove where Windows says %v", refusal), winfs.Remove(t.Context(), w.Node, pods+`\gone`))
			w.wantTree(pods, `live`)
			if refusal != 0 {
				if err := winfs.Remove(t.Context(), w.Node, pods+`\live`); err == nil {
					t.Errorf("the mount point of a volume that exists was removed, although Windows said %v", refusal)
				}
				w.wantTree(pods, `live`)
			}
		}
	}
}

// A volume that another program mounts in the place of one that is gone stays mounted.
func TestUnmountLeavesAnotherVolume(t *testing.T) {
	w := newWorld(t)
	path := pods + `\gone`
	w.plant(path, junction(`Volume{00000000-1111-2222-3333-444444444444}\`), true)
	_, bare, _ := w.volumes()
	held, err := winfs.Hold(t.Context(), w.Node, path)
	must(t, "hold", err)
	defer held.Close()
	w.hook = func(c *win32.Call) error {
		if c.Name == "VolumeNameForMountPoint" { // the last look before the mount point is removed
			must(t, "remove", w.em.RemoveFile(path))
			w.dir(path)
			w.mount(path, bare)
		}
		return c.Do()
	}
	err = held.Unmount()
	if v, is := w.raw.VolumeNameForMountPoint(path + `\`); v != bare || is != nil {
		t.Errorf("after Unmount, which returned %v, %q is mounted, %v; want %q", err, v, is, bare)
	}
}

func TestRemoveRetriesTemporaryErrors(t *testing.T) {
	w := newWorld(t)
	must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, pods+`\a\b`))
	w.file(pods + `\a\b\file`)
	busy := 5
	w.hook = func(c *win32.Call) error {
		if c.Name == "NtCreateFile" && strings.HasSuffix(c.Path, "file") && busy > 0 {
			busy--
			return win32.STATUS_SHARING_VIOLATION
		}
		return c.Do()
	}
	must(t, "remove", winfs.RemoveAll(t.Context(), w.Node, pods+`\a`))
	if w.slept == 0 || w.slept.Seconds() > 2 {
		t.Errorf("waited %v, want a short time", w.slept)
	}
	w.wantTree(pods)
}

func TestRemoveAllContinuesAfterError(t *testing.T) {
	w := newWorld(t)
	must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, pods+`\a\b`))
	for _, f := range []string{`\a\1`, `\a\b\2`, `\a\b\3`, `\a\4`} {
		w.file(pods + f)
	}
	w.hook = func(c *win32.Call) error {
		if c.Name == "NtCreateFile" && (strings.HasSuffix(c.Path, `\2`) || strings.HasSuffix(c.Path, `\1`)) {
			return win32.STATUS_SHARING_VIOLATION
		}
		return c.Do()
	}
	err := winfs.RemoveAll(t.Context(), w.Node, pods+`\a`)
	if !errors.Is(err, hosterr.ErrUnavailable) || !strings.Contains(err.Error(), `\a\1"`) {
		t.Errorf(`RemoveAll = %v, want ErrUnavailable with \a\1`, err)
	}
	w.wantTree(pods, `a`, `a\1`, `a\b`, `a\b\2`)
	if w.slept.Seconds() > 2 {
		t.Errorf("waited %v in all, want at most 2 s", w.slept)
	}
}

// A tree of any depth is removed, with a limited number of handles. What cannot be removed
// at its bottom is an error, and does not keep the rest.
func TestDeepTreeIsRemoved(t *testing.T) {
	for _, depth := range []int{999, 1000, 1001, 2500} {
		w := newWorld(t)
		deep := pods + `\a` + strings.Repeat(`\d`, depth)
		prepare := func() {
			t.Helper()
			must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, deep))
			w.file(deep + `\file`)
			w.file(pods + `\a\d\file`)
		}
		open, most := 0, 0
		w.hook = func(c *win32.Call) error {
			err := c.Do()
			switch {
			case err == nil && c.Name == "NtCreateFile":
				open++
			case err == nil && c.Name == "CloseHandle":
				open--
			}
			most = max(most, open)
			return err
		}
		prepare()
		must(t, "remove", winfs.RemoveAll(t.Context(), w.Node, pods+`\a`))
		w.wantTree(pods)
		prepare()
		must(t, "empty", winfs.RemoveContents(t.Context(), w.Node, pods+`\a`))
		w.wantTree(pods, `a`)
		if open != 0 || most > 1100 {
			t.Errorf("depth %d: %d handles at most, %d left", depth, most, open)
		}

		prepare()
		w.hook = func(c *win32.Call) error {
			if c.Name == "NtCreateFile" && strings.HasSuffix(c.Path, "file") {
				return win32.STATUS_ACCESS_DENIED
			}
			return c.Do()
		}
		wantErr(t, "remove with a file that cannot be", winfs.RemoveAll(t.Context(), w.Node, pods+`\a`), hosterr.ErrPermissionDenied)
		w.hook = nil
		must(t, "remove", winfs.RemoveAll(t.Context(), w.Node, pods+`\a`))
		w.wantTree(pods)
	}
}

func TestRemoveAllStopsWithContext(t *testing.T) {
	w := newWorld(t)
	must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, pods+`\a\b\c`))
	ctx, cancel := context.WithCancel(t.Context())
	w.hook = func(c *win32.Call) error {
		if c.Name == "SetInformation" {
			cancel()
		}
		return c.Do()
	}
	wantErr(t, "RemoveAll", winfs.RemoveAll(ctx, w.Node, pods+`\a`), context.Canceled)
	w.wantTree(pods, `a`, `a\b`) // c was removed before the context ended
}

func TestSymlink(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.dir(pods + `\dir`)
	w.file(pods + `\file`)
	w.plant(pods+`\tofile`, symlink(pods+`\file`), false)
	for _, c := range []struct {
		name, source string
		dir          bool
		substitute   string
	}{
		{"directory", pods + `\dir`, true, `\??\` + pods + `\dir`},
		{"trailing backslash", pods + `\dir\`, true, `\??\` + pods + `\dir\`},
		{"file", pods + `\file`, false, `\??\` + pods + `\file`},
		{"missing", pods + `\nothing`, false, `\??\` + pods + `\nothing`},
		{"link to a file", pods + `\tofile`, false, `\??\` + pods + `\tofile`},
		{"root of a share", `\\server\share\`, true, `\??\UNC\server\share\`},
	} {
		t.Run(c.name, func(t *testing.T) {
			link := pods + `\link-` + strings.ReplaceAll(c.name, " ", "-")
			for range 2 { // succeeds if the same link exists
				must(t, "link", winfs.Symlink(ctx, w.Node, c.source, link))
			}
			info, err := winfs.Lstat(ctx, w.Node, link)
			if err != nil || info.IsDir() != c.dir || info.ReparseTag != win32.IO_REPARSE_TAG_SYMLINK {
				t.Errorf("Lstat(%q) = %+v, %v; want a symbolic link, to a directory %t", link, info, err, c.dir)
			}
			l, ok, err := winfs.Readlink(ctx, w.Node, link)
			if !ok || err != nil || l.Substitute != c.substitute || l.Relative || l.Volume != "" {
				t.Errorf("Readlink(%q) = %+v, %t, %v; want %q", link, l, ok, err, c.substitute)
			}
			wantErr(t, "another link there", winfs.Symlink(ctx, w.Node, kubelet, link), hosterr.ErrAlreadyExists)
		})
	}
	wantErr(t, "where a file is", winfs.Symlink(ctx, w.Node, pods+`\dir`, pods+`\file`), hosterr.ErrAlreadyExists)
	wantErr(t, "where a directory is", winfs.Symlink(ctx, w.Node, pods+`\file`, pods+`\dir`), hosterr.ErrAlreadyExists)
	wantErr(t, "without a directory above", winfs.Symlink(ctx, w.Node, pods+`\dir`, pods+`\nothing\link`), hosterr.ErrNotFound)
	wantErr(t, "to a place outside", winfs.Symlink(ctx, w.Node, outside, pods+`\bad`), hosterr.ErrPermissionDenied)
	// A link of the other kind is not the same link.
	w.dir(pods + `\nothing`)
	wantErr(t, "the source appeared", winfs.Symlink(ctx, w.Node, pods+`\nothing`, pods+`\link-missing`), hosterr.ErrAlreadyExists)
	// A retry succeeds although the source has disappeared since.
	for _, name := range []string{"directory", "file"} {
		source := map[string]string{"directory": pods + `\dir`, "file": pods + `\file`}[name]
		must(t, "remove the source", winfs.RemoveAll(ctx, w.Node, source))
		must(t, "link again", winfs.Symlink(ctx, w.Node, source, pods+`\link-`+name))
		if info, err := winfs.Lstat(ctx, w.Node, pods+`\link-`+name); err != nil || info.IsDir() != (name == "directory") {
			t.Errorf("Lstat = %+v, %v, want the link of before", info, err)
		}
	}
}

// A link that Windows does not make leaves nothing, also if the first removals fail. If all fail,
// the error says what is left.
func TestFailedSymlinkLeavesNothing(t *testing.T) {
	for failures := range 4 {
		w := newWorld(t)
		left := failures
		w.hook = func(c *win32.Call) error {
			switch {
			case c.Name == "DeviceIoControl" && c.Code == win32.FSCTL_SET_REPARSE_POINT:
				return win32.ERROR_NOT_SUPPORTED
			case c.Name == "SetInformation" && left > 0:
				left--
				return win32.ERROR_IO_DEVICE
			}
			return c.Do()
		}
		err := winfs.Symlink(t.Context(), w.Node, pods, pods+`\link`)
		wantErr(t, "Symlink", err, win32.ERROR_NOT_SUPPORTED)
		if failures < 3 {
			w.wantTree(pods)
			continue
		}
		wantErr(t, "Symlink, and nothing can be removed", err, win32.ERROR_IO_DEVICE)
		if !strings.Contains(err.Error(), "is left") {
			t.Errorf("the error is %q, and does not say what is left", err)
		}
	}
}

// An elevated administrator holds the privilege to make links and has to enable it; other
// accounts do not have it.
func TestSymlinkNeedsPrivilege(t *testing.T) {
	must(t, "make a link", winfs.Symlink(t.Context(), newWorld(t).Node, pods, pods+`\link`))
	w := newWorld(t)
	w.hook = func(c *win32.Call) error {
		if c.Name == "DeviceIoControl" && c.Code == win32.FSCTL_SET_REPARSE_POINT {
			return win32.ERROR_PRIVILEGE_NOT_HELD
		}
		return c.Do()
	}
	err := winfs.Symlink(t.Context(), w.Node, pods, pods+`\link`)
	wantErr(t, "Symlink without the privilege", err, hosterr.ErrPermissionDenied)
	if hint := hosterr.HintOf(err); !strings.Contains(hint, "SeCreateSymbolicLinkPrivilege") {
		t.Errorf("the hint is %q, want the privilege in it", hint)
	}
	w.wantTree(pods)
}

// The result must not contain entries from an interrupted attempt.
func TestReadDirReturnsLastAttempt(t *testing.T) {
	w := newWorld(t)
	w.dir(pods + `\a`)
	w.file(pods + `\file`)
	lists := 0
	w.hook = func(c *win32.Call) error {
		if c.Name == "QueryDirectory" {
			if lists++; lists == 2 {
				must(t, "remove a file", winfs.Remove(t.Context(), plainNode(w), pods+`\file`))
				return win32.ERROR_NOT_READY
			}
		}
		return c.Do()
	}
	found, err := winfs.ReadDir(t.Context(), w.Node, pods)
	if err != nil || len(found) != 1 || found[0].Name != "a" || lists < 3 {
		t.Errorf("ReadDir = %v, %v after %d calls; want a", found, err, lists)
	}
}

func TestLinkTargetExists(t *testing.T) {
	w := newWorld(t)
	_, bare, _ := w.volumes()
	w.dir(pods + `\dir`)
	w.dir(pods + `\dir\sub`)
	w.dir(pods + `\mnt`)
	w.file(pods + `\file`)
	w.mount(pods+`\mnt`, bare)
	w.plant(pods+`\todir`, symlink(pods+`\dir`), true)
	w.plant(pods+`\tofile`, symlink(pods+`\file`), false)
	w.plant(pods+`\dangling`, symlink(pods+`\nothing`), false)
	w.plant(pods+`\todangling`, symlink(pods+`\dangling`), false)
	w.plant(pods+`\junction`, junction(pods+`\dir`), true)
	w.plant(pods+`\gone`, junction(`Volume{00000000-1111-2222-3333-444444444444}\`), true)
	w.plant(pods+`\relative`, relative(`dir`), true)
	w.plant(pods+`\dir\up`, relative(`..\file`), false)
	w.plant(pods+`\toshare`, symlink(`UNC\server\share\`), true)
	for path, want := range map[string]bool{
		`\dir`: false, `\file`: false, `\mnt`: true, `\todir`: true, `\tofile`: true, `\dangling`: false, `\todangling`: true,
		`\junction`: true, `\gone`: false, `\relative`: true, `\dir\up`: true, `\todir\up`: true,
	} {
		if got, err := winfs.LinkTargetExists(t.Context(), w.Node, pods+path); got != want || err != nil {
			t.Errorf("LinkTargetExists(%q) = %t, %v; want %t", path, got, err, want)
		}
	}
	_, err := winfs.LinkTargetExists(t.Context(), w.Node, pods+`\nothing`)
	wantErr(t, "nothing", err, hosterr.ErrNotFound)
	w.away()
	_, err = winfs.LinkTargetExists(t.Context(), w.Node, pods+`\toshare`)
	wantErr(t, "a share that does not answer", err, hosterr.ErrUnavailable)
}

func TestLook(t *testing.T) {
	w := newWorld(t)
	_, bare, _ := w.volumes()
	const gone = `Volume{00000000-1111-2222-3333-444444444444}\`
	w.dir(pods + `\dir`)
	w.dir(pods + `\mnt`)
	w.file(pods + `\file`)
	w.mount(pods+`\mnt`, bare)
	w.plant(pods+`\todir`, symlink(pods+`\dir`), true)
	w.plant(pods+`\tofile`, symlink(pods+`\file`), false)
	w.plant(pods+`\tomnt`, symlink(pods+`\mnt`), true)
	w.plant(pods+`\dangling`, symlink(pods+`\nothing`), false)
	w.plant(pods+`\todangling`, symlink(pods+`\dangling`), false)
	w.plant(pods+`\junction`, junction(pods+`\dir`), true)
	w.plant(pods+`\gone`, junction(gone), true)
	w.plant(pods+`\toshare`, symlink(`UNC\server\share\`), true)
	w.plant(pods+`\below`, symlink(`UNC\server\share\a\b`), true)
	w.plant(pods+`\through`, symlink(pods+`\toshare\a`), true)
	w.plant(pods+`\other`, symlink(`UNC\server\unmapped\`), true)
	w.plant(pods+`\throughother`, symlink(pods+`\other\a`), true)
	share, err := winpath.ParseShare(`\\server\share`)
	must(t, "parse", err)
	winfs.ShareMapped(w.Node, share)
	w.plant(pods+`\todrive`, symlink(`G:\a`), true)
	w.plant(pods+`\throughdrive`, symlink(pods+`\todrive\b`), true)
	w.plant(pods+`\nodrive`, symlink(`H:\a`), true)
	w.away() // no server is asked
	w.hook = func(c *win32.Call) error {
		if c.Name == "NtCreateFile" && (strings.HasPrefix(c.Path, `\??\G:`) || strings.HasPrefix(c.Path, `\??\H:`)) {
			t.Errorf("%s of %s: the server is asked", c.Name, c.Path)
		}
		return c.Do()
	}
	w.drives = []win32.Use{{Remote: `\\server\share`, Local: "G:"}}
	for path, want := range map[string]winfs.Kind{
		`\nothing`: winfs.Absent, `\nothing\at\all`: winfs.Absent, `\file\x`: winfs.Absent, `\file`: winfs.File, `\dir`: winfs.Directory, `\mnt`: winfs.Mounted,
		`\todir`: winfs.Linked, `\tofile`: winfs.Linked, `\tomnt`: winfs.Linked, `\todangling`: winfs.Linked, `\junction`: winfs.Linked,
		`\dangling`: winfs.Broken, `\gone`: winfs.Broken,
		`\toshare`: winfs.Linked, `\below`: winfs.Linked, `\through`: winfs.Linked, `\other`: winfs.Broken, `\throughother`: winfs.Broken,
		`\todrive`: winfs.Linked, `\throughdrive`: winfs.Linked, `\nodrive`: winfs.Broken,
	} {
		volume := map[string]string{`\mnt`: bare, `\gone`: `\\?\` + gone}[path]
		if got, at, err := winfs.Look(t.Context(), w.Node, pods+path); got != want || at != volume || err != nil {
			t.Errorf("Look(%q) = %d, %q, %v; want %d, %q", path, got, at, err, want, volume)
		}
	}
	// A volume whose letter is not known may have that of a drive of which nothing else is known.
	w.hook = func(c *win32.Call) error {
		if c.Name == "VolumePathNames" && c.Path == bare {
			return win32.ERROR_IO_DEVICE
		}
		return c.Do()
	}
	for _, path := range []string{`\todir`, `\todrive`} {
		if got, _, err := winfs.Look(t.Context(), w.Node, pods+path); got != winfs.Linked || err != nil {
			t.Errorf("Look(%q) beside an unreadable volume = %d, %v", path, got, err)
		}
	}
	_, _, err = winfs.Look(t.Context(), w.Node, pods+`\nodrive`)
	if !win32.IsCode(err, win32.ERROR_IO_DEVICE) || !strings.Contains(err.Error(), "look for the letter of volume") {
		t.Errorf("Look of a drive that may be of an unreadable volume: %v", err)
	}
}

// An error of a place that is not allowed does not reveal what is there: a link leads to a
// directory that another program holds, and is refused as one to a missing directory is.
func TestErrorsDoNotRevealTheOutside(t *testing.T) {
	w := newWorld(t)
	w.plant(pods+`\link`, symlink(outside), true)
	w.hook = func(c *win32.Call) error {
		if c.Name == "NtCreateFile" && strings.Contains(c.Path, `outside\deep`) {
			return win32.STATUS_SHARING_VIOLATION
		}
		return c.Do()
	}
	for _, path := range []string{`\link\deep`, `\link\deep\x`, `\link\deep\deeper\x\y`, `\link\missing\x`} {
		_, err := winfs.Exists(t.Context(), w.Node, pods+path)
		wantErr(t, path, err, hosterr.ErrPermissionDenied)
		if win32.IsCode(err, win32.ERROR_SHARING_VIOLATION) {
			t.Errorf("%s: %v reveals that it exists", path, err)
		}
	}
	if open := w.em.OpenHandles(); len(open) > 0 {
		t.Errorf("handles left open: %q", open)
	}
}
