package main

import (
	"bytes"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestCatalogHasEveryVersion(t *testing.T) {
	protos, err := filepath.Glob("../../client/api/*/*/api.proto")
	if err != nil || len(protos) == 0 {
		t.Fatalf("no .proto files found: %v", err)
	}
	var want []string
	for _, p := range protos {
		dir := filepath.Dir(p)
		want = append(want, filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir))
	}
	var got []string
	for _, a := range catalog() {
		got = append(got, a.String())
		if a.service.Methods().Len() == 0 {
			t.Errorf("%s has no methods", a)
		}
	}
	if len(got) != len(want) {
		t.Errorf("catalog has %d versions, want %d", len(got), len(want))
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%s is not in the catalog", w)
		}
	}
}

func TestMethodsHaveGoMessages(t *testing.T) {
	for _, a := range catalog() {
		for i := range a.service.Methods().Len() {
			m := a.service.Methods().Get(i)
			if _, err := newMessage(m.Input()); err != nil {
				t.Errorf("%s %s: %v", a, m.Name(), err)
			}
			if _, err := newMessage(m.Output()); err != nil {
				t.Errorf("%s %s: %v", a, m.Name(), err)
			}
		}
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"ListDiskIDs", "ListDiskLocations", "Rescan"}
	for word, want := range map[string]string{
		"ListDiskIds": `did you mean "ListDiskIDs"?`,
		"rescan":      `did you mean "Rescan"?`,
		"Recsan":      `did you mean "Rescan"?`,
		"Format":      "choose one of: ListDiskIDs, ListDiskLocations, Rescan",
	} {
		if got := didYouMean(word, known); got != want {
			t.Errorf("didYouMean(%q) = %q, want %q", word, got, want)
		}
	}
	if got := didYouMean("x", nil); got != "" {
		t.Errorf("didYouMean with nothing known = %q, want nothing", got)
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1 << 30: "1 GiB", 3 << 40: "3 TiB", 1<<30 - 1<<20: "1023 MiB", 1<<30 + 1<<29: "1.5 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Setenv("CSI_PROXY_DIR", t.TempDir()) // no server
	if runtime.GOOS == "windows" {
		t.Skip("a CSI Proxy may be running on this machine: run it on Linux, where the test has its own sockets")
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"versions"}, exitFailure},
		{[]string{"help"}, exitOK},
		{[]string{"disk", "list"}, exitFailure},
		{[]string{"call", "disk/v1", "Rescan"}, exitFailure},
		{[]string{"node", "Show"}, exitFailure},
		{[]string{"call", "disk/v9", "Rescan"}, exitUsage},
		{[]string{"call", "disk/v1", "Rescan", "{"}, exitUsage},
		{[]string{"--bogus"}, exitUsage},
		{[]string{"bogus"}, exitUsage},
		{[]string{"disk"}, exitFailure},
		{[]string{"node"}, exitUsage},
		{[]string{"node", "DetachDisk", "disk_number=x"}, exitUsage},
	} {
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), c.args, strings.NewReader(""), &stdout, &stderr); got != c.want {
			t.Errorf("run(%q) = %d, want %d\n%s", c.args, got, c.want, &stderr)
		}
	}
}
