package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// vulnChecks are the modules that govulncheck scans, with the versions of their own
// go.mod, each for the systems that its code is for. The modules of the published
// clients are left out: they link old versions on purpose, and never ship.
var vulnChecks = []struct {
	module  string
	systems []string
	strict  bool // drivers require it: no known vulnerability at all, called or not
}{
	{".", []string{"windows", "linux"}, true},
	{"client", []string{"windows"}, true},
	{"cmd", []string{"windows", "linux"}, false},
	{"hack", []string{"linux"}, false},
	{"test", []string{"linux"}, false},
	{mountDir, []string{"windows"}, true},
	{exampleDir, []string{"windows"}, false},
	{labDir, []string{"linux", "windows"}, false},
	{clusterDir, []string{"linux"}, false},
	{releaseDir, []string{"linux"}, false},
}

// govulncheck scans each module on its own: in the workspace all of them would have
// the newest versions that any of them requires. Modules are skipped from when the database
// cannot be reached: it says so only after it has loaded a module.
func govulncheck(ctx context.Context, r *report) error {
	var errs []error
	reached := true
	for _, check := range vulnChecks {
		for _, system := range check.systems {
			name := fmt.Sprintf("module %s for %s", check.module, system)
			env := []string{"GOWORK=off", "GOOS=" + system, "CGO_ENABLED=0"}
			packages := []string{"./..."}
			switch check.module {
			case releaseDir:
				packages = append(packages, "tool")
			case clusterDir:
				packages[0] = deployTests // the others are Kubernetes' own programs
			}
			c := r.command(ctx, check.module, env, toolPath("govulncheck"), append([]string{"-format", "json"}, packages...)...)
			var out, said bytes.Buffer
			c.Stdout, c.Stderr = &out, &said
			var err error
			if reached {
				err = c.Run()
				reached = err == nil || !unreached(said.String())
			}
			if !reached {
				r.skip(name, "the vulnerability database cannot be reached from this machine")
				continue
			}
			if err != nil {
				r.logf("%s", said.String())
				errs = append(errs, fmt.Errorf("govulncheck of %s: %w", name, err))
				continue
			}
			found, err := findings(&out, check.strict)
			if err != nil {
				errs = append(errs, fmt.Errorf("govulncheck of %s: %w", name, err))
				continue
			}
			for _, f := range found {
				errs = append(errs, fmt.Errorf("%s: %s", name, f))
			}
			if len(found) == 0 {
				r.pass()
			}
		}
	}
	return errors.Join(errs...)
}

// unreached reports whether govulncheck failed because it could not read its database.
func unreached(said string) bool {
	return slices.ContainsFunc([]string{"vuln.go.dev", "dial tcp", "fetching vulnerabilities"}, func(s string) bool { return strings.Contains(said, s) })
}

// findings returns the vulnerabilities in govulncheck's JSON output, one line each:
// those that the module's code calls, and with strict also those in code of other
// modules that it does not call.
func findings(output io.Reader, strict bool) ([]string, error) {
	// A message has one of these fields. A vulnerability is reported up to three times:
	// for the module that has it, for its package, and for each function that is called.
	type message struct {
		Config  *struct{}
		OSV     *struct{ ID, Summary string }
		Finding *struct {
			OSV          string
			FixedVersion string `json:"fixed_version"`
			Trace        []struct{ Module, Version, Function string }
		}
	}
	summaries, lines := map[string]string{}, map[string]string{}
	scanned := false
	for d := json.NewDecoder(output); ; {
		var m message
		switch err := d.Decode(&m); {
		case err == io.EOF && !scanned:
			return nil, errors.New("it printed no configuration: its output was not understood")
		case err == io.EOF:
			var found []string
			for id, line := range lines {
				found = append(found, line+": "+summaries[id])
			}
			slices.Sort(found)
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("decode its output: %w", err)
		}
		scanned = scanned || m.Config != nil
		if m.OSV != nil {
			summaries[m.OSV.ID] = m.OSV.Summary
		}
		f := m.Finding
		if f == nil || len(f.Trace) == 0 {
			continue
		}
		at := f.Trace[0]
		if at.Function == "" && (!strict || at.Module == "stdlib") {
			continue
		}
		fixed := "no fix is known"
		if f.FixedVersion != "" {
			fixed = "fixed in " + f.FixedVersion
		}
		lines[f.OSV] = fmt.Sprintf("%s in %s %s, %s", f.OSV, at.Module, at.Version, fixed)
	}
}
