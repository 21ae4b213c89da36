package winpath_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

const guid = "Volume{6e1f3a48-0000-0000-0000-100000000000}"

func TestSpellings(t *testing.T) {
	for _, c := range []struct{ name, in, win32, long, nt string }{
		{"drive", `C:\a\b`, `C:\a\b`, `\\?\C:\a\b`, `\??\C:\a\b`},
		{"root", `C:\`, `C:\`, `\\?\C:\`, `\??\C:\`},
		{"drive letters are upper case", `c:\A`, `C:\A`, `\\?\C:\A`, `\??\C:\A`},
		{"cleaned", `C:\a\\.\b\..\c\`, `C:\a\c`, `\\?\C:\a\c`, `\??\C:\a\c`},
		{"above the root is the root", `C:\..\..\a`, `C:\a`, `\\?\C:\a`, `\??\C:\a`},
		{"forward slashes", `C:/a/b`, `C:\a\b`, `\\?\C:\a\b`, `\??\C:\a\b`},
		{"share", `\\server\share\a`, `\\server\share\a`, `\\?\UNC\server\share\a`, `\??\UNC\server\share\a`},
		{"root of a share", `\\server\share`, `\\server\share\`, `\\?\UNC\server\share\`, `\??\UNC\server\share\`},
		{"long", `\\?\C:\a`, `C:\a`, `\\?\C:\a`, `\??\C:\a`},
		{"long share", `\\?\unc\server\share\a`, `\\server\share\a`, `\\?\UNC\server\share\a`, `\??\UNC\server\share\a`},
		{"volume", `\\?\` + guid + `\a`, `\\?\` + guid + `\a`, `\\?\` + guid + `\a`, `\??\` + guid + `\a`},
		{"root of a volume", `\\?\` + guid, `\\?\` + guid + `\`, `\\?\` + guid + `\`, `\??\` + guid + `\`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := winpath.Parse(c.in)
			if err != nil {
				t.Fatalf("Parse(%q): %v", c.in, err)
			}
			if p.String() != c.win32 || p.Long() != c.long || p.NT() != c.nt {
				t.Errorf("Parse(%q) spells %q, %q, %q; want %q, %q, %q", c.in, p.String(), p.Long(), p.NT(), c.win32, c.long, c.nt)
			}
			for _, s := range []string{p.String(), p.Long()} {
				if q, err := winpath.Parse(s); err != nil || !q.Equal(p) {
					t.Errorf("Parse(%q) = %v, %v; want the original path", s, q, err)
				}
			}
			if q, err := winpath.FromNT(p.NT()); err != nil || !q.Equal(p) {
				t.Errorf("FromNT(%q) = %v, %v; want the original path", p.NT(), q, err)
			}
		})
	}
}

func TestParseRefusesInvalidPath(t *testing.T) {
	for name, s := range map[string]string{
		"empty":               ``,
		"relative":            `a\b`,
		"drive only":          `C:`,
		"drive-relative":      `C:a`,
		"no drive letter":     `1:\a`,
		"device":              `\\.\PhysicalDrive0`,
		"device, slashes":     `//./C:/a`,
		"global root":         `\\?\GLOBALROOT\Device\HarddiskVolume1\a`,
		"unfinished volume":   `\\?\Volume{6e1f3a48}\a`,
		"long drive-relative": `\\?\C:a`,
		"long with ..":        `\\?\C:\a\..\b`,
		"long with .":         `\\?\C:\.\b`,
		"long with //":        `\\?\C:\a\\b`,
		"long with /":         `\\?\C:\a/b`,
		"server only":         `\\server`,
		"server and nothing":  `\\server\`,
		"share ..":            `\\server\..\a`,
		"long share ..":       `\\?\UNC\..\share\a`,
		"share as a stream":   `\\server\C:\a`,
		"slashed long prefix": `//?/C:/a`,
	} {
		if p, err := winpath.Parse(s); !errors.Is(err, hosterr.ErrInvalid) {
			t.Errorf("%s: Parse(%q) = %v, %v; want ErrInvalid", name, s, p, err)
		}
	}
	for name, s := range map[string]string{
		"Win32 path":    `C:\a`,
		"long path":     `\\?\C:\a`,
		"device object": `\Device\HarddiskVolume1\`,
		"global root":   `\??\GLOBALROOT\Device\HarddiskVolume1\`,
		"up":            `\??\C:\a\..\b`,
	} {
		if p, err := winpath.FromNT(s); !errors.Is(err, hosterr.ErrInvalid) {
			t.Errorf("%s: FromNT(%q) = %v, %v; want ErrInvalid", name, s, p, err)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		name, path, root string
		want             bool
	}{
		{"below", `C:\var\lib\kubelet\pods`, `C:\var\lib\kubelet`, true},
		{"itself", `C:\var\lib\kubelet`, `C:\var\lib\kubelet`, true},
		{"trailing backslash of the root", `C:\var\lib\kubelet\pods`, `C:\var\lib\kubelet\`, true},
		{"case", `c:\VAR\lib\Kubelet\pods`, `C:\var\lib\kubelet`, true},
		{"case beyond ASCII", `C:\ÄÖÿ\a`, `C:\äöŸ`, true},
		{"drive root holds all", `C:\a`, `C:\`, true},
		{"longer name", `C:\var\lib\kubelet-evil\pods`, `C:\var\lib\kubelet`, false},
		{"shorter name", `C:\var\lib\kube`, `C:\var\lib\kubelet`, false},
		{"above", `C:\var\lib`, `C:\var\lib\kubelet`, false},
		{"other drive", `D:\var\lib\kubelet\pods`, `C:\var\lib\kubelet`, false},
		{"leaves by ..", `C:\var\lib\kubelet\..\other`, `C:\var\lib\kubelet`, false},
		{"dotless i is no I", `C:\kubelıt\a`, `C:\kubelit`, false},
		{"long s is no S", `C:\ſ\a`, `C:\s`, false},
		{"Kelvin is no K", "C:\\\u212Aubelet\\a", `C:\kubelet`, false},
		{"share", `\\Server\SHARE\a`, `\\server\share`, true},
		{"other share", `\\server\share2\a`, `\\server\share`, false},
		{"volume", `\\?\` + strings.ToUpper(guid) + `\a`, `\\?\` + guid + `\`, true},
	} {
		p, err1 := winpath.Parse(c.path)
		root, err2 := winpath.Parse(c.root)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := p.Within(root); got != c.want {
			t.Errorf("%s: %q.Within(%q) = %t, want %t", c.name, c.path, c.root, got, c.want)
		}
	}
}

func TestDirBaseJoin(t *testing.T) {
	p, err := winpath.Parse(`C:\a\b`)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Dir().String(); got != `C:\a` {
		t.Errorf("Dir = %q", got)
	}
	if got := p.Base(); got != "b" {
		t.Errorf("Base = %q", got)
	}
	if root := p.Root(); !root.IsRoot() || root.Base() != "" || !root.Dir().Equal(root) {
		t.Errorf("Root = %v, its Base %q, its Dir %v", root, root.Base(), root.Dir())
	}
	// Two paths joined from the same path must not share memory.
	dir := p.Dir()
	x, y := dir.Join("x"), dir.Join("y")
	if x.String() != `C:\a\x` || y.String() != `C:\a\y` || p.String() != `C:\a\b` {
		t.Errorf("Join returned %v and %v for %v, p is now %v", x, y, dir, p)
	}
	if got := p.Key(); !slices.Equal(got, []string{"C:", "A", "B"}) {
		t.Errorf("Key = %q", got)
	}
}

func TestIsVolumeRoot(t *testing.T) {
	for s, want := range map[string]bool{
		`\\?\` + guid + `\`:                      true,
		`\\?\` + strings.ToUpper(guid) + `\`:     true,
		`\\.\` + guid + `\`:                      false,
		`\\?\` + guid + "\\\n":                   false,
		`\\?\` + guid + `\\`:                     false,
		`\\?\Volume{}\`:                          false,
		`\\?\GLOBALROOT\Device\HarddiskVolume1\`: false,
		"":                                       false,
		`\\?\` + guid:                            false,
		`\\?\` + guid + `\a\`:                    false,
		guid + `\`:                               false,
		`C:\`:                                    false,
		`\\?\Volume{6e1f3a48-0000-0000-0000-10000000000g}\`: false,
	} {
		if got := winpath.IsVolumeRoot(s); got != want {
			t.Errorf("IsVolumeRoot(%q) = %t, want %t", s, got, want)
		}
	}
}

func TestValidateReturnsPublishedErrors(t *testing.T) {
	long := func(n int) string { return `C:\` + strings.Repeat("a", n-3) }
	for _, c := range []struct{ name, in, want string }{
		{"pods", `C:\var\lib\kubelet\pods\pv1`, ""},
		{"plugins", `C:\var\lib\kubelet\plugins\pv1`, ""},
		{"anywhere", `C:\foo\bar`, ""},
		{"260 bytes", long(260), ""},
		{"261 bytes", long(261), `path length 261 exceeds maximum characters: 260`},
		{"length counts before all else", `\\` + strings.Repeat("a", 259), `path length 261 exceeds maximum characters: 260`},
		{"length counts with the drive", `\` + strings.Repeat("a", 258), `path length 261 exceeds maximum characters: 260`},
		{"without a drive", `\var\lib\kubelet\plugins\pv1`, ""},
		{"without a drive, slash", `/var/lib/kubelet/pods/pv1`, ""},
		{"without a drive, stream", `\pods\pv1:foo`, `path contains invalid characters: \pods\pv1:foo`},
		{"without a drive, up", `\pods\..\windows`, `path contains invalid characters: \pods\..\windows`},
		{"NT path", `\??\C:\a`, `path contains invalid characters: \??\C:\a`},
		{"share by slashes", `//server/share`, `invalid character \ at beginning of path: //server/share`},
		{"share by both", `/\server\share`, `invalid character \ at beginning of path: /\server\share`},
		{"share", `\\csi-plugin\..\..\..\system32`, `invalid character \ at beginning of path: \\csi-plugin\..\..\..\system32`},
		{"stream", `C:\var\lib\kubelet\plugins\csi-plugin\pv1:foo`, `path contains invalid characters: C:\var\lib\kubelet\plugins\csi-plugin\pv1:foo`},
		{"slash", `C:\pods\pv1/foo`, ""},
		{"only slashes", `c:/pods/pv1`, ""},
		{"star", `C:\pods\pv1*foo`, `path contains invalid characters: C:\pods\pv1*foo`},
		{"question mark", `C:\pods\pv1?foo`, `path contains invalid characters: C:\pods\pv1?foo`},
		{"bar", `C:\csi-plugin|pv1\foo`, `path contains invalid characters: C:\csi-plugin|pv1\foo`},
		{"quote", `C:\a"b`, `path contains invalid characters: C:\a"b`},
		{"up", `C:\pods\pv1\..\..\..\system32`, `path contains invalid characters: C:\pods\pv1\..\..\..\system32`},
		{"two dots anywhere", `C:\a..b`, `path contains invalid characters: C:\a..b`},
		{"relative", `pv1\foo`, `not an absolute Windows path: pv1\foo`},
		{"relative and bad", `pv1\foo*`, `path contains invalid characters: pv1\foo*`},
		{"empty", ``, `not an absolute Windows path: `},
		{"drive-relative", `C:a`, `path contains invalid characters: C:a`},
		{"drive only", `c:`, `path contains invalid characters: c:`},
		{"doubled separators", `C:\a\\b\`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := winpath.Validate(c.in)
			if c.want == "" {
				if err != nil {
					t.Errorf("Validate(%q) = %v, want nil", c.in, err)
				}
				return
			}
			if err == nil || err.Error() != c.want || !errors.Is(err, hosterr.ErrInvalid) {
				t.Errorf("Validate(%q) = %v, want ErrInvalid %q", c.in, err, c.want)
			}
		})
	}
}

func TestValidateRefusesSpecialNames(t *testing.T) {
	bad := []string{
		"a.", "a ", " ", "...", ".", "con", "CON", "Con.txt", "con .txt", "NUL", "aux.tar.gz", "prn", "COM1", "com9.log", "LPT1", "COM¹", "lpt³.x",
		"COM0", "conin$", "CONOUT$", "a<b", "a>b", "a\x00b", "a\x1fb", "a\x7fb", "a\tb", "\xff", "a\uFFFDb", "\xed\xa0\x80",
	}
	for _, name := range bad {
		in := `C:\pods\` + name + `\x`
		if _, err := winpath.Validate(in); !errors.Is(err, hosterr.ErrInvalid) {
			t.Errorf("Validate(%q) = %v, want ErrInvalid", in, err)
		}
	}
	good := []string{
		"console", "com", "com10", "COMx", "lpt", "null", "nul-1", "a b", " a", ".a", "a.b", "pvc-0d6f3a", "kubernetes.io~csi", "ä", "日本", "😀",
		"KUBELE~1", "$MFT", "a{b}", "%TEMP%", "a;b", "a'b", "a&b", "a$(b)",
	}
	for _, name := range good {
		in := `C:\pods\` + name + `\x`
		if _, err := winpath.Validate(in); err != nil {
			t.Errorf("Validate(%q) = %v, want nil", in, err)
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(`C:\var\lib\kubelet\pods\pv1`)
	f.Add(`\\?\C:\a`)
	f.Add("C:\\a\x00\\COM1\\b. ")
	f.Add(`\var\lib\kubelet\plugins`)
	f.Add(`/var/lib\kubelet`)
	f.Add(`/\server/share`)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := winpath.Validate(s)
		if err != nil {
			if !errors.Is(err, hosterr.ErrInvalid) {
				t.Errorf("Validate(%q) = %v, which is not ErrInvalid", s, err)
			}
			return
		}
		if !utf8.ValidString(s) || strings.ContainsAny(s, "\x00<>|?*\"") || strings.Contains(s, "..") || strings.Count(s, ":") > 1 {
			t.Errorf("Validate(%q) succeeded", s)
		}
		// The result has the same names as the input; only the drive may differ.
		text := strings.FieldsFunc(s, func(r rune) bool { return r == '\\' || r == '/' })
		if strings.HasPrefix(s, `\`) || strings.HasPrefix(s, "/") {
			text = append([]string{"C:"}, text...)
		}
		if !strings.EqualFold(text[0], p.Volume) || !slices.Equal(text[1:], p.Elems) {
			t.Errorf("Validate(%q) = %q, want the names %q", s, p, text)
		}
		q, err := winpath.FromNT(p.NT())
		if err != nil || q.String() != p.String() {
			t.Errorf("%q as NT path %q parses as %v, %v", s, p.NT(), q, err)
		}
		for _, e := range p.Elems {
			if err := winpath.CheckName(e); err != nil {
				t.Errorf("Validate(%q) accepted an invalid name: %v", s, err)
			}
		}
	})
}

func FuzzParseRoundTrip(f *testing.F) {
	f.Add(`C:\a\.\b\..\c`)
	f.Add(`\\server\share\a`)
	f.Add(`\\?\UNC\server\share\a`)
	f.Add(`\\?\` + guid + `\`)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := winpath.Parse(s)
		if err != nil {
			return
		}
		for _, spelling := range []string{p.String(), p.Long()} {
			if q, err := winpath.Parse(spelling); err != nil || !slices.Equal(q.Key(), p.Key()) {
				t.Errorf("%q, spelled %q, parses as %q, %v; want %q", s, spelling, q.Key(), err, p.Key())
			}
		}
		if q := p.Dir().Join(p.Base()); !p.IsRoot() && !q.Equal(p) {
			t.Errorf("%q: Dir and Base join to %v", s, q)
		}
	})
}

func FuzzWithin(f *testing.F) {
	f.Add(`C:\var\lib\kubelet-evil`, `C:\var\lib\kubelet`)
	f.Add(`C:\A\b\..\..\c`, `c:\a`)
	f.Fuzz(func(t *testing.T, path, root string) {
		p, err1 := winpath.Parse(path)
		r, err2 := winpath.Parse(root)
		if err1 != nil || err2 != nil {
			return
		}
		want := len(p.Key()) >= len(r.Key()) && slices.Equal(p.Key()[:len(r.Key())], r.Key())
		if got := p.Within(r); got != want {
			t.Errorf("%q.Within(%q) = %t, but their names are %q and %q", path, root, got, p.Key(), r.Key())
		}
		if p.Within(r) && r.Within(p) != p.Equal(r) {
			t.Errorf("%q and %q are within each other but not equal", path, root)
		}
	})
}

func TestParseRefusesLongPath(t *testing.T) {
	for _, c := range []struct {
		name, path string
		ok         bool
	}{
		{"the longest", `C:\` + strings.Repeat("a", 32764), true},
		{"the longest, of three bytes a character", `C:\` + strings.Repeat("€", 32764), true},
		{"one more", `C:\` + strings.Repeat("a", 32765), false},
		{"characters of two units each", `C:\` + strings.Repeat("🙂", 16383), false},
		{"a long path", `\\?\C:\` + strings.Repeat("a", 32767), false},
	} {
		if _, err := winpath.Parse(c.path); (err == nil) != c.ok || err != nil && (!errors.Is(err, hosterr.ErrInvalid) || len(err.Error()) > 500) {
			t.Errorf("%s: Parse = %.200v, want success: %t", c.name, err, c.ok)
		}
	}
}

func TestSameShare(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`\\server\share`, `\\server\share`, true},
		{`\\server\share`, `\\SERVER\Share`, true},
		{`\\sérver\share`, `\\SÉRVER\share`, true},
		{`\\server\share`, `\\server\other`, false},
		{`\\server\share`, `\\other\share`, false},
		{`\\server\kind`, "\\\\server\\\u212Aind", false}, // the Kelvin sign is not a k
		{`\\server\share`, `\\server\share\`, false},
		{`\\server\share`, `\\server\share\dir`, false},
		{`\\server\share`, `//server/share`, false},
		{`C:\share`, `C:\share`, false},
		{``, ``, false},
	} {
		if got := winpath.SameShare(c.a, c.b); got != c.want {
			t.Errorf("SameShare(%q, %q) = %t, want %t", c.a, c.b, got, c.want)
		}
	}
}

func TestShareOfPath(t *testing.T) {
	for _, c := range []struct {
		path, want string // "" means that the path is not on a share
	}{
		{`\\server\share`, `\\server\share`},
		{`//Server/Share/dir`, `\\server\share`},
		{`\\server\\share\\dir\`, `\\server\share`},
		{`\\?\UNC\server\share\dir`, `\\server\share`},
		{`C:\server\share`, ""},
		{`\\?\` + guid + `\dir`, ""},
	} {
		p, err := winpath.Parse(c.path)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.path, err)
			continue
		}
		s, ok := p.Share()
		if got := s.String(); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("share of %q = %q, %t, want %q", c.path, got, ok, c.want)
		}
	}
	for _, bad := range []string{`\\server`, `\\server\`, `\\server\\`, `\\\share`, `\\?\UNC\server\\share`, `\\?\UNC\server`, "\\\\ser\x00ver\\share", `\\.\share`, `\\server\..`} {
		if p, err := winpath.Parse(bad); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", bad, p)
		}
	}
}

// FuzzParseShare: the text of a share is the same share, differs in nothing but the case of
// letters, and is the share of every path below it.
func FuzzParseShare(f *testing.F) {
	for _, s := range []string{"", `\\server\share`, `\\server\share\`, `//server/share`, `\\SÉRVER\c$`, `\\?\UNC\s\d`, `\\.\pipe`, "\\\\s\x00\\d", "\\\\s\\\u212A", `C:\a`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		share, err := winpath.ParseShare(s)
		if err != nil {
			if !errors.Is(err, hosterr.ErrInvalid) {
				t.Errorf("ParseShare(%q) = %v, which is not ErrInvalid", s, err)
			}
			return
		}
		if text := share.String(); !strings.EqualFold(text, s) || text != `\\`+share.Server()+`\`+share.Name() || strings.ContainsAny(share.Server()+share.Name(), "\\/\x00") {
			t.Errorf("ParseShare(%q) = %+v", s, share)
		}
		if again, err := winpath.ParseShare(share.String()); err != nil || again != share || !winpath.SameShare(s, share.String()) {
			t.Errorf("%q is %+v, and its text is %+v, %v", s, share, again, err)
		}
		p, err := winpath.Parse(s + `\dir`)
		if err != nil {
			t.Errorf("Parse of a directory on %q: %v", s, err)
			return
		}
		if of, ok := p.Share(); !ok || of != share {
			t.Errorf("%q is on %+v, %t, want %+v", p, of, ok, share)
		}
	})
}
