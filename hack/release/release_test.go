package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const commit = 1790000000

// built returns a directory with small programs for both architectures, as make build-windows leaves
// them. No test changes it.
func built(t *testing.T) string {
	t.Helper()
	bin, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return "", err
	}
	made := []error{}
	for name, text := range map[string]string{"go.mod": "module example.com/p\n\ngo 1.25\n", "main.go": "package main\n\nfunc main() {}\n"} {
		made = append(made, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	bin := filepath.Join(dir, "bin")
	for _, arch := range architectures() {
		for _, program := range programs() {
			c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(bin, "windows-"+arch, program), ".")
			c.Dir, c.Env = dir, append(os.Environ(), "GOOS=windows", "GOARCH="+arch, "GOWORK=off", "CGO_ENABLED=0")
			if out, err := c.CombinedOutput(); err != nil {
				made = append(made, fmt.Errorf("%w\n%s", err, out))
			}
		}
	}
	return bin, errors.Join(made...)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := buildOnce(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// source is the repository.
const source = "../.."

func made(t *testing.T, bin, out string, more ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := append([]string{"-version", "v2.3.4", "-time", "1790000000", "-bin", bin, "-source", source, "-out", out}, more...)
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("release ends with %d: %s", code, stderr.String())
	}
	return stdout.String()
}

// sums returns the SHA-256 of each file below a directory.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		sum := sha256.Sum256(content)
		all[strings.TrimPrefix(path, dir+"/")] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTwoReleasesAreEqual makes a release twice, the second time from files with other times
// and rights, in another time zone, and over an earlier release.
func TestTwoReleasesAreEqual(t *testing.T) {
	bin := built(t)
	one, two := t.TempDir(), t.TempDir()
	made(t, bin, one)
	made(t, bin, two)
	t.Setenv("TZ", "Asia/Kolkata")
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(bin)); err != nil {
		t.Fatal(err)
	}
	for path := range sums(t, copied) {
		if err := os.Chmod(filepath.Join(copied, path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made(t, copied, two)
	first, second := sums(t, one), sums(t, two)
	if len(first) < 12 || len(first) != len(second) {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	for name, sum := range first {
		if second[name] != sum {
			t.Errorf("%s differs", name)
		}
	}
	t.Logf("%d files are equal", len(first))
}

func TestZip(t *testing.T) {
	out := t.TempDir()
	made(t, built(t), out)
	z, err := zip.OpenReader(filepath.Join(out, "csi-proxy_2.3.4_windows_arm64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	for _, f := range z.File {
		names = append(names, strings.TrimPrefix(f.Name, "csi-proxy_2.3.4_windows_arm64/"))
		if !f.Modified.Equal(time.Unix(commit, 0)) {
			t.Errorf("%s has the time %v", f.Name, f.Modified)
		}
	}
	for _, want := range []string{"csi-proxy.exe", "csi-proxyctl.exe", "csi-proxy-verify.exe", "LICENSE", "licenses/std/LICENSE", "sbom.cdx.json"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing from %v", want, names)
		}
	}
}

// Installers of nodes take the only entry with the program's name from the archive.
func TestTarball(t *testing.T) {
	bin, out := built(t), t.TempDir()
	made(t, bin, out)
	want, err := os.ReadFile(filepath.Join(bin, "windows-amd64", "csi-proxy.exe"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, have := range unpacked(t, filepath.Join(out, "csi-proxy-v2.3.4.tar.gz")) {
		if !strings.Contains(name, "csi-proxy.exe") {
			continue
		}
		found++
		if name != "bin/csi-proxy.exe" || have != string(want) {
			t.Errorf("%s has %d bytes, want bin/csi-proxy.exe with the %d of the program", name, len(have), len(want))
		}
	}
	if found != 1 {
		t.Errorf("%d entries have the program's name, want 1", found)
	}
}

// The chart has the files of deploy/chart, and the version of the release. That Helm accepts them is
// a test of deploy/.
func TestChart(t *testing.T) {
	out := t.TempDir()
	made(t, built(t), out)
	got := unpacked(t, filepath.Join(out, "csi-proxy-2.3.4.tgz"))
	if c := got["csi-proxy/Chart.yaml"]; !strings.Contains(c, "\nversion: 2.3.4\n") || !strings.Contains(c, "\nappVersion: \"2.3.4\"\n") {
		t.Errorf("Chart.yaml: %s, want version 2.3.4", c)
	}
	files := sums(t, filepath.Join(source, "deploy", "chart"))
	delete(files, ".helmignore")
	for name, content := range got {
		rel := strings.TrimPrefix(name, "csi-proxy/")
		if sum := sha256.Sum256([]byte(content)); rel != "Chart.yaml" && files[rel] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s is not that of deploy/chart", name)
		}
		delete(files, rel)
	}
	if len(files) > 0 {
		t.Errorf("missing in the chart: %v", files)
	}
}

// unpacked returns the files of a tar.gz.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(content)
	}
}

func TestChecksums(t *testing.T) {
	out := t.TempDir()
	made(t, built(t), out)
	c := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	c.Dir = out
	if text, err := c.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, text)
	}
	listed, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if lines, files := bytes.Count(listed, []byte("\n")), len(sums(t, out))-2; lines != files { // not itself, and not the marker
		t.Errorf("SHA256SUMS has %d of %d files", lines, files)
	}
}

// TestImage reads the layout with the registry library's own checks.
func TestImage(t *testing.T) {
	out := t.TempDir()
	report := made(t, built(t), out)
	if strings.Count(report, "INCOMPLETE") != 2 {
		t.Errorf("the report does not say that the images are incomplete:\n%s", report)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(out, "image"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	images := map[string]v1.Image{}
	if err := collect(index, images); err != nil {
		t.Fatal(err)
	}
	for _, arch := range architectures() {
		layers, err := images[arch].Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%s has %d layers, %v; want 1", arch, len(layers), err)
		}
		content, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			names = append(names, h.Name)
			if h.PAXRecords["MSWINDOWS.rawsd"] == "" {
				t.Errorf("%s has no owner", h.Name)
			}
		}
		if want := []string{"Files", "Hives", "Files/csi-proxy.exe", "Files/csi-proxyctl.exe"}; !slices.Equal(names, want) {
			t.Errorf("%s has %v, want %v", arch, names, want)
		}
	}
}

// A base image's layers are below ours, and its digest is in the release.
func TestBaseImage(t *testing.T) {
	base, err := random.Image(100, 2)
	if err != nil {
		t.Fatal(err)
	}
	config, err := base.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.OSVersion = "windows", "amd64", "10.0.1"
	if base, err = mutate.ConfigFile(base, config); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: base})); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	report := made(t, built(t), out, "-base", dir)
	if !strings.Contains(report, "image for amd64: complete") || !strings.Contains(report, "image for arm64: INCOMPLETE") {
		t.Errorf("the report is\n%s", report)
	}
	digest, err := base.Digest()
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(out, "base-images.txt"))
	if want := digest.String() + "  windows/amd64\n"; err != nil || string(record) != want {
		t.Errorf("base-images.txt is %q, %v, want %q", record, err, want)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(out, "image"))
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]v1.Image{}
	if err := collect(index, images); err != nil {
		t.Fatal(err)
	}
	layers, err := images["amd64"].Layers()
	if err != nil || len(layers) != 3 {
		t.Errorf("%d layers, %v, want 3", len(layers), err)
	}
	if config, err := images["amd64"].ConfigFile(); err != nil || config.OSVersion != "10.0.1" {
		t.Errorf("the version of Windows is %v, %v", config, err)
	}
}

func TestRefusals(t *testing.T) {
	bin := built(t)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	swapped := t.TempDir()
	for from, to := range map[string]string{"amd64": "arm64", "arm64": "amd64"} {
		if err := os.CopyFS(filepath.Join(swapped, "windows-"+to), os.DirFS(filepath.Join(bin, "windows-"+from))); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a directory with other files": {[]string{"-bin", bin, "-out", full}, "holds no earlier release"},
		"no programs":                  {[]string{"-bin", t.TempDir(), "-out", t.TempDir()}, "make build-windows"},
		"the wrong architecture":       {[]string{"-bin", swapped, "-out", t.TempDir()}, "built for machine"},
		"no layout":                    {[]string{"-bin", bin, "-out", t.TempDir(), "-base", full}, "no OCI image layout"},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"-version", "v1.0.0", "-time", "1", "-source", source}, c.args...)
		if code := run(t.Context(), args, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit code %d, %q; want 1 and %q", name, code, stderr.String(), c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(full, "mine")); err != nil {
		t.Error(err)
	}
}

// A module without a license stops the release, and one whose source is not that of the
// programs.
func TestLicenses(t *testing.T) {
	text, err := (moduleCache{}).of(t.Context(), &debug.Module{Path: "github.com/CycloneDX/cyclonedx-go", Version: "v0.12.0"})
	if err != nil || !slices.ContainsFunc(text, func(e entry) bool { return e.name == "LICENSE" && len(e.content) > 1000 }) {
		t.Errorf("%d texts, %v", len(text), err)
	}
	other := &debug.Module{Path: "github.com/CycloneDX/cyclonedx-go", Version: "v0.12.0", Sum: "h1:AAAA"}
	if _, err := (moduleCache{}).of(context.Background(), other); err == nil || !strings.Contains(err.Error(), "were built from h1:AAAA") {
		t.Errorf("another checksum: %v", err)
	}
}

func TestBill(t *testing.T) {
	r := release{version: "v2.3.4", time: time.Unix(commit, 0).UTC()}
	text, err := r.bill("amd64", []*debug.Module{{Path: "a/b", Version: "v1.0.0", Sum: "h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}, {Path: "std", Version: "go1.26"}})
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		BomFormat, SpecVersion string
		Components             []struct {
			Name, Version, Purl string
			Hashes              []struct{ Alg, Content string }
		}
		Dependencies []struct{ DependsOn []string }
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if b.BomFormat != "CycloneDX" || len(b.Components) != 2 || b.Components[0].Purl != "pkg:golang/a/b@v1.0.0" ||
		b.Components[0].Hashes[0].Content != "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" || len(b.Dependencies[0].DependsOn) != 2 {
		t.Errorf("the bill is\n%s", text)
	}
}

func TestSection(t *testing.T) {
	const text = "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [1.1.0] - 2026\n\nold\nmore\n\n[Unreleased]: x\n"
	for version, want := range map[string]string{"1.1.0": "old\nmore\n|1.1.0", "9.9.9": "new\n|Unreleased"} {
		if section, name := sectionOf(text, version); section+"|"+name != want {
			t.Errorf("%s: %q, want %q", version, section+"|"+name, want)
		}
	}
	if section, _ := sectionOf("# Changelog\n", "1.0.0"); section != "" {
		t.Errorf("no section: %q", section)
	}
}

// The signature is judged by minisign itself, with the public key of the pair.
func TestSignature(t *testing.T) {
	if _, err := exec.LookPath("minisign"); err != nil {
		t.Skipf("%v; make test installs it", err)
	}
	minisign := func(args ...string) error {
		out, err := exec.Command("minisign", args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("minisign %v: %w\n%s", args, err, out)
		}
		return err
	}
	keys, out := t.TempDir(), filepath.Join(t.TempDir(), "dist")
	public, secret := filepath.Join(keys, "key.pub"), filepath.Join(keys, "key")
	if err := minisign("-G", "-W", "-p", public, "-s", secret); err != nil {
		t.Fatal(err)
	}
	made(t, built(t), out, "-key", secret)
	sums := filepath.Join(out, "SHA256SUMS")
	if err := minisign("-V", "-p", public, "-m", sums); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(sums, []byte("others\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := minisign("-V", "-p", public, "-m", sums); err == nil {
		t.Error("minisign verifies a signature of other checksums")
	}
	var stdout, stderr bytes.Buffer
	args := []string{"-version", "v2.3.4", "-time", "1790000000", "-bin", built(t), "-source", source, "-out", filepath.Join(t.TempDir(), "dist"), "-key", filepath.Join(keys, "none")}
	if code := run(t.Context(), args, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "minisign with the key") {
		t.Errorf("a key that does not exist: exit code %d, %s", code, stderr.String())
	}
}
