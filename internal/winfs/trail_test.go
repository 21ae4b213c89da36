package winfs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
)

// Follow names every link on the way, also those whose target is gone.
func TestFollow(t *testing.T) {
	const gone = `\\?\Volume{00000000-0000-4000-8000-000000000000}\`
	w := newWorld(t)
	_, bare, _ := w.volumes()
	w.dir(pods + `\mount`)
	w.mount(pods+`\mount`, bare)
	w.plant(pods+`\link`, symlink(pods+`\mount`), true)
	w.plant(pods+`\near`, relative(`link\sub`), true)
	w.plant(pods+`\lost`, junction(strings.TrimPrefix(gone, `\\?\`)), true)
	w.plant(pods+`\share`, symlink(`UNC\server\share\dir\`), true)
	w.plant(pods+`\self`, symlink(pods+`\self`), true)
	for _, c := range []struct {
		path, at string
		missing  []string
		hops     []string // path > target
		volumes  []string
		failed   bool
	}{
		{path: outside + `\deep`, at: outside + `\deep`},
		{path: pods + `\no\where`, at: pods, missing: []string{"no", "where"}},
		{path: pods + `\link`, at: bare, hops: []string{pods + `\link > ` + pods + `\mount`, pods + `\mount > ` + bare}, volumes: []string{"", bare}},
		{path: pods + `\near\x`, at: bare, missing: []string{"sub", "x"},
			hops:    []string{pods + `\near > ` + pods + `\link\sub`, pods + `\link > ` + pods + `\mount`, pods + `\mount > ` + bare},
			volumes: []string{"", "", bare}},
		{path: pods + `\lost\x`, at: gone + "x", hops: []string{pods + `\lost > ` + gone}, volumes: []string{gone}, failed: true},
		{path: pods + `\share\x`, at: `\\server\share\dir\x`, hops: []string{pods + `\share > \\server\share\dir`}, volumes: []string{""}},
	} {
		w.hook = func(call *win32.Call) error {
			if strings.Contains(call.Path, "server") {
				t.Errorf("%s: %s contacts the server", c.path, call.Name)
			}
			return call.Do()
		}
		got, err := winfs.Follow(t.Context(), w.Node, c.path)
		if err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
		var hops, volumes []string
		for _, h := range got.Hops {
			hops, volumes = append(hops, h.Path+" > "+h.Target), append(volumes, h.Volume)
		}
		if got.At.String() != c.at || !slices.Equal(got.Missing, c.missing) || (got.Err != nil) != c.failed {
			t.Errorf("%s: ends at %s without %q: %v; want %s without %q", c.path, got.At, got.Missing, got.Err, c.at, c.missing)
		}
		if !slices.Equal(hops, c.hops) || !slices.Equal(volumes, c.volumes) {
			t.Errorf("%s: %q to volumes %q, want %q to %q", c.path, hops, volumes, c.hops, c.volumes)
		}
	}
	if got, err := winfs.Follow(t.Context(), w.Node, pods+`\self`); err != nil || !errors.Is(got.Err, win32.ERROR_CANT_RESOLVE_FILENAME) {
		t.Errorf("a loop: %+v, %v, want ERROR_CANT_RESOLVE_FILENAME", got, err)
	}
	if open := w.em.OpenHandles(); len(open) > 0 {
		t.Errorf("open handles: %q", open)
	}
}
