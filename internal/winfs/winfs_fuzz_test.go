package winfs_test

import (
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// FuzzSwaps: while an operation runs, an attacker replaces directories of its path with
// links to the outside, one before each of two calls. Nothing outside is touched, and no
// handle stays open.
func FuzzSwaps(f *testing.F) {
	for op := range operations() {
		f.Add(uint8(op), uint8(op), uint8(3+op), uint8(7), uint8(op))
	}
	f.Fuzz(func(t *testing.T, which, below, first, second, kind uint8) {
		victim := pods + `\victim`
		paths := []string{``, `\deep`, `\deep\deeper`, `\missing\deeper`}
		op := operations()[int(which)%len(operations())]
		w := newWorld(t)
		for _, d := range paths[:3] {
			w.dir(victim + d)
		}
		w.file(victim + `\deep\deeper\file`)
		swaps := []struct{ from, aside string }{{victim + `\deep`, `aside-1`}, {victim, `aside-2`}}
		names := []string{"junction", "symlink", "relative symlink", "rooted symlink"}
		swapped := false // the victim, so what is below it is the outside
		w.hook = func(c *win32.Call) error {
			at := w.calls.Load()
			for i, k := range []uint8{first, second} {
				if at != int64(k%64) || swapped {
					continue
				}
				hook := w.hook
				w.hook = nil
				if w.rename(swaps[i].from, swaps[i].aside) == nil {
					links(w)[names[int(kind)%len(names)]](swaps[i].from)
					swapped = i == 1
				}
				w.hook = hook
			}
			return c.Do()
		}
		w.calls.Store(0)
		err := op.do(w, victim+paths[int(below)%len(paths)])
		w.hook = nil
		w.intact()
		if open := w.em.OpenHandles(); len(open) > 0 {
			t.Fatalf("handles left open: %q", open)
		}
		if t.Failed() {
			t.Fatalf("%s = %v", op.name, err)
		}
	})
}

// FuzzLinks: whatever a planted link says, no operation through it touches the outside, ends
// in a panic, or leaves a handle open.
func FuzzLinks(f *testing.F) {
	for _, to := range []string{outside, `..\..\..\..\outside`, `\outside`, pods + `\link`, `C:\var\lib\kubelet\pki`, `UNC\server\share`, `Volume{00000000-0000-0000-0000-000000000000}\`, `C:`, `C:\outside:stream`, `GLOBALROOT\Device`, ``, `.`, `a\..\..`, "\x00"} {
		f.Add(to, false, uint8(0))
		f.Add(to, true, uint8(7))
	}
	f.Fuzz(func(t *testing.T, to string, junctions bool, which uint8) {
		if len(to) > 500 {
			return // more than a link holds
		}
		w := newWorld(t)
		r := symlink(to)
		switch {
		case junctions:
			r = junction(to)
		case !strings.Contains(to, ":") && !strings.HasPrefix(to, `UNC`):
			r = relative(to)
		}
		w.dir(pods + `\link`)
		h, err := w.raw.NtCreateFile(0, `\??\`+pods+`\link`, win32.GENERIC_WRITE|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, rawShare, win32.FILE_OPEN, rawOptions|win32.FILE_DIRECTORY_FILE)
		if err != nil {
			t.Fatal(err)
		}
		err = w.raw.WithPrivilege(win32.SE_CREATE_SYMBOLIC_LINK_NAME, func(raw win32.API) error {
			_, err := raw.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, r.Encode(), nil)
			return err
		})
		w.closeRaw(h)
		if err != nil {
			return // Windows refuses it, too
		}
		op := operations()[int(which)%len(operations())]
		for _, below := range []string{`\precious.txt`, `\deep\deeper`, `\missing`, ``} {
			op.do(w, pods+`\link`+below) // whether it fails depends on the link
		}
		w.intact()
		if open := w.em.OpenHandles(); len(open) > 0 {
			t.Fatalf("%s: handles left open: %q", op.name, open)
		}
	})
}
