package main

import (
	"maps"
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
