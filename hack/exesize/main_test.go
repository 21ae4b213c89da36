package main

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestOwner(t *testing.T) {
	modules := []string{"example.com/a", "example.com/a/b", "gopkg.in/yaml.v3", "k8s.io/klog/v2"}
	for symbol, want := range map[string]string{
		"example.com/a.F":                  "example.com/a",
		"example.com/a/internal/x.(*T).F":  "example.com/a",
		"example.com/a/b.F":                "example.com/a/b",
		"example.com/a/bc.F":               "example.com/a",
		"example.com/abc.F":                standard,
		"gopkg.in/yaml%2ev3.Marshal":       "gopkg.in/yaml.v3",
		"k8s.io/klog/v2.Info":              "k8s.io/klog/v2",
		"net/http.Get":                     standard,
		"runtime.pclntab":                  traces,
		"runtime.mallocgc":                 standard,
		"type:*example.com/a.T":            types,
		"go:itab.*os.File,io.Reader":       types,
		"go:string.*":                      strs,
		"slices.SortFunc[go.shape.string]": standard,
	} {
		if got := owner(symbol, modules); got != want {
			t.Errorf("owner(%q) = %q, want %q", symbol, got, want)
		}
	}
}

// Each byte is counted once, and those that are in memory only are not.
func TestAddUp(t *testing.T) {
	const nm = `
  1000 T runtime.text
  1000 T example.com/a.F
  1010 T fmt.Println
  1018 R runtime.types
  1018 R type:int
  2000 D example.com/a.data
  3000 B example.com/a.memory
       U undefined
`
	got, err := addUp(strings.NewReader(nm), [][2]uint64{{0x1000, 0x1020}, {0x2000, 0x2100}}, []string{"example.com/a"})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]int64{"example.com/a": 0x10 + 0x100, standard: 8, types: 8}; !maps.Equal(got, want) {
		t.Errorf("addUp = %v, want %v", got, want)
	}
}

// Small changes of the code leave the page as it is.
func TestTableRounds(t *testing.T) {
	sizes := map[string]int64{"example.com/a": 150_000, "example.com/b": 149_999, "example.com/c": 99_999, standard: 3_049_999}
	text := string(table(sizes, 4_000_000, "go1.26.0"))
	for _, want := range []string{"built by go1.26.0 as it ships: 4.0 MB", "| " + standard + " | 3.0 |\n| example.com/a | 0.2 |\n| example.com/b | 0.1 |\n",
		"| modules of less than 0.1 MB each | 0.1 |", "| gaps, relocations, headers | 0.6 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not contain %q:\n%s", want, text)
		}
	}
}

// The page is about the program as it ships.
func TestTagsAreThoseOfTheMakefile(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^TAGS\s*:= (.*)$`).FindSubmatch(text); m == nil || string(m[1]) != tags {
		t.Errorf("the Makefile builds with tags %q, exesize with %q", m, tags)
	}
}

func TestWrongUsage(t *testing.T) {
	var stderr strings.Builder
	if code := run([]string{"-chekc"}, &stderr); code != 2 {
		t.Errorf("unknown flag: exit code %d, want 2", code)
	}
	if code := run([]string{"-root", t.TempDir()}, &stderr); code != 1 || !strings.Contains(stderr.String(), program) {
		t.Errorf("no program: exit code %d, %q, want 1 and an error that names it", code, stderr.String())
	}
}
