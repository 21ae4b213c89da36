// Command exesize writes docs/evidence/size.md, which shows what takes the room in
// csi-proxy.exe. It builds the program as it ships and once more with symbols, and adds
// up the symbols by module. `make generate` runs it.
//
// A module's number is the size of its code and data in the file. What Go's linker
// makes of all modules together, such as the tables for stack traces and the types,
// has lines of its own. Numbers are rounded to 0.1 MB, so that small changes of the
// code leave the page as it is.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/pe"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/hack/internal/generated"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	f := flag.NewFlagSet("exesize", flag.ContinueOnError)
	f.SetOutput(stderr)
	root := f.String("root", ".", "the project's `directory`")
	check := f.Bool("check", false, "write nothing; fail if the page is out of date")
	if err := f.Parse(args); err != nil {
		return 2
	}
	text, err := page(*root)
	if err == nil {
		err = generated.Sync(*root, map[string][]byte{file: text}, *check)
	}
	if err != nil {
		fmt.Fprintf(stderr, "exesize: %v\n", err)
		return 1
	}
	return 0
}

const (
	file    = "docs/evidence/size.md"
	program = "./cmd/csi-proxy"
	arch    = "amd64"
	tags    = "grpcnotrace,nethttpomithttp2" // TAGS of the Makefile
)

// page builds the program and returns the page.
func page(root string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "exesize")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := func(name, ldflags string) (string, int64, error) {
		exe := filepath.Join(dir, name)
		c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-ldflags", ldflags, "-o", exe, program)
		c.Dir = root
		c.Env = append(os.Environ(), "GOOS=windows", "GOARCH="+arch, "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return "", 0, fmt.Errorf("build %s: %w\n%s", program, err, out)
		}
		info, err := os.Stat(exe)
		if err != nil {
			return "", 0, err
		}
		return exe, info.Size(), nil
	}
	_, shipped, err := build("shipped.exe", "-s -w")
	if err != nil {
		return nil, err
	}
	exe, _, err := build("symbols.exe", "")
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		return nil, err
	}
	modules := []string{info.Main.Path}
	for _, d := range info.Deps {
		modules = append(modules, d.Path)
	}
	symbols, err := exec.Command("go", "tool", "nm", exe).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool nm: %w", err)
	}
	inFile, err := extents(exe)
	if err != nil {
		return nil, err
	}
	sizes, err := addUp(bytes.NewReader(symbols), inFile, modules)
	if err != nil {
		return nil, err
	}
	return table(sizes, shipped, info.GoVersion), nil
}

// extents returns the ranges of addresses whose content is in the program's file.
func extents(exe string) ([][2]uint64, error) {
	f, err := pe.Open(exe)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		return nil, errors.New("not a 64-bit program")
	}
	var all [][2]uint64
	for _, s := range f.Sections {
		begin := h.ImageBase + uint64(s.VirtualAddress)
		all = append(all, [2]uint64{begin, begin + uint64(min(s.Size, s.VirtualSize))})
	}
	return all, nil
}

// addUp counts every byte of the program's sections for the last symbol that begins at
// it or before it, and adds up by owner. A line of nm has address, kind and name.
// Symbols at one address count as one, and what is only in memory does not count.
func addUp(nm io.Reader, inFile [][2]uint64, modules []string) (map[string]int64, error) {
	at := map[uint64]string{}
	lines := bufio.NewScanner(nm)
	lines.Buffer(nil, 1<<20) // names of generic functions are long
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 3 || len(f[0]) == 1 {
			continue // an undefined symbol has no address
		}
		address, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("go tool nm printed %q, want an address", lines.Text())
		}
		name := strings.Join(f[2:], " ")
		// A mark of the linker, such as runtime.types, begins where a named symbol does.
		if have, ok := at[address]; !ok || strings.HasPrefix(have, "runtime.") {
			at[address] = name
		}
	}
	addresses := slices.Sorted(maps.Keys(at))
	sizes := map[string]int64{}
	for i, a := range addresses {
		for _, e := range inFile {
			if a < e[0] || a >= e[1] {
				continue
			}
			end := e[1]
			if i+1 < len(addresses) {
				end = min(end, addresses[i+1])
			}
			sizes[owner(at[a], modules)] += int64(end - a)
		}
	}
	return sizes, lines.Err()
}

// Owners that are not modules.
const (
	standard = "Go's standard library and runtime"
	types    = "types and their names"
	traces   = "tables for stack traces (pclntab)"
	strs     = "constant strings and function values"
)

// owner returns the module, or the part of Go, that a symbol belongs to.
func owner(symbol string, modules []string) string {
	switch {
	case symbol == "runtime.pclntab":
		return traces
	case strings.HasPrefix(symbol, "type:"), symbol == "runtime.types", symbol == "runtime.rodata", strings.HasPrefix(symbol, "go:itab"):
		return types
	case strings.HasPrefix(symbol, "go:"):
		return strs
	}
	best := ""
	for _, m := range modules {
		escaped := escapePath(m)
		if strings.HasPrefix(symbol, escaped) && len(m) > len(best) && strings.ContainsAny(symbol[len(escaped):][:min(1, len(symbol)-len(escaped))], "./") {
			best = m
		}
	}
	return cmp.Or(best, standard)
}

// escapePath returns a module's path as the linker writes it, with the dots of its last
// element escaped.
func escapePath(m string) string {
	i := strings.LastIndexByte(m, '/') + 1
	return m[:i] + strings.ReplaceAll(m[i:], ".", "%2e")
}

// table returns the page for sizes by module and the size of the whole program.
func table(sizes map[string]int64, shipped int64, goVersion string) []byte {
	const unit = 100_000 // of the numbers in the table
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- Code generated by hack/exesize (make generate). DO NOT EDIT. -->\n\n# What takes the room in csi-proxy.exe\n\n"+
		"windows/%s, built by %s as it ships: %.1f MB. The stage build of `make test` fails beyond 15 MB.\n\n"+
		"| | MB |\n|---|--:|\n", arch, goVersion, float64(shipped)/1e6)
	rounded := map[string]int64{}
	var sum, others int64
	for name, n := range sizes {
		sum += n
		if n < unit {
			others += n
			continue
		}
		rounded[name] = (n + unit/2) / unit
	}
	for _, name := range slices.SortedFunc(maps.Keys(rounded), func(a, b string) int {
		return cmp.Or(cmp.Compare(rounded[b], rounded[a]), strings.Compare(a, b))
	}) {
		fmt.Fprintf(&b, "| %s | %.1f |\n", name, float64(rounded[name])/10)
	}
	fmt.Fprintf(&b, "| modules of less than 0.1 MB each | %.1f |\n", float64(others)/1e6)
	fmt.Fprintf(&b, "| gaps, relocations, headers | %.1f |\n", float64(shipped-sum)/1e6)
	return b.Bytes()
}
