package main

import (
	"bytes"
	"debug/pe"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tc-hib/winres"
	"github.com/tc-hib/winres/version"
)

func TestNumbersOf(t *testing.T) {
	for text, want := range map[string][4]uint16{
		"v2.0.1":                       {2, 0, 1, 0},
		"2.0.1":                        {2, 0, 1, 0},
		"v2.0.1-dirty":                 {2, 0, 1, 0},
		"v2.0.1-3-g0123abc":            {2, 0, 1, 3},
		"v2.0.1-3-g0123abc-dirty":      {2, 0, 1, 3},
		"v2.0.0-rc.1":                  {2, 0, 0, 0},
		"v2.0.0-rc.1-14-g0123abc":      {2, 0, 0, 14},
		"0123abc":                      {},
		"0123abc-dirty":                {},
		"unknown":                      {},
		"v2.0.70000":                   {},
		"v1.2.3-99999-g0123abc":        {},
		"v18446744073709551616.0.0":    {},
		"client/v1.3.0-5-g0123abc":     {},
		"v65535.65535.65535-65535-g0a": {65535, 65535, 65535, 65535},
	} {
		if got := numbersOf(text); got != want {
			t.Errorf("numbersOf(%q) = %v, want %v", text, got, want)
		}
	}
}

// program builds a small program for Windows.
func program(t *testing.T, arch string) []byte {
	t.Helper()
	dir := t.TempDir()
	source, exe := filepath.Join(dir, "main.go"), filepath.Join(dir, "main.exe")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", exe, source)
	c.Env = append(os.Environ(), "GOOS=windows", "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestStamp(t *testing.T) {
	const text = "v2.0.1-3-g0123abc-dirty"
	for _, arch := range []string{"amd64", "arm64"} {
		plain := program(t, arch)
		stamped, err := stamp(plain, "csi-proxy.exe", "what it is", text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := stamp(plain, "csi-proxy.exe", "what it is", text)
		if err != nil || !bytes.Equal(stamped, again) {
			t.Errorf("%s: stamped twice the program differs (%v)", arch, err)
		}
		if again, err := stamp(stamped, "csi-proxy.exe", "what it is", text); err != nil || !bytes.Equal(stamped, again) {
			t.Errorf("%s: stamping what is stamped changes it (%v)", arch, err)
		}
		// A second version replaces the first.
		second, err := stamp(stamped, "csi-proxy.exe", "what it is", "v3.0.0")
		if err != nil {
			t.Fatal(err)
		}

		before, after := sections(t, plain), sections(t, stamped)
		for name, content := range before {
			if name != ".rsrc" && !bytes.Equal(after[name], content) {
				t.Errorf("%s: the section %s is changed", arch, name)
			}
		}
		for version, b := range map[string][]byte{text: stamped, "v3.0.0": second} {
			info, manifest := read(t, b)
			if info.FileVersion != numbersOf(version) || info.ProductVersion != numbersOf(version) {
				t.Errorf("%s %s: numbers %v and %v", arch, version, info.FileVersion, info.ProductVersion)
			}
			var texts struct{ Info map[string]map[string]string }
			b, err := json.Marshal(info)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &texts); err != nil {
				t.Fatal(err)
			}
			for key, want := range map[string]string{"ProductVersion": version, "FileVersion": version, "ProductName": "CSI Proxy",
				"FileDescription": "what it is", "OriginalFilename": "csi-proxy.exe", "InternalName": "csi-proxy"} {
				if got := texts.Info["0409"][key]; got != want {
					t.Errorf("%s %s: %s is %q, want %q", arch, version, key, got, want)
				}
			}
			for d := xml.NewDecoder(bytes.NewReader(manifest)); ; {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("%s: the manifest is no XML: %v", arch, err)
				}
			}
			for _, want := range []string{"longPathAware", `level="asInvoker"`, "{8e0f7a12-bfb3-4fe8-b9a5-48fd50a15a9a}"} {
				if !bytes.Contains(manifest, []byte(want)) {
					t.Errorf("%s: the manifest lacks %s:\n%s", arch, want, manifest)
				}
			}
		}
	}
}

// sections returns the sections of a program, as package debug/pe reads them.
func sections(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	f, err := pe.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, s := range f.Sections {
		if all[s.Name], err = s.Data(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func read(t *testing.T, b []byte) (*version.Info, []byte) {
	t.Helper()
	set, err := winres.LoadFromEXE(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if n := set.Count(); n != 2 {
		t.Errorf("%d resources, want 2", n)
	}
	info, err := version.FromBytes(set.Get(winres.RT_VERSION, winres.ID(1), english))
	if err != nil {
		t.Fatal(err)
	}
	return info, set.Get(winres.RT_MANIFEST, winres.ID(1), winres.LCIDDefault)
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	other, broken := filepath.Join(dir, "other.exe"), filepath.Join(dir, "csi-proxy.exe")
	for _, path := range []string{other, broken} {
		if err := os.WriteFile(path, []byte("MZ"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "usage"},
		{[]string{"-version=v1.0.0"}, 2, "usage"},
		{[]string{broken}, 2, "usage"},
		{[]string{"-version=v1.0.0", other}, 1, "unknown program"},
		{[]string{"-version=v1.0.0", broken}, 1, "csi-proxy.exe"},
		{[]string{"-version=v1.0.0", filepath.Join(dir, "none", "csi-proxy.exe")}, 1, "no such file"},
	} {
		var said strings.Builder
		if code := run(c.args, &said); code != c.code || !strings.Contains(said.String(), c.says) {
			t.Errorf("run(%q) = %d and %q, want %d and %q", c.args, code, said.String(), c.code, c.says)
		}
	}
}
