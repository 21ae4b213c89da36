package buildlist

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What docs/drivers/modules.md says after the lines in go.mod: the mistake, its message, and the
// remedy, for a driver that was built with the published modules.
func TestAfterTheReplaceLine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	build := []string{"list", "-deps", "."} // finds all packages as a build does, without compiling
	published := func(t *testing.T) *driver {
		d := newDriver(t, "client", map[string]string{clientModule: "v1.3.0"}, nil)
		d.run("mod", "tidy")
		d.env = append(d.env, "GOFLAGS=-trimpath") // as in a driver's own build
		return d
	}
	ours := "-replace=" + clientModule + "=" + absolute(t, "client")
	fails := func(t *testing.T, d *driver, want string, args ...string) {
		t.Helper()
		out, err := d.try(args...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("go %s: %q, %v, want an error with %q", strings.Join(args, " "), out, err, want)
		}
	}

	t.Run("vendored", func(t *testing.T) {
		d := published(t)
		d.run("mod", "vendor")
		d.run(build...)
		d.run("mod", "edit", ours)
		fails(t, d, "go: inconsistent vendoring", build...)
		d.run("mod", "tidy")
		d.run("mod", "vendor")
		d.run(build...)
		if out := d.run("list", "-deps", "-f", "{{with .Module}}{{.Replace}}{{end}}", clientModule+"/transport"); !strings.Contains(out, absolute(t, "client")) {
			t.Errorf("the vendored client is not ours: %q", out)
		}
	})
	t.Run("not tidied", func(t *testing.T) {
		d := published(t)
		d.run("mod", "edit", ours)
		fails(t, d, "updates to go.mod needed", build...)
		d.run("mod", "tidy")
		d.run(build...)
	})
	t.Run("library, not tidied", func(t *testing.T) {
		d := newDriver(t, "library", map[string]string{libraryModule: "v2.0.0-alpha.2"}, map[string]string{libraryModule: "."})
		d.env = append(d.env, "GOFLAGS=-trimpath")
		fails(t, d, "missing go.sum entry", build...)
		d.run("mod", "tidy")
		d.run(build...)
	})
	t.Run("replaced twice", func(t *testing.T) {
		d := newDriver(t, "library", map[string]string{libraryModule: "v2.0.0-alpha.2"}, map[string]string{libraryModule: "."})
		mod, err := os.ReadFile(filepath.Join(d.dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		d.write("go.mod", string(mod)+"\nreplace "+libraryModule+" => "+libraryModule+" v2.0.0-alpha.1\n")
		fails(t, d, "conflicting replacements", build...)
		d.write("go.mod", string(mod))
		d.run("mod", "tidy")
		d.run(build...)
	})
}
