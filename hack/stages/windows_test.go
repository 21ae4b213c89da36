package main

import (
	"slices"
	"testing"
)

// What only Windows compiles is checked for Windows; what is the same there is not.
func TestWhatDiffersOnWindows(t *testing.T) {
	t.Chdir("../..")
	differ, err := differOnWindows(t.Context(), ".", allOf(modules[:]))
	if err != nil {
		t.Fatal(err)
	}
	const root = "github.com/kubernetes-csi/csi-proxy/"
	for name, want := range map[string]bool{
		root + "v2/internal/win32/native": true,  // only Windows has it
		root + "client/pipe":              true,  // has files for each
		root + "v2/test/wine":             true,  // has tests for Windows
		root + "v2/pkg/hosterr":           false, // is the same
	} {
		if got := slices.Contains(differ, name); got != want {
			t.Errorf("%s differs: %t, want %t", name, got, want)
		}
	}
}
