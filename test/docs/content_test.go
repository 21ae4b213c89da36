package docs

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
)

// The page names each kind of content that is never overwritten.
func TestPageNamesEveryKindOfContent(t *testing.T) {
	all := pages(t)
	i := slices.IndexFunc(all, func(p page) bool { return p.name == "docs/run/content.md" })
	if i < 0 {
		t.Fatal("docs/run/content.md is missing")
	}
	listed := strings.Split(strings.ReplaceAll(all[i].text, "\n", " "), ", ")
	for _, k := range storage.Kinds() {
		if !slices.ContainsFunc(listed, func(name string) bool {
			return name == k.Name || strings.HasPrefix(name, k.Name+".") || strings.HasSuffix(name, " "+k.Name)
		}) {
			t.Errorf("docs/run/content.md does not name %s", k.Name)
		}
	}
}
