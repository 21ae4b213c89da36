package docs

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// klogFlags are the flags of the log library. The page mentions them without
// describing each.
var klogFlags = strings.Fields("add_dir_header alsologtostderr alsologtostderrthreshold legacy_stderr_threshold_behavior log_backtrace_at log_dir log_file log_file_max_size logtostderr one_output skip_headers skip_log_headers stderrthreshold v vmodule")

var (
	flagRow  = regexp.MustCompile("(?m)^\\| `-([a-z0-9-]+)` \\| ([^|]*) \\|")
	flagHelp = regexp.MustCompile(`(?m)^  -(\S+)(?: (\S+))?\n((?:    \t.*\n)+)|^  -(\S)(?: (\S+))?\t(.*\n)`)
	inHelp   = regexp.MustCompile(`\(default (.*)\)\s*$`)
)

// The tables of docs/run/reference.md have every flag of csi-proxy and csi-proxy-sim
// with the default that -h shows, except for the flags of the log library.
func TestFlagDefaultsMatchHelp(t *testing.T) {
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	var help []byte
	for _, program := range []string{"csi-proxy", "csi-proxy-sim"} {
		out, err := exec.Command(filepath.Join(bin, program), "-h").CombinedOutput()
		if err != nil {
			t.Fatalf("%s -h: %v\n%s", program, err, out)
		}
		help = append(help, out...)
	}
	real := map[string]string{} // the defaults in the help, or ""
	for _, m := range flagHelp.FindAllStringSubmatch(string(help), -1) {
		name, text := m[1]+m[4], m[3]+m[6]
		real[name] = ""
		if d := inHelp.FindStringSubmatch(text); d != nil {
			real[name] = strings.ReplaceAll(strings.Trim(d[1], `"`), `\\`, `\`)
		}
	}
	all := pages(t)
	text := all[slices.IndexFunc(all, func(p page) bool { return p.name == "docs/run/reference.md" })].text
	documented := map[string]string{}
	for _, m := range flagRow.FindAllStringSubmatch(text, -1) {
		documented[m[1]] = strings.ReplaceAll(m[2], "`", "")
	}
	if len(documented) < 10 || len(real) < len(documented) {
		t.Fatalf("found %d flags in the table and %d in the help: the search is broken\n%s", len(documented), len(real), help)
	}
	for name, want := range real {
		got, ok := documented[name]
		switch {
		case slices.Contains(klogFlags, name):
		case !ok:
			t.Errorf("docs/run/reference.md does not have the flag -%s", name)
		case want == "" && !regexp.MustCompile(`^(none|empty|false|0|MSiSCSI only)\b`).MatchString(got):
			t.Errorf("docs/run/reference.md has %q as the default of -%s, which has none", got, name)
		case !strings.Contains(got, want):
			t.Errorf("docs/run/reference.md has %q as the default of -%s, -h shows %q", got, name, want)
		}
	}
	for name := range documented {
		if _, ok := real[name]; !ok {
			t.Errorf("docs/run/reference.md has the flag -%s, which -h does not show", name)
		}
	}
}
