package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apidocs"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/descriptors"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/gogen"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/rows"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/wrappers"
)

// generator generates files from the API. Their names are relative to the root of
// the repository, with slashes.
type generator struct {
	name     string
	generate func(*apis.Set) (map[string][]byte, error)
}

// generators returns all generators. root is the root of the repository. They write
// the list of hand-written rows and methods to log.
func generators(ctx context.Context, root string, log io.Writer) []generator {
	return append(clientGenerators(ctx, filepath.Join(root, "cmd"), gogen.PublishedSecrets()),
		generator{"rows", rows.New(root, log).Generate},
		generator{"remote", remote.New(root, log).Generate},
		generator{"reference pages", apidocs.Generate},
	)
}

// clientGenerators returns the generators of the client module, which read only the
// API. They run tools of the module that contains moduleDir. secrets are the fields
// that must not be printed.
func clientGenerators(ctx context.Context, moduleDir string, secrets []gogen.Secret) []generator {
	return []generator{
		{"Go messages", func(set *apis.Set) (map[string][]byte, error) {
			return gogen.Messages(set, secrets)
		}},
		{"gRPC code", func(set *apis.Set) (map[string][]byte, error) {
			return gogen.GRPC(ctx, set, moduleDir)
		}},
		{"package comments", gogen.Docs},
		{"descriptors", descriptors.Generate},
		{"clients", wrappers.Generate},
	}
}

const usage = `csi-proxy-api-gen generates code and documentation from the .proto files in client/api.

usage: go run ./csi-proxy-api-gen [-check] [-root DIR]

`

// run runs the command. It returns 0 on success, 1 on failure or (with -check) if a
// file differs, and 2 on wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("csi-proxy-api-gen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	check := flags.Bool("check", false, "write nothing; fail if a generated file is not up to date")
	root := flags.String("root", "..", "root `directory` of the repository")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "csi-proxy-api-gen: unexpected argument %q\n", flags.Arg(0))
		return 2
	}

	fail := func(err error) int {
		fmt.Fprintf(stderr, "csi-proxy-api-gen: %v\n", err)
		return 1
	}
	set, err := apis.Load(filepath.Join(*root, "client", "api"))
	if err != nil {
		return fail(err)
	}
	log := stdout
	if *check {
		log = io.Discard
	}
	want, err := generate(set, generators(ctx, *root, log))
	if err != nil {
		return fail(err)
	}
	diff, err := compare(*root, want)
	if err != nil {
		return fail(err)
	}
	if *check {
		for _, d := range diff {
			fmt.Fprintf(stdout, "%s: %s\n", d.name, d.problem)
		}
		if len(diff) > 0 {
			return fail(errors.New("generated files are not up to date; run: make generate"))
		}
		return 0
	}
	if err := apply(*root, want, diff); err != nil {
		return fail(err)
	}
	for _, d := range diff {
		fmt.Fprintf(stdout, "%s: %s\n", d.name, d.done)
	}
	return 0
}

// generate runs all generators and returns their files. It fails if one of them
// fails.
func generate(set *apis.Set, gens []generator) (map[string][]byte, error) {
	all := map[string][]byte{}
	by := map[string]string{}
	for _, g := range gens {
		files, err := g.generate(set)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.name, err)
		}
		for name, content := range files {
			if !fs.ValidPath(name) {
				return nil, fmt.Errorf("%s: file name %q: want a path relative to the root of the repository", g.name, name)
			}
			if other, ok := by[name]; ok {
				return nil, fmt.Errorf("%s is written by two generators: %s and %s", name, other, g.name)
			}
			if !isGenerated(name, content) {
				return nil, fmt.Errorf("%s: %s does not start with a \"Code generated\" comment", g.name, name)
			}
			all[name], by[name] = content, g.name
		}
	}
	return all, nil
}

// difference is a file that is not up to date.
type difference struct {
	name    string
	problem string // printed with -check
	done    string // printed after the file was updated
}

// compare returns the differences between the generated files in the tree at root and
// the wanted ones.
func compare(root string, want map[string][]byte) ([]difference, error) {
	var diff []difference
	for name, content := range want {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			diff = append(diff, difference{name, "missing", "created"})
		case err != nil:
			return nil, err
		case !bytes.Equal(got, content):
			diff = append(diff, difference{name, "differs", "updated"})
		}
	}
	stale, err := generatedFiles(root)
	if err != nil {
		return nil, err
	}
	for _, name := range stale {
		if _, ok := want[name]; !ok {
			diff = append(diff, difference{name, "no longer generated", "removed"})
		}
	}
	slices.SortFunc(diff, func(a, b difference) int { return strings.Compare(a.name, b.name) })
	return diff, nil
}

// apply removes the differences that compare found.
func apply(root string, want map[string][]byte, diff []difference) error {
	for _, d := range diff {
		file := filepath.Join(root, filepath.FromSlash(d.name))
		content, ok := want[d.name]
		if !ok {
			if err := os.Remove(file); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// marks are the possible beginnings of the first line of a generated file. Output of
// the protobuf plugins counts only in the directory of this command's output: other
// packages may have their own.
var marks = []struct{ text, below string }{
	{"Code generated by csi-proxy-api-gen", "."},
	{"Code generated by protoc-gen-go.", gogen.Dir},
	{"Code generated by protoc-gen-go-grpc.", gogen.Dir},
}

// comments are the beginnings of a comment line, by file extension. Files with other
// extensions are not generated.
var comments = map[string]string{".go": "// ", ".md": "<!-- ", ".txtpb": "# "}

// isGenerated reports whether a file was generated by this command, by its first line.
func isGenerated(name string, content []byte) bool {
	start, ok := comments[path.Ext(name)]
	if !ok {
		return false
	}
	line, _, _ := bytes.Cut(content, []byte("\n"))
	text, ok := strings.CutPrefix(string(line), start)
	if !ok || !strings.Contains(text, "DO NOT EDIT.") {
		return false
	}
	return slices.ContainsFunc(marks, func(m struct{ text, below string }) bool {
		return strings.HasPrefix(text, m.text) && (m.below == "." || strings.HasPrefix(name, m.below+"/"))
	})
}

// generatedFiles returns the files below root that this command generated. It skips
// testdata, which may contain generated files as test input.
func generatedFiles(root string) ([]string, error) {
	var names []string
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); base == "testdata" || base == "bin" || name != "." && strings.HasPrefix(base, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if _, ok := comments[path.Ext(name)]; !ok || !d.Type().IsRegular() {
			return nil
		}
		start, err := readStart(tree, name)
		if err != nil {
			return err
		}
		if isGenerated(name, start) {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// readStart reads the first bytes of a file, enough to check its first line.
func readStart(tree fs.FS, name string) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, 256)
	n, err := io.ReadFull(f, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return buf[:n], nil
}
