// Command release puts what `make build-windows` has built into the files of a release:
//
//		release -version v2.0.0 -time 1790000000 -bin ../../bin -out ../../dist [-base LAYOUT] [-key FILE]
//
//	  - a zip for each architecture: the programs, the licenses of what they contain, and a
//	    software bill of materials
//	  - the same for amd64 as the tar.gz that installers of the existing csi-proxy unpack
//	  - the HostProcess image of both architectures as an OCI image layout
//	  - the chart, packaged as Helm does
//	  - the notes of the version, from CHANGELOG.md
//	  - SHA256SUMS, and with -key its signature SHA256SUMS.minisig
//
// The same programs, version and time give the same bytes, except the signature. The time is
// that of the commit.
//
// The command is a module of its own: its libraries (of container registries, of CycloneDX) are not for those who build or test the programs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// architectures are those of Windows that the programs are built for.
func architectures() []string { return []string{"amd64", "arm64"} }

// programs are in each zip. The simulator is not: it is for tests of drivers.
func programs() []string {
	return []string{"csi-proxy.exe", "csi-proxyctl.exe", "csi-proxy-verify.exe"}
}

// imagePrograms are in the image.
func imagePrograms() []string { return []string{"csi-proxy.exe", "csi-proxyctl.exe"} }

// A release is what is released, from where, and to where.
type release struct {
	version string
	time    time.Time
	bin     string // has windows-amd64 and windows-arm64
	source  string // the root of the repository
	out     string
	base    string // an OCI image layout, or empty
	key     string // a secret key of minisign, or empty
	licenses
	log io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.SetOutput(stderr)
	r := release{log: stdout, licenses: moduleCache{}}
	f.StringVar(&r.version, "version", "", "the version, as in the names of the files")
	seconds := f.Int64("time", 0, "the time of the commit, in `seconds` since 1970")
	f.StringVar(&r.bin, "bin", "bin", "the `directory` with windows-amd64 and windows-arm64")
	f.StringVar(&r.source, "source", ".", "the root `directory` of the repository")
	f.StringVar(&r.out, "out", "dist", "the `directory` to write to, which must be empty or hold an earlier release")
	f.StringVar(&r.base, "base", "", "an OCI image `layout` with the base image; without it the image is incomplete")
	f.StringVar(&r.key, "key", "", "a secret key of minisign, as a `file`, that signs SHA256SUMS; without it the release is not signed")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if r.version == "" || *seconds <= 0 || f.NArg() > 0 {
		fmt.Fprintln(stderr, "usage: release -version VERSION -time SECONDS [-bin DIR] [-source DIR] [-out DIR] [-base LAYOUT] [-key FILE]")
		return 2
	}
	r.time = time.Unix(*seconds, 0).UTC()
	if err := r.make(ctx); err != nil {
		fmt.Fprintf(stderr, "release: %v\n", err)
		return 1
	}
	return 0
}

func (r *release) make(ctx context.Context) error {
	if err := r.clear(); err != nil {
		return err
	}
	for _, arch := range architectures() {
		if err := r.archive(ctx, arch); err != nil {
			return fmt.Errorf("zip for %s: %w", arch, err)
		}
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{{"image", r.image}, {"chart", r.chart}, {"notes", r.notes}, {"checksums", r.checksums}, {"signature", func() error { return r.signature(ctx) }}} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// marker is in each directory that release wrote, so that it removes no other.
const marker = ".csi-proxy-release"

// clear makes an empty directory for the files. It removes those of an earlier release.
func (r *release) clear() error {
	entries, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(r.out, marker)); err != nil {
			return fmt.Errorf("%s is not empty and holds no earlier release; remove it, or set -out to another directory", r.out)
		}
		if err := os.RemoveAll(r.out); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, marker), nil, 0o644)
}

// number is the version as SemVer writes it, without the "v" of its tag.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// program returns the path of a program that was built.
func (r *release) program(arch, name string) string {
	return filepath.Join(r.bin, "windows-"+arch, name)
}

// say prints a line of the report.
func (r *release) say(format string, args ...any) { fmt.Fprintf(r.log, format+"\n", args...) }
