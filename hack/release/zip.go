package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"debug/pe"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// archive writes the zip of an architecture, and its bill of materials beside it.
func (r *release) archive(ctx context.Context, arch string) error {
	name := fmt.Sprintf("csi-proxy_%s_windows_%s", r.number(), arch)
	var entries []entry
	modules := map[string]*debug.Module{}
	for _, program := range programs() {
		content, err := os.ReadFile(r.program(arch, program))
		if err != nil {
			return fmt.Errorf("%w; run make build-windows first", err)
		}
		if err := isFor(content, arch); err != nil {
			return fmt.Errorf("%s: %w", r.program(arch, program), err)
		}
		info, err := buildinfo.Read(bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("%s: %w", r.program(arch, program), err)
		}
		for _, m := range linked(info) {
			modules[m.Path] = m
		}
		entries = append(entries, entry{program, content})
	}
	contained := slices.SortedFunc(values(modules), func(a, b *debug.Module) int { return strings.Compare(a.Path, b.Path) })
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return err
	}
	entries = append(entries, entry{"LICENSE", license})
	texts := 0
	for _, m := range contained {
		files, err := r.of(ctx, m)
		if err != nil {
			return err
		}
		for _, f := range files {
			entries = append(entries, entry{"licenses/" + m.Path + "/" + f.name, f.content})
			texts++
		}
	}
	bill, err := r.bill(arch, contained)
	if err != nil {
		return err
	}
	entries = append(entries, entry{"sbom.cdx.json", bill})
	if err := os.WriteFile(filepath.Join(r.out, name+".cdx.json"), bill, 0o644); err != nil {
		return err
	}
	packed, err := r.zip(name, entries)
	if err != nil {
		return err
	}
	r.say("%s.zip: %d programs, %d modules in the bill of materials, %d texts of licenses, %d bytes", name, len(programs()), len(contained), texts, len(packed))
	if err := os.WriteFile(filepath.Join(r.out, name+".zip"), packed, 0o644); err != nil || arch != "amd64" {
		return err
	}
	packed, err = r.tarball(entries)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "csi-proxy-v"+r.number()+".tar.gz"), packed, 0o644)
}

func values(modules map[string]*debug.Module) func(func(*debug.Module) bool) {
	return func(yield func(*debug.Module) bool) {
		for _, m := range modules {
			if !yield(m) {
				return
			}
		}
	}
}

// linked returns the modules of others that a program contains, and Go's own library.
func linked(info *debug.BuildInfo) []*debug.Module {
	modules := []*debug.Module{{Path: "std", Version: info.GoVersion}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version == "" || m.Version == "(devel)" || strings.HasPrefix(m.Path, ".") {
			continue // a module of this repository
		}
		modules = append(modules, m)
	}
	return modules
}

// isFor returns an error unless a program is one of Windows for an architecture.
func isFor(program []byte, arch string) error {
	f, err := pe.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("no program for Windows: %w", err)
	}
	want := map[string]uint16{"amd64": pe.IMAGE_FILE_MACHINE_AMD64, "arm64": pe.IMAGE_FILE_MACHINE_ARM64}[arch]
	if f.Machine != want {
		return fmt.Errorf("built for machine %#x, want %#x (%s)", f.Machine, want, arch)
	}
	return nil
}

// An entry is a file in a zip.
type entry struct {
	name    string
	content []byte
}

// zip packs entries below a directory, all with the time of the release.
func (r *release) zip(dir string, entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: dir + "/" + e.name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(0o644)
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// tarball packs entries as installers of nodes unpack them: they take bin/csi-proxy.exe, or the only
// entry with csi-proxy.exe in its name.
//
// Source: the archives csi-proxy-vVERSION.tar.gz of the published releases.
func (r *release) tarball(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b) // without a time of its own
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.content)), ModTime: r.time}
		if strings.HasSuffix(e.name, ".exe") {
			h.Name, h.Mode = "bin/"+e.name, 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
