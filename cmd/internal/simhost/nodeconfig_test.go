package simhost

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNodeConfig(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "node.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	c, err := nodeConfig(write("disks:\n- size: 100GiB\n  content: system\n- size: 1GiB\n  serial: A\n  sectorSize: 4096\nformatDuration: 150ms\n"))
	if err != nil || len(c.Disks) != 2 || c.Disks[1].Size != 1<<30 || c.Disks[1].SectorSize != 4096 || c.FormatDuration == 0 {
		t.Errorf("nodeConfig = %+v, %v", c, err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"unknown field", "disks:\n- sise: 1GiB\n", `unknown field "sise"`},
		{"line of an unknown field", "# diks: []\ndisks: []\ndiks: []\n", `node.yaml: line 3: unknown field "diks"`},
		{"unknown field in a list", "disks:\n- size: 1GiB\n- sise: 1GiB\n", `node.yaml: line 3: `},
		{"unknown field in braces", "disks:\n- {size: 1GiB, 'sise': 1GiB}\n", `node.yaml: line 2: `},
		{"field at the wrong place", "size: 1GiB\ndisks: [{size: 1GiB}]\n", `node.yaml: line 1 or 2: `},
		{"line of invalid YAML", "disks:\n- size: 1GiB\n  size: 2GiB\n", `line 3`},
		{"a field given twice", "stateDir: a\nstateDir: b\n", "stateDir"},
		{"a bad size", "disks:\n- size: 1 elephant\n", "elephant"},
		{"invalid YAML", "disks: [", "node.yaml"},
	} {
		if _, err := nodeConfig(write(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "node.yaml") {
			t.Errorf("%s: %v, want an error with the file and %q", c.name, err, c.want)
		}
	}
	if _, err := nodeConfig(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v, want os.ErrNotExist", err)
	}
}
