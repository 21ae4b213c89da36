// Command stamp adds two resources to Windows programs: the version, which Explorer,
// Get-Item and inventories show, and a manifest.
//
//	stamp -version v2.0.1-3-g0123abc csi-proxy.exe csi-proxyctl.exe
//
// Only the build knows the version, so stamp changes the programs in place after linking,
// and no resource file in the source tree can be out of date. The same program and version
// give the same bytes.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tc-hib/winres"
	"github.com/tc-hib/winres/version"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	f := flag.NewFlagSet("stamp", flag.ContinueOnError)
	f.SetOutput(stderr)
	text := f.String("version", "", "the output of git describe")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if *text == "" || f.NArg() == 0 {
		fmt.Fprintln(stderr, "usage: stamp -version VERSION PROGRAM…")
		return 2
	}
	for _, path := range f.Args() {
		if err := stampFile(path, *text); err != nil {
			fmt.Fprintf(stderr, "stamp: %s: %v\n", path, err)
			return 1
		}
	}
	return 0
}

// descriptions has the descriptions of the programs, by their names.
var descriptions = map[string]string{
	"csi-proxy.exe":        "CSI Proxy: storage of this node for Kubernetes CSI drivers",
	"csi-proxy-sim.exe":    "CSI Proxy over a simulated node, for tests of CSI drivers",
	"csi-proxyctl.exe":     "CSI Proxy: command line client",
	"csi-proxy-verify.exe": "CSI Proxy: questions to a real Windows",
}

func stampFile(path, text string) error {
	name := filepath.Base(path)
	description, known := descriptions[name]
	if !known {
		return errors.New("unknown program: add its description to hack/stamp")
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	stamped, err := stamp(program, name, description, text)
	if err != nil {
		return err
	}
	// Rename works even if the old program runs.
	next := path + ".stamped"
	if err := os.WriteFile(next, stamped, 0o755); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// english is the language of the texts, as Windows numbers them.
const english = 0x0409

// stamp returns the program with a version and a manifest, and no other resources.
func stamp(program []byte, name, description, text string) ([]byte, error) {
	numbers := numbersOf(text)
	info := version.Info{FileVersion: numbers, ProductVersion: numbers, Type: version.App}
	for _, s := range [...][2]string{
		{version.ProductName, "CSI Proxy"},
		{version.FileDescription, description},
		{version.ProductVersion, text},
		{version.FileVersion, text},
		{version.InternalName, strings.TrimSuffix(name, ".exe")},
		{version.OriginalFilename, name},
		{version.CompanyName, "The Kubernetes Authors"},
		{version.LegalCopyright, "Apache License 2.0"},
	} {
		if err := info.Set(english, s[0], s[1]); err != nil {
			return nil, err
		}
	}
	resources := &winres.ResourceSet{}
	resources.SetVersionInfo(info)
	resources.SetManifest(manifest)
	var out bytes.Buffer
	if err := resources.WriteToEXE(&out, bytes.NewReader(program)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// manifest declares support for Windows 10 and for long paths. It asks for no elevation:
// the service has the rights of its account, and csi-proxyctl, csi-proxy-sim and -h need
// none.
// https://learn.microsoft.com/windows/win32/sbscs/application-manifests
var manifest = winres.AppManifest{
	Compatibility:  winres.Win10AndAbove,
	ExecutionLevel: winres.AsInvoker,
	LongPathAware:  true,
}

var described = regexp.MustCompile(`^v?(\d+)\.(\d+)\.(\d+)(?:-(?:.*-)?(\d+)-g[0-9a-f]+)?`)

// numbersOf returns the four numbers of a version from git describe: those of the tag, and
// the number of commits after it. It returns 0.0.0.0 for a version without a tag, and for
// a number of more than 16 bits.
func numbersOf(text string) (numbers [4]uint16) {
	m := described.FindStringSubmatch(text)
	if m == nil {
		return numbers
	}
	for i, s := range m[1:] {
		if s == "" {
			continue
		}
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return [4]uint16{}
		}
		numbers[i] = uint16(n)
	}
	return numbers
}
