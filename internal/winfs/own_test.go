package winfs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// need makes a directory and those above it, if there are none.
func (w *world) need(path string) {
	w.t.Helper()
	for i := range path + `\` {
		if i < len(`C:\x`) || i < len(path) && path[i] != '\\' {
			continue
		}
		h, err := w.raw.NtCreateFile(0, `\??\`+path[:i], win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, rawShare, win32.FILE_OPEN_IF, win32.FILE_DIRECTORY_FILE|rawOptions)
		if err != nil {
			w.t.Fatalf("make %q: %v", path[:i], err)
		}
		w.closeRaw(h)
	}
}

// Nothing is made, linked, mounted over or removed in the directories of Windows and of the
// programs that run containers, through whichever path and with whichever working directories.
func TestOwnDirectoriesAreKept(t *testing.T) {
	const beside = `C:\ProgramData\csi`
	changes := map[string]func(w *world, path string) error{
		"Symlink to": func(w *world, path string) error {
			return winfs.Symlink(context.Background(), w.Node, path, beside+`\new`)
		},
		"Symlink at": func(w *world, path string) error { return winfs.Symlink(context.Background(), w.Node, beside, path) },
	}
	for _, op := range operations() {
		switch op.name {
		case "MkdirAll", "Remove", "RemoveAll", "RemoveContents", "Hold":
			changes[op.name] = op.do
		}
	}
	for name, dirs := range map[string][]string{"in process": nil, "a drive": {`C:\`, kubelet}, "themselves": {`C:\Windows`, `C:\Program Files\x`, `C:\ProgramData`, kubelet}} {
		t.Run(name, func(t *testing.T) {
			for _, own := range []string{`C:\Windows`, `C:\Program Files`, `C:\ProgramData\Microsoft`, `C:\ProgramData\containerd`, `C:\ProgramData\Kubernetes`} {
				if dirs == nil && own == `C:\ProgramData\Kubernetes` {
					continue // TestKubeletMayBeInOwnDirectory
				}
				w := newWorld(t)
				w.need(own + `\x\y`)
				w.need(beside)
				w.file(own + `\precious`)
				c, _, _ := w.volumes()
				w.plant(pods+`\junction`, junction(own), true)
				w.plant(pods+`\symlink`, symlink(strings.ToUpper(own)), true)
				w.plant(pods+`\volume`, junction(strings.TrimPrefix(c, `\\?\`)+own[len(`C:\`):]), true)
				before := w.tree(`C:\`)
				w.WorkingDirs = dirs
				for _, at := range []string{own, strings.ToUpper(own), pods + `\junction`, pods + `\symlink`, pods + `\volume`} {
					for _, path := range []string{at + `\x`, at + `\x\y`, at + `\precious`, at + `\new`} {
						for op, do := range changes {
							err := do(w, path)
							removesNothing := strings.HasSuffix(path, `\new`) && op == "Hold"
							if !errors.Is(err, hosterr.ErrPermissionDenied) && !removesNothing {
								t.Errorf("%s(%q) = %v, want ErrPermissionDenied", op, path, err)
							}
						}
					}
				}
				for _, op := range []string{"Remove", "RemoveAll", "RemoveContents", "Hold"} {
					for _, path := range []string{own, `C:\ProgramData`} { // with what is in it
						if path == `C:\ProgramData` && !strings.HasPrefix(own, path) {
							continue
						}
						wantErr(t, op+" "+path, changes[op](w, path), hosterr.ErrPermissionDenied)
					}
				}
				if _, err := winfs.ReadDir(t.Context(), w.Node, own); err != nil && len(dirs) < 4 {
					t.Errorf("ReadDir(%q) = %v, and only reads", own, err)
				}
				w.wantTree(`C:\`, before...)
				if dirs != nil {
					must(t, "make a directory of another program", winfs.MkdirAll(t.Context(), w.Node, beside+`\a`))
					must(t, "remove it", winfs.RemoveAll(t.Context(), w.Node, beside+`\a`))
				}
			}
		})
	}
}

// The kubelet's directory may be in one of them.
func TestKubeletMayBeInOwnDirectory(t *testing.T) {
	const dir = `C:\ProgramData\Kubernetes\kubelet`
	w := newWorld(t)
	w.need(dir + `\pods`)
	w.WorkingDirs = []string{`C:\`, dir}
	must(t, "make a directory", winfs.MkdirAll(t.Context(), w.Node, dir+`\pods\a`))
	must(t, "link", winfs.Symlink(t.Context(), w.Node, dir+`\pods\a`, dir+`\pods\b`))
	must(t, "remove", winfs.RemoveAll(t.Context(), w.Node, dir+`\pods\a`))
	wantErr(t, "beside it", winfs.MkdirAll(t.Context(), w.Node, `C:\ProgramData\Kubernetes\a`), hosterr.ErrPermissionDenied)
	w.plant(`C:\kubelet`, junction(dir), true)
	w.WorkingDirs = []string{`C:\kubelet`}
	must(t, "make a directory through a link", winfs.MkdirAll(t.Context(), w.Node, `C:\kubelet\pods\c`))
	must(t, "remove it", winfs.RemoveAll(t.Context(), w.Node, `C:\kubelet\pods\c`))
	wantErr(t, "beside the link's target", winfs.MkdirAll(t.Context(), w.Node, `C:\ProgramData\Kubernetes\a`), hosterr.ErrPermissionDenied)
	w.WorkingDirs = []string{`C:\`} // as -kubelet-path=C:\
	wantErr(t, "in Windows", winfs.MkdirAll(t.Context(), w.Node, `C:\Windows\a`), hosterr.ErrPermissionDenied)
	for _, kubelet := range []string{`C:\Windows`, `C:\Windows\System32`} {
		w.WorkingDirs = []string{kubelet}
		wantErr(t, "make in Windows", winfs.MkdirAll(t.Context(), w.Node, `C:\Windows\System32\a`), hosterr.ErrPermissionDenied)
		wantErr(t, "remove in Windows", winfs.RemoveAll(t.Context(), w.Node, `C:\Windows\System32\a`), hosterr.ErrPermissionDenied)
	}
	w.WorkingDirs = nil // in process
	must(t, "make a directory in process", winfs.MkdirAll(t.Context(), w.Node, dir+`\pods\d`))
	must(t, "remove it", winfs.RemoveAll(t.Context(), w.Node, dir+`\pods\d`))
	wantErr(t, "remove all of it", winfs.RemoveAll(t.Context(), w.Node, `C:\ProgramData\Kubernetes`), hosterr.ErrPermissionDenied)
	wantErr(t, "in process, of containerd", winfs.MkdirAll(t.Context(), w.Node, `C:\ProgramData\containerd\a`), hosterr.ErrPermissionDenied)
}
