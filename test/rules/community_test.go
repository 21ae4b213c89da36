package rules_test

import (
	"path"
	"path/filepath"
	"slices"
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

// GitHub ignores a template or configuration that it cannot parse, without an error.
func TestGitHubFilesParse(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "ISSUE_TEMPLATE", "*.yml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("issue templates: %q, %v", files, err)
	}
	kinds := []string{"markdown", "textarea", "input", "dropdown", "checkboxes"}
	for _, file := range files {
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label, Value string }
			}
		}
		name := ".github/ISSUE_TEMPLATE/" + filepath.Base(file)
		if err := yaml.Unmarshal([]byte(read(t, name)), &form); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if filepath.Base(file) == "config.yml" {
			continue
		}
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s: a form needs a name, a description and a body", name)
		}
		for i, field := range form.Body {
			text := field.Attributes.Label
			if field.Type == "markdown" {
				text = field.Attributes.Value
			}
			if !slices.Contains(kinds, field.Type) || text == "" || field.ID == "" && field.Type != "markdown" {
				t.Errorf("%s: field %d needs a known type, an id and a label (markdown: a value): %+v", name, i, field)
			}
		}
	}
}

// Programs are in four directories: cmd has those that users install, hack has those
// that build, check and document the project, examples has those that users copy, and lab
// has those of the lab. test/cluster has its command, and builds programs of others.
func TestProgramsAreInTheirDirectories(t *testing.T) {
	programs := 0
	for _, f := range sources(t) {
		if f.ast.Name.Name != "main" {
			continue
		}
		programs++
		if !under(path.Dir(f.path), "cmd", "hack", "examples", "lab", "test/cluster") {
			t.Errorf("%s: move the program to cmd, to hack if it is a build tool, to examples or to lab", f.path)
		}
	}
	if programs == 0 {
		t.Error("found no program")
	}
}
