package winfs_test

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// names returns the names of the calls that f makes.
func (w *world) names(f func()) (names []string) {
	w.hook = func(c *win32.Call) error {
		names = append(names, c.Name)
		return c.Do()
	}
	defer func() { w.hook = nil }()
	f()
	return names
}

// A short name, or one in other letters than ASCII, may stand for another name. Where it
// leads is asked, so it leads nowhere that its long name may not.
func TestOnlyLiteralPathsAreBelieved(t *testing.T) {
	w := newServer(t)
	const volumes = pods + `\8d9f\volumes\kubernetes.io~csi`
	must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, volumes+`\Größe`))
	w.dir(kubelet + `\pki`)
	w.file(kubelet + `\pki\key.pem`)
	must(t, "short name", w.em.SetShortName(kubelet+`\pki`, "KUBELE~1"))
	must(t, "short name", w.em.SetShortName(volumes, "KUBERN~1.IO~"))
	for _, c := range []struct {
		path   string
		exists bool
		asked  bool // where it leads
	}{
		{pods, true, false},
		{volumes, true, false},
		{volumes + `\missing`, false, false},
		{volumes + `\Größe`, true, true},
		{pods + `\8d9f\volumes\KUBERN~1.IO~`, true, true},
		{pods + `\8d9f\volumes\kubern~1.io~\GRÖSSE~1`, false, true},
	} {
		var exists bool
		var err error
		calls := w.names(func() { exists, err = winfs.Exists(t.Context(), w.Node, c.path) })
		if err != nil || exists != c.exists || slices.Contains(calls, "FinalPath") != c.asked {
			t.Errorf("Exists(%q) = %t, %v, with the calls %q", c.path, exists, err, calls)
		}
		if exists && !c.asked && len(calls) > 2 {
			t.Errorf("Exists(%q) makes the calls %q, want NtCreateFile and CloseHandle", c.path, calls)
		}
	}
	before := w.tree(kubelet + `\pki`)
	for _, op := range operations() {
		for _, name := range []string{`KUBELE~1`, `kubele~1\key.pem`, `kubele~1\missing`} {
			if op.name == "Symlink at" && name == `KUBELE~1` {
				continue // which says that something exists there
			}
			if err := op.do(w, kubelet+`\`+name); !errors.Is(err, hosterr.ErrPermissionDenied) {
				t.Errorf("%s(%q) = %v, want ErrPermissionDenied", op.name, name, err)
			}
		}
	}
	w.wantTree(kubelet+`\pki`, before...)
}

// A server keeps no other root than that of the drive of Windows, and works without it.
func TestKeepSystemRoot(t *testing.T) {
	w := newWorld(t)
	w.WorkingDirs = []string{kubelet, `E:\work`}
	w.dir(`E:\work`)
	look := func(when string) {
		t.Helper()
		for _, path := range []string{pods, `E:\work`} {
			if exists, err := winfs.Exists(t.Context(), w.Node, path); !exists || err != nil {
				t.Errorf("%s: Exists(%q) = %t, %v", when, path, exists, err)
			}
		}
	}
	winfs.KeepSystemRoot(w.Node)
	look("with the root")
	if open, want := w.em.OpenHandles(), []string{`\??\C:\`}; !slices.Equal(open, want) {
		t.Errorf("%q are open, want %q", open, want)
	}
	if err := w.em.EndProcess(); err != nil { // which closes it
		t.Fatal(err)
	}
	look("with a root that is closed")
	winfs.KeepSystemRoot(w.Node)()
	look("after the release")
	w.Log = slog.New(slog.DiscardHandler) // which gets a warning
	w.hook = func(c *win32.Call) error {
		if c.Name == "WindowsDirectory" {
			return win32.ERROR_NOT_ENOUGH_MEMORY
		}
		return c.Do()
	}
	winfs.KeepSystemRoot(w.Node)()
	look("without the root")
	if open := w.em.OpenHandles(); len(open) > 0 {
		t.Errorf("%q are open", open)
	}
}
