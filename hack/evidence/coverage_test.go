package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

func TestEveryMethodOfEveryVersionIsCalled(t *testing.T) {
	c, err := readCoverage(root)
	if err != nil {
		t.Fatal(err)
	}
	versions, methods := 0, 0
	for _, g := range c.groups {
		versions += len(g.versions)
		methods += len(g.has)
	}
	text, err := os.ReadFile(filepath.Join(root, "client/api/testdata/wire.json"))
	if err != nil {
		t.Fatal(err)
	}
	var published struct {
		Groups []struct{ Versions []struct{ RPCs []any } }
	}
	if err := json.Unmarshal(text, &published); err != nil {
		t.Fatal(err)
	}
	wantVersions, wantMethods := 0, 0
	for _, g := range published.Groups {
		wantVersions += len(g.Versions)
		for _, v := range g.Versions {
			wantMethods += len(v.RPCs)
		}
	}
	if len(c.groups) != len(published.Groups) || versions != wantVersions || methods != wantMethods || methods == 0 {
		t.Errorf("the page has %d groups, %d versions and %d methods, want %d, %d and %d, as published", len(c.groups), versions, methods, len(published.Groups), wantVersions, wantMethods)
	}
	for _, hole := range c.holes() {
		t.Error(hole)
	}
}

func TestHolesAreFound(t *testing.T) {
	c, err := readCoverage(root)
	if err != nil {
		t.Fatal(err)
	}
	delete(c.answered, method{"disk/v1beta2", "GetAttachState"})
	delete(c.modules, "volume/v2alpha1")
	if got := strings.Join(c.holes(), "; "); got != "disk/v1beta2 GetAttachState is not called; volume/v2alpha1 is in no published module" {
		t.Errorf("holes: %s", got)
	}
}

func TestEveryCallIsOfAPublishedMethod(t *testing.T) {
	c, err := readCoverage(root)
	if err != nil {
		t.Fatal(err)
	}
	exists := map[method]bool{}
	for _, g := range c.groups {
		for m := range g.has {
			exists[m] = true
		}
	}
	for _, s := range c.sections {
		for _, api := range s.APIs {
			for _, call := range s.Calls(api) {
				if !exists[method{call.API, call.Method}] {
					t.Errorf("%s: section %q calls %s %s, which was not published", s.File, s.Title, call.API, call.Method)
				}
			}
		}
	}
}

func TestCoveragePageIsUpToDate(t *testing.T) {
	c, err := readCoverage(root)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(root, coverageFile))
	if err != nil || string(have) != c.page() {
		t.Errorf("%s is out of date (%v); run make generate", coverageFile, err)
	}
}

func TestWrongUsage(t *testing.T) {
	var stderr bytes.Buffer
	if code := run([]string{"-rot"}, &stderr); code != 2 || !strings.Contains(stderr.String(), "-rot") {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
	stderr.Reset()
	if code := run([]string{"-root", t.TempDir()}, &stderr); code != 1 || !strings.Contains(stderr.String(), "wire.json") {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
}

// holes returns the methods that no published client calls with success, and the
// versions that no published module has.
func (c *coverage) holes() []string {
	var holes []string
	for _, g := range c.groups {
		for _, v := range g.versions {
			api := g.name + "/" + v
			if len(c.modules[api]) == 0 {
				holes = append(holes, api+" is in no published module")
			}
			for _, name := range g.methods {
				if m := (method{api, name}); g.has[m] && len(c.answered[m]) == 0 {
					holes = append(holes, api+" "+name+" is not called")
				}
			}
		}
	}
	return holes
}
