package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// licenses finds the texts of the licenses of a module.
type licenses interface {
	of(ctx context.Context, m *debug.Module) ([]entry, error)
}

// moduleCache reads them from the module cache, into which the go command downloads what
// is not there.
type moduleCache struct{}

var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|authors)([-._].*)?$`)

func (moduleCache) of(ctx context.Context, m *debug.Module) ([]entry, error) {
	dir, err := directory(ctx, m)
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []entry
	for _, f := range files {
		if f.IsDir() || !licenseName.MatchString(f.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, entry{f.Name(), content})
	}
	if !slices.ContainsFunc(texts, func(e entry) bool { return !strings.HasPrefix(strings.ToLower(e.name), "authors") }) {
		return nil, fmt.Errorf("module %s %s has no license in its root directory; programs that contain it cannot be released", m.Path, m.Version)
	}
	return texts, nil
}

// directory returns where the source of a module is.
func directory(ctx context.Context, m *debug.Module) (string, error) {
	if m.Path == "std" {
		out, err := goCommand(ctx, "env", "GOROOT")
		return strings.TrimSpace(string(out)), err
	}
	out, err := goCommand(ctx, "mod", "download", "-json", m.Path+"@"+m.Version)
	if err != nil {
		return "", err
	}
	var found struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", err
	}
	if m.Sum != "" && found.Sum != m.Sum {
		return "", fmt.Errorf("module %s %s has the checksum %s, but the programs were built from %s", m.Path, m.Version, found.Sum, m.Sum)
	}
	return found.Dir, nil
}

func goCommand(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	c.Dir = os.TempDir() // outside of any module
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
