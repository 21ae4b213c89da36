package smb_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
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
		text := p.String()
		names := strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, `\\`), `\`), `\`)
		for _, name := range names {
			if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
				t.Errorf("ParseRemotePath(%q) has the name %q", s, name)
			}
			if !strings.Contains(s, name) {
				t.Errorf("ParseRemotePath(%q) has the name %q, which is not in it", s, name)
			}
		}
		if len(names) < 2 || !winpath.SameShare(p.Share.String(), `\\`+names[0]+`\`+names[1]) {
			t.Errorf("ParseRemotePath(%q) is %q, on the share %q", s, text, p.Share)
		}
		again, err := smb.ParseRemotePath(text)
		if err != nil || again.String() != text || again.Share != p.Share {
			t.Errorf("ParseRemotePath(%q) = %+v, but of its canonical spelling %+v, %v", s, p, again, err)
		}
	})
}
