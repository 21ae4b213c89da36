package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// chart packages deploy/chart as Helm does, with the version of the release.
func (r *release) chart() error {
	dir := filepath.Join(r.source, "deploy", "chart")
	var entries []entry
	name := ""
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if rel == "Chart.yaml" {
			content = appVersion.ReplaceAll(content, fmt.Appendf(nil, "appVersion: %q", r.number()))
			if semver.MatchString(r.number()) {
				content = version.ReplaceAll(content, []byte("version: "+r.number()))
			}
			name = "csi-proxy-" + string(version.FindSubmatch(content)[1]) + ".tgz"
		}
		entries = append(entries, entry{"csi-proxy/" + filepath.ToSlash(rel), content})
		return err
	})
	if err != nil {
		return err
	}
	packed, err := r.tarball(entries)
	if err != nil {
		return err
	}
	r.say("chart: %s", name)
	return os.WriteFile(filepath.Join(r.out, name), packed, 0o644)
}

// version and appVersion match the lines of Chart.yaml.
var (
	version    = regexp.MustCompile(`(?m)^version: (\S+)$`)
	appVersion = regexp.MustCompile(`(?m)^appVersion: \S+$`)
)

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// notes writes the section of the version in CHANGELOG.md. A version that has none yet gets
// the section Unreleased.
func (r *release) notes() error {
	text, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	section, name := sectionOf(string(text), r.number())
	if section == "" {
		return fmt.Errorf("CHANGELOG.md has neither a section %s nor one Unreleased", r.number())
	}
	r.say("notes: the section %s of CHANGELOG.md, %d lines", name, strings.Count(section, "\n"))
	return os.WriteFile(filepath.Join(r.out, "NOTES.md"), []byte(section), 0o644)
}

// sectionOf returns a section of a changelog (keepachangelog.com), without its heading.
func sectionOf(text, version string) (section, name string) {
	for _, name := range []string{version, "Unreleased"} {
		_, after, found := strings.Cut(text, "\n## ["+name+"]")
		if !found {
			continue
		}
		_, after, _ = strings.Cut(after, "\n")
		end := strings.Index(after, "\n## [")
		if end < 0 {
			if end = strings.Index(after, "\n["); end < 0 {
				end = len(after) - 1
			}
		}
		return strings.TrimSpace(after[:end+1]) + "\n", name
	}
	return "", ""
}

// checksums writes SHA256SUMS over all files, for sha256sum -c.
func (r *release) checksums() error {
	var sums bytes.Buffer
	files := 0
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == marker {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), filepath.ToSlash(name))
		files++
		return nil
	})
	if err != nil {
		return err
	}
	if files == 0 {
		return errors.New("the release has no files")
	}
	all := sha256.Sum256(sums.Bytes())
	r.say("SHA256SUMS: %d files; its own hash is %s", files, hex.EncodeToString(all[:]))
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// signature signs SHA256SUMS, and so all files, by the program minisign, which asks for the
// password of the key.
func (r *release) signature(ctx context.Context) error {
	if r.key == "" {
		r.say("signature: none; KEY=FILE signs the release with minisign")
		return nil
	}
	c := exec.CommandContext(ctx, "minisign", "-S", "-s", r.key, "-m", filepath.Join(r.out, "SHA256SUMS"), "-t", "csi-proxy "+r.number())
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, r.log, r.log
	if err := c.Run(); err != nil {
		return fmt.Errorf("minisign with the key %s: %w", r.key, err)
	}
	r.say("signature: SHA256SUMS.minisig")
	return nil
}
