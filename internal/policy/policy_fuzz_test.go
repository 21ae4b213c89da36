package policy

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// FuzzCheck: every path that Check accepts is below a working directory, element by
// element and case-insensitively.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		"", `C:\var\lib\kubelet`, `C:\var\lib\kubelet\pods`, `c:/VAR/lib/kubelet/x`, `C:\var\lib\kubelet2`, `C:\var\lib\kubelet\..\x`, `C:\var\lib\kubelet\.`,
		`\\?\C:\var\lib\kubelet\x`, `C:\var\lib\kubelet\x:stream`, `C:\var\lib\kubelet\NUL`, `C:var`, `\var`, `\var\lib\kubelet\x`, `/var/lib/kubelet2`, `//var/lib/kubelet/x`, `D:\csi\a b`, "D:\\csi\\\xff", `D:\csı\x`,
	} {
		f.Add(s)
	}
	texts := []string{`C:\var\lib\kubelet`, `D:\csi`}
	dirs, err := ParseDirs(texts)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := dirs.Check(s)
		switch {
		case errors.Is(err, hosterr.ErrInvalid), errors.Is(err, hosterr.ErrPermissionDenied):
			return
		case err != nil:
			t.Fatalf("Check(%q): %v, want ErrInvalid or ErrPermissionDenied", s, err)
		}
		p, err := winpath.Parse(s)
		if err != nil {
			t.Fatalf("Check(%q) accepts an invalid path: %v", s, err)
		}
		key := p.Key()
		for _, root := range texts {
			r, err := winpath.Parse(root)
			if err != nil {
				t.Fatal(err)
			}
			want := r.Key()
			if len(key) < len(want) {
				continue
			}
			same := true
			for i := range want {
				same = same && key[i] == want[i]
			}
			if same {
				return
			}
		}
		t.Errorf("Check(%q) accepts a path outside of %q", s, texts)
	})
}
