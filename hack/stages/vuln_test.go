package main

import (
	"slices"
	"strings"
	"testing"
)

func TestUnreached(t *testing.T) {
	for _, c := range []struct {
		name, said string
		want       bool
	}{
		{"no network", `govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": dial tcp: lookup vuln.go.dev: no such host`, true},
		{"a slow network", `govulncheck: Get "https://vuln.go.dev/index/db.json.gz": net/http: TLS handshake timeout`, true},
		{"a gateway", "govulncheck: HTTP GET https://vuln.go.dev/index/db.json.gz returned unexpected status: 502 Bad Gateway", true},
		{"does not compile", "govulncheck: loading packages: x.go:1:1: expected 'package'", false},
	} {
		if got := unreached(c.said); got != c.want {
			t.Errorf("%s: unreached = %t, want %t", c.name, got, c.want)
		}
	}
}

func TestFindings(t *testing.T) {
	const output = `{"config":{"scanner_name":"govulncheck"}}
{"osv":{"id":"GO-1","summary":"a panic after dial tcp"}}
{"osv":{"id":"GO-2","summary":"a slow parser"}}
{"osv":{"id":"GO-3","summary":"in Go itself"}}
{"finding":{"osv":"GO-1","fixed_version":"v1.1.0","trace":[{"module":"example.com/a","version":"v1.0.0"}]}}
{"finding":{"osv":"GO-1","fixed_version":"v1.1.0","trace":[{"module":"example.com/a","version":"v1.0.0","package":"example.com/a","function":"F"}]}}
{"finding":{"osv":"GO-2","trace":[{"module":"example.com/b","version":"v2.0.0","package":"example.com/b"}]}}
{"finding":{"osv":"GO-3","trace":[{"module":"stdlib","version":"v1.26.0"}]}}
`
	const called, required = "GO-1 in example.com/a v1.0.0, fixed in v1.1.0: a panic after dial tcp", "GO-2 in example.com/b v2.0.0, no fix is known: a slow parser"
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
