// Command exesize says what takes the room in csi-proxy.exe: it builds it once more,
// as it ships but with symbols, and adds up the symbols by module. Its table is
// docs/evidence/size.md; `make size` writes it.
//
// A number is what a module's code and data take in the file. What Go's linker makes
// of all of them together, such as the tables for stack traces and the types, is
// counted for itself.
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
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("exesize", flag.ContinueOnError)
	f.SetOutput(stderr)
	arch := f.String("arch", "amd64", "GOARCH of the program")
	pkg := f.String("package", "./cmd/csi-proxy", "the program")
	tags := f.String("tags", "", "build tags, as the program ships")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if err := report(stdout, *pkg, *arch, *tags); err != nil {
		fmt.Fprintf(stderr, "exesize: %v\n", err)
		return 1
	}
	return 0
}

func report(w io.Writer, pkg, arch, tags string) error {
	dir, err := os.MkdirTemp("", "exesize")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	build := func(name, ldflags string) (string, int64, error) {
		exe := filepath.Join(dir, name)
		c := exec.Command("go", "build", "-trimpath", "-tags", tags, "-ldflags", ldflags, "-o", exe, pkg)
		c.Env = append(os.Environ(), "GOOS=windows", "GOARCH="+arch, "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return "", 0, fmt.Errorf("%w\n%s", err, out)
		}
		info, err := os.Stat(exe)
		if err != nil {
			return "", 0, err
		}
		return exe, info.Size(), nil
	}
	_, shipped, err := build("shipped.exe", "-s -w")
	if err != nil {
		return err
	}
	exe, _, err := build("symbols.exe", "")
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		return err
	}
	modules := []string{info.Main.Path}
	for _, d := range info.Deps {
		modules = append(modules, d.Path)
	}
	symbols, err := exec.Command("go", "tool", "nm", exe).Output()
	if err != nil {
		return fmt.Errorf("go tool nm: %w", err)
	}
	inFile, err := extents(exe)
	if err != nil {
		return err
	}
	sizes, err := addUp(bytes.NewReader(symbols), inFile, modules)
	if err != nil {
		return err
	}
	table(w, sizes, shipped, arch, info.GoVersion)
	return nil
}

// extents are where the parts of a program that are in its file lie in memory.
func extents(exe string) ([][2]uint64, error) {
	f, err := pe.Open(exe)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		return nil, errors.New("no 64-bit program")
	}
	var all [][2]uint64
	for _, s := range f.Sections {
		begin := h.ImageBase + uint64(s.VirtualAddress)
		all = append(all, [2]uint64{begin, begin + uint64(min(s.Size, s.VirtualSize))})
	}
	return all, nil
}

// addUp gives every byte of the program's sections to the last symbol that begins
// at it or before it, and adds up by owner. nm says address, kind and name; symbols at
// one address are one, and what lies in memory only is not counted.
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
			return nil, fmt.Errorf("go tool nm said %q", lines.Text())
		}
		name := strings.Join(f[2:], " ")
		// The linker's marks (runtime.types) are where something with a name begins.
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

// What is not a module's.
const (
	standard = "Go's standard library and runtime"
	types    = "types and their names"
	traces   = "tables for stack traces (pclntab)"
	strs     = "constant strings and function values"
)

// owner is the module, or the part of Go, that a symbol belongs to.
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

// escapePath is a module's path as the linker writes it: dots of its last element
// are escaped.
func escapePath(m string) string {
	i := strings.LastIndexByte(m, '/') + 1
	return m[:i] + strings.ReplaceAll(m[i:], ".", "%2e")
}

func table(w io.Writer, sizes map[string]int64, shipped int64, arch, goVersion string) {
	var sum int64
	for _, n := range sizes {
		sum += n
	}
	fmt.Fprintf(w, "<!-- Written by make size. -->\n\n# What takes the room in csi-proxy.exe\n\n"+
		"windows/%s, built by %s as it ships: %.1f MB. The stage build of `make test` fails beyond 15 MB.\n\n"+
		"| | kB | |\n|---|--:|--:|\n", arch, goVersion, float64(shipped)/1e6)
	names := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), strings.Compare(a, b))
	})
	var rest int64
	for _, name := range names {
		n := sizes[name]
		if n < 10_000 {
			rest += n
			continue
		}
		fmt.Fprintf(w, "| %s | %d | %.1f %% |\n", name, n/1000, 100*float64(n)/float64(shipped))
	}
	fmt.Fprintf(w, "| modules of less than 10 kB each | %d | %.1f %% |\n", rest/1000, 100*float64(rest)/float64(shipped))
	fmt.Fprintf(w, "| gaps, relocations, headers | %d | %.1f %% |\n", (shipped-sum)/1000, 100*float64(shipped-sum)/float64(shipped))
}
