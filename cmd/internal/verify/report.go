package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// verdict is the result of a test.
type verdict string

const (
	passed  verdict = "ok"
	failed  verdict = "failed"
	skipped verdict = "skipped"
)

// result is the result of a question, or of a case of the contract.
type result struct {
	Section string  `json:"section"`
	Name    string  `json:"name"`
	Verdict verdict `json:"verdict"`
	Answer  string  `json:"answer,omitempty"`
	Detail  string  `json:"detail,omitempty"` // why it failed or was skipped
}

func (r result) print(w io.Writer) {
	text := r.Answer
	if text == "" {
		text, _, _ = strings.Cut(r.Detail, "\n")
	}
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-7s  %s  %s", r.Verdict, r.Name, text), " "))
}

// report is what a run found out. It has no names and no secrets: see [redactor].
type report struct {
	Program  string    `json:"program"` // version
	Time     time.Time `json:"time"`    // when the run began
	Windows  string    `json:"windows"` // version, "simulated", or "Wine"
	Server   bool      `json:"server"`
	Arch     string    `json:"arch"`
	Settings bool      `json:"settings"` // with -machine-settings
	World    string    `json:"world,omitempty"`
	Results  []result  `json:"results"`

	redact *strings.Replacer
}

func newReport(version string, o options, f facts) *report {
	r := &report{Program: version, Time: time.Now().UTC().Truncate(time.Second), Windows: f.Windows, Server: f.Server, Arch: runtime.GOARCH,
		Settings: o.MachineSettings, World: o.World, redact: redactor(os.Hostname, os.Getenv)}
	if f.Wine {
		r.Windows = wine
	}
	return r
}

// Versions of what is no Windows.
const (
	simulatedWindows = "simulated"
	wine             = "Wine"
)

// longest is how much of a log is in the report, in bytes.
const longest = 4000

func (r *report) add(res result) {
	if len(res.Detail) > longest {
		res.Detail = res.Detail[:longest] + " …"
	}
	res.Detail, res.Answer = r.redact.Replace(res.Detail), r.redact.Replace(res.Answer)
	r.Results = append(r.Results, res)
}

// redactor replaces the names of this machine and of its user. A name of one or two
// letters stays, because it would be found in other words.
func redactor(hostname func() (string, error), env func(string) string) *strings.Replacer {
	var pairs []string
	hide := func(name, with string) {
		if len(name) > 2 {
			for _, n := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
				pairs = append(pairs, n, with)
			}
		}
	}
	hide(env("USERPROFILE"), "<profile>")
	hide(env("USERDNSDOMAIN"), "<domain>")
	host, err := hostname()
	if err == nil {
		hide(host, "<machine>")
	}
	hide(env("COMPUTERNAME"), "<machine>")
	hide(env("USERDOMAIN"), "<domain>")
	hide(env("USERNAME"), "<user>")
	return strings.NewReplacer(pairs...)
}

func (r *report) count(v verdict) int {
	n := 0
	for _, res := range r.Results {
		if res.Verdict == v {
			n++
		}
	}
	return n
}

func (r *report) failed() bool { return r.count(failed) > 0 }

func (r *report) summary(w io.Writer) {
	fmt.Fprintf(w, "\n%d ok, %d failed, %d skipped\n", r.count(passed), r.count(failed), r.count(skipped))
}

// write writes the report as path with ".json".
func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path+".json", append(text, '\n'), 0o644)
}

// on names what the run was on.
func (r report) on() string {
	switch {
	case r.Windows == simulatedWindows && r.World != "":
		return "A simulated node, world " + r.World
	case r.Windows == simulatedWindows:
		return "A simulated node"
	case r.Windows == wine:
		return "Wine, " + r.Arch
	case r.Server:
		return "Windows Server " + r.Windows + ", " + r.Arch
	}
	return "Windows " + r.Windows + ", " + r.Arch
}
