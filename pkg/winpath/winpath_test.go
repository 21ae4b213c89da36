package winpath_test

import (
	"fmt"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/winpath"
)

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		path, volume, clean, dir, base string
		abs                            bool
	}{
		{`C:\var\lib\kubelet`, "C:", `C:\var\lib\kubelet`, `C:\var\lib`, "kubelet", true},
		{`c:/var/lib//kubelet/./pods/../plugins/`, "c:", `c:\var\lib\kubelet\plugins`, `c:\var\lib\kubelet\plugins`, "plugins", true},
		{`C:\`, "C:", `C:\`, `C:\`, `\`, true},
		{`C:\..\..\a`, "C:", `C:\a`, `C:\`, "a", true},
		{`C:`, "C:", `C:.`, `C:.`, `\`, false},
		{`C:a\b`, "C:", `C:a\b`, `C:a`, "b", false},
		{`\var\lib\kubelet`, "", `\var\lib\kubelet`, `\var\lib`, "kubelet", false},
		{`\\server\share\a\..\b`, `\\server\share`, `\\server\share\b`, `\\server\share\`, "b", true},
		{`//server/share/a`, `\\server\share`, `\\server\share\a`, `\\server\share\`, "a", true},
		{`\\server\share`, `\\server\share`, `\\server\share`, `\\server\share`, `\`, true},
		{`\\?\C:\a\b`, `\\?\C:`, `\\?\C:\a\b`, `\\?\C:\a`, "b", true},
		{`\\?\Volume{6e1f3a48-0000-ab00-0000-100000000000}\a`, `\\?\Volume{6e1f3a48-0000-ab00-0000-100000000000}`, `\\?\Volume{6e1f3a48-0000-ab00-0000-100000000000}\a`, `\\?\Volume{6e1f3a48-0000-ab00-0000-100000000000}\`, "a", true},
		{`\\?\UNC\server\share\a`, `\\?\UNC\server\share`, `\\?\UNC\server\share\a`, `\\?\UNC\server\share\`, "a", true},
		{`a\..\c:`, "", `.\c:`, `.`, "c:", false},
		{`a`, "", "a", ".", "a", false},
		{``, "", ".", ".", ".", false},
	} {
		got := fmt.Sprintf("%s|%s|%s|%s|%t", winpath.VolumeName(c.path), winpath.Clean(c.path), winpath.Dir(c.path), winpath.Base(c.path), winpath.IsAbs(c.path))
		want := fmt.Sprintf("%s|%s|%s|%s|%t", c.volume, c.clean, c.dir, c.base, c.abs)
		if got != want {
			t.Errorf("volume, clean path, parent, name and whether %q is absolute:\n%s, want\n%s", c.path, got, want)
		}
		if again := winpath.Clean(c.clean); again != c.clean {
			t.Errorf("Clean(%q) = %q, want no change", c.clean, again)
		}
	}
}

func TestJoin(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{`C:\var\lib\kubelet`, "plugins", "globalmount"}, `C:\var\lib\kubelet\plugins\globalmount`},
		{[]string{`c:/var`, `/lib/`, "", "kubelet"}, `c:\var\lib\kubelet`},
		{[]string{`C:\`, "a"}, `C:\a`},
		{[]string{`C:`, "a"}, `C:a`},
		{[]string{`C:`, `\a`}, `C:\a`},
		{[]string{`\\server\share`, "a", "..", "b"}, `\\server\share\b`},
		{[]string{`\`, `\server\share`}, `\server\share`},
		{[]string{"", ""}, ""},
		{nil, ""},
	} {
		if got := winpath.Join(c.names...); got != c.want {
			t.Errorf("Join(%q) = %q, want %q", c.names, got, c.want)
		}
	}
}
