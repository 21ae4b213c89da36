package winpath_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/winpath"
)

// On Windows the results are those of path/filepath, for every volume with up to four of
// these pieces behind it. Left out is what has no meaning: a name that touches a share, and
// two separators that no server follows.
func TestSameAsFilepath(t *testing.T) {
	pieces := []string{`\`, `/`, `a`, `.`, `..`, `b c`}
	rests, last := []string{""}, []string{""}
	for range 4 {
		var next []string
		for _, r := range last {
			for _, piece := range pieces {
				next = append(next, r+piece)
			}
		}
		rests, last = append(rests, next...), next
	}
	var paths []string
	for _, volume := range []string{"", `C:`, `d:`, `\\server\share`, `//server/share`, `\\?\C:`, `\\?\Volume{x}`} {
		for _, r := range rests {
			rooted := strings.HasPrefix(filepath.ToSlash(r), "/")
			if len(volume) > 2 && r != "" && !rooted || strings.HasPrefix(filepath.ToSlash(r), "//") {
				continue
			}
			paths = append(paths, volume+r)
		}
	}
	if len(paths) < 3000 {
		t.Fatalf("only %d paths", len(paths))
	}
	failed := 0
	check := func(what string, got, want any) {
		if got != want && failed < 20 {
			failed++
			t.Errorf("%s = %q, path/filepath returns %q", what, got, want)
		}
	}
	for _, p := range paths {
		check("VolumeName of "+p, winpath.VolumeName(p), filepath.VolumeName(p))
		check("Clean of "+p, winpath.Clean(p), filepath.Clean(p))
		check("Dir of "+p, winpath.Dir(p), filepath.Dir(p))
		check("Base of "+p, winpath.Base(p), filepath.Base(p))
		if p != `\\?\C:` { // path/filepath returns \\?\C:x, which Windows cannot resolve
			check("Join of "+p+" and x", winpath.Join(p, `x`), filepath.Join(p, `x`))
		}
		if winpath.IsAbs(p) != filepath.IsAbs(p) {
			check("IsAbs of "+p, winpath.IsAbs(p), filepath.IsAbs(p))
		}
	}
}
