package main

import (
	"slices"
	"strings"
	"testing"
)

func TestNoDatabase(t *testing.T) {
	for _, c := range []struct {
		name, said string
		want       bool
	}{
		{"no network", `govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": dial tcp: lookup vuln.go.dev: no such host`, true},
		{"a slow network", `govulncheck: Get "https://vuln.go.dev/index/db.json.gz": net/http: TLS handshake timeout`, true},
		{"a gateway", "govulncheck: HTTP GET https://vuln.go.dev/index/db.json.gz returned unexpected status: 502 Bad Gateway", true},
		{"does not compile", "govulncheck: loading packages: x.go:1:1: expected 'package'", false},
	} {
		if got := noDatabase(c.said); got != c.want {
			t.Errorf("%s: noDatabase = %t, want %t", c.name, got, c.want)
		}
	}
}

func TestFindings(t *testing.T) {
	const output = `{"config":{"scanner_name":"govulncheck"}}
{"osv":{"id":"GO-1","summary":"a panic after dial tcp"}}
{"finding":{"osv":"GO-1","fixed_version":"v1.1.0","trace":[{"module":"example.com/a","version":"v1.0.0"}]}}
{"finding":{"osv":"GO-1","fixed_version":"v1.1.0","trace":[{"module":"example.com/a","version":"v1.0.0","package":"example.com/a","function":"F"}]}}
{"finding":{"osv":"GO-2","trace":[{"module":"example.com/b","version":"v2.0.0","package":"example.com/b"}]}}
{"finding":{"osv":"GO-3","trace":[{"module":"stdlib","version":"v1.26.0"}]}}
`
	const called, required = `https://pkg.go.dev/vuln/GO-1 in example.com/a v1.0.0, fixed in "v1.1.0"`, `https://pkg.go.dev/vuln/GO-2 in example.com/b v2.0.0, fixed in ""`
	for _, c := range []struct {
		name, output string
		strict       bool
		want         []string
	}{
		{"only what is called", output, false, []string{called}},
		{"all that is required", output, true, []string{called, required}},
		{"nothing found", `{"config":{}}`, true, nil},
	} {
		if got, err := findings(strings.NewReader(c.output), c.strict); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: findings = %q, %v, want %q", c.name, got, err, c.want)
		}
	}
	for name, output := range map[string]string{"empty": "", "no JSON": "No vulnerabilities found."} {
		if got, err := findings(strings.NewReader(output), true); err == nil {
			t.Errorf("%s: findings = %q, want an error", name, got)
		}
	}
}

// What only Windows compiles is checked for Windows; what is the same there is not.
func TestWhatIsForWindows(t *testing.T) {
	t.Chdir("../..")
	packages, err := forWindows(t.Context(), modules)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"./internal/win32/native":     true,  // only Windows has it
		"./client/pipe":               true,  // has files for each
		"./test/wine":                 true,  // has tests for Windows
		"./pkg/hosterr":               false, // is the same
		"./" + exampleDir + "/driver": false, // is of another module
	} {
		if got := slices.Contains(packages, name); got != want {
			t.Errorf("%s differs: %t, want %t", name, got, want)
		}
	}
}

func TestUnreached(t *testing.T) {
	const module = "github.com/kubernetes-csi/csi-proxy/"
	const both = "client/client.go " + module + "client/internal/b Dead\nclient/client.go " + module + "client/pipe Dial\npkg/a.go " + module + "v2/pkg/disk New\n" +
		"test/a.go " + module + "v2/test/operations run\nclient/client.go " + module + "v2/internal/node Native\n"
	found := map[string][]string{}
	t.Chdir("../..")
	for system, lines := range map[string]string{
		"linux":   both + "client/client.go " + module + "v2/internal/a OnWindows\nclient/pipe/dial_other.go " + module + "v2/internal/a DeadOffWindows",
		"windows": both + "client/client.go " + module + "v2/internal/a OnLinux\nclient/pipe/dial_windows.go " + module + "v2/internal/a DeadOnWindows",
	} {
		found[system] = strings.Split(lines, "\n")
	}
	got := strings.Join(unreached(found, isBuilt), "\n")
	for name, want := range map[string]bool{"b.Dead ": true, "a.DeadOffWindows": true, "a.DeadOnWindows": true, "a.OnWindows": false, "a.OnLinux": false, "Dial": false, "New": false, "run": false, "Native": false} {
		if strings.Contains(got, name) != want {
			t.Errorf("%s is dead: %t, want %t:\n%s", name, !want, want, got)
		}
	}
}
