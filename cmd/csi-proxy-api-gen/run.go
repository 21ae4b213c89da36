package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apidocs"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/descriptors"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/gogen"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/rows"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/wrappers"
)

// files are generated files. Their names are relative to the root of the repository, with
// slashes.
type files = map[string][]byte

// generate returns all generated files of the repository at root.
func generate(ctx context.Context, root string) (files, error) {
	set, err := apis.Load(filepath.Join(root, "client", "api"))
	if err != nil {
		return nil, err
	}
	all, err := clientFiles(ctx, set, filepath.Join(root, "cmd"))
	if err != nil {
		return nil, err
	}
	c := rows.New(root)
	for _, generate := range []func(*apis.Set) (files, error){
		c.Rows, c.Remote, apidocs.Generate,
		func(*apis.Set) (files, error) { return gogen.Internal(ctx, root, "internal/simcontrol") },
		func(*apis.Set) (files, error) { return gogen.Internal(ctx, root, "internal/admin") },
	} {
		some, err := generate(set)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// clientFiles returns the generated files of the client module, which depend only on the
// API. It runs tools of the module that contains moduleDir.
func clientFiles(ctx context.Context, set *apis.Set, moduleDir string) (files, error) {
	all := files{}
	for _, generate := range []func(*apis.Set) (files, error){
		gogen.Messages,
		func(set *apis.Set) (files, error) { return gogen.GRPC(ctx, set, moduleDir) },
		gogen.Docs, descriptors.Generate, wrappers.Generate,
	} {
		some, err := generate(set)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// run runs the command. It returns 0 on success, 1 on failure, and 2 on wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("csi-proxy-api-gen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", "..", "root `directory` of the repository")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	all, err := generate(ctx, *root)
	if err == nil {
		err = write(*root, all, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "csi-proxy-api-gen: %v\n", err)
		return 1
	}
	return 0
}

// write writes the files that are not up to date, and prints their names.
func write(root string, all files, stdout io.Writer) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		file := filepath.Join(root, filepath.FromSlash(name))
		if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, all[name]) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, all[name], 0o644); err != nil {
			return err
		}
		fmt.Fprintln(stdout, name)
	}
	return nil
}
