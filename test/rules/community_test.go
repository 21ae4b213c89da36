package rules_test

import (
	"path"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Dependabot watches each module, except those that link an old version on purpose.
func TestDependabotWatchesEveryModule(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directory   string
			Directories []string
			Limit       *int `json:"open-pull-requests-limit"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".github/dependabot.yml")), &config); err != nil {
		t.Fatal(err)
	}
	watched, forSecurity := map[string]bool{}, map[string]bool{}
	actions := false
	for _, u := range config.Updates {
		actions = actions || u.Ecosystem == "github-actions" && u.Directory == "/"
		if u.Ecosystem != "gomod" {
			continue
		}
		for _, dir := range u.Directories {
			watched[dir] = true
			forSecurity[dir] = u.Limit != nil && *u.Limit == 0
		}
	}
	if !actions {
		t.Error("dependabot.yml does not watch the actions of the workflows")
	}
	modules := 0
	for _, f := range tracked(t) {
		if path.Base(f.path) != "go.mod" || strings.HasPrefix(f.path, "test/published/") {
			continue
		}
		modules++
		if dir := path.Join("/", path.Dir(f.path)); !watched[dir] {
			t.Errorf("dependabot.yml does not watch module %s", dir)
		}
	}
	if modules != len(watched) {
		t.Errorf("dependabot.yml watches %d modules, the repository has %d", len(watched), modules)
	}
	for _, dir := range []string{"/", "/client"} {
		if !forSecurity[dir] {
			t.Errorf("module %s: Dependabot would raise versions that drivers inherit; allow security updates only, with open-pull-requests-limit: 0", dir)
		}
	}
}
