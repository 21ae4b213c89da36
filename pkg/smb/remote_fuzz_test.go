package smb_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// FuzzParseRemotePath: every error is ErrInvalid. Every parsed path is \\server\share
// with directories below it, none of which is ".." or contains a separator, and its
// canonical spelling parses to the same path.
func FuzzParseRemotePath(f *testing.F) {
	for _, s := range []string{
		"", `\\server\share`, `//server/share/dir`, `\\server\share\\dir\`, `\\server@SSL\share`, `\\?\UNC\s\d`,
		`\\.\pipe\x`, `\\10.0.0.1\share`, `\\0x7f.1\c$`, `\\server\share\..\x`, `\\s\pipe`, `\\s\IPC$`, "\\\\s\x00\\d", `\\ſerver\d`, `\\[fe80::1]\d`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := smb.ParseRemotePath(s)
		if err != nil {
			if !errors.Is(err, hosterr.ErrInvalid) {
				t.Errorf("ParseRemotePath(%q): %v, which is not ErrInvalid", s, err)
			}
			return
		}
		names := append([]string{p.Server, p.Share}, p.Dirs...)
		for _, name := range names {
			if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "\\/\x00") {
				t.Errorf("ParseRemotePath(%q) has the name %q", s, name)
			}
			if !strings.Contains(s, name) {
				t.Errorf("ParseRemotePath(%q) has the name %q, which is not in it", s, name)
			}
		}
		again, err := smb.ParseRemotePath(`\\` + strings.Join(names, `\`))
		if err != nil || !reflect.DeepEqual(again.Dirs, p.Dirs) && len(again.Dirs)+len(p.Dirs) > 0 || again.Server != p.Server || again.Share != p.Share {
			t.Errorf("ParseRemotePath(%q) = %+v, but of its canonical spelling %+v, %v", s, p, again, err)
		}
	})
}
