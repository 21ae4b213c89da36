package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// sources are what an engineer on call can look at, in the order in which they are asked.
var sources = []string{"log", "metrics", "calls", "doctor", "why"}

// observer queries the sources about each incident of a script, whose variable LOG names the
// log file of csi-proxy. From each source it notes what is new since the last incident.
type observer struct {
	logged  map[string]int               // by log file: how much of it is old
	counted map[string]map[string]string // by log file: the metrics
	doctor  []string
}

// incident is the command of scripts that asks the sources about an incident, and runs the
// commands of its section. Each argument after the heading is SOURCE=PATTERN: a source must print
// a line that matches, and one that is not named must print nothing. subject=TEXT is the argument
// of why, unless it is on the page.
func (o *observer) incident(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: incident HEADING [subject=TEXT] [SOURCE=PATTERN...]")
	}
	i := findIncident(ts, args[0])
	subject, want := "", map[string]string{}
	for _, c := range i.commands {
		if text, ok := strings.CutPrefix(c.line, "csi-proxyctl why "); ok && subject == "" {
			subject = strings.Trim(text, "'")
		}
	}
	for _, arg := range args[1:] {
		source, pattern, _ := strings.Cut(arg, "=")
		switch {
		case source == "subject":
			subject = ts.Getenv(strings.TrimPrefix(pattern, "$"))
			if !strings.HasPrefix(pattern, "$") {
				subject = pattern
			}
		case slices.Contains(sources, source):
			want[source] = pattern
		default:
			ts.Fatalf("incident: %q is no source", source)
		}
	}
	for _, source := range sources {
		lines := o.ask(ts, source, subject)
		pattern := want[source]
		switch at := slices.IndexFunc(lines, regexp.MustCompile(pattern).MatchString); {
		case pattern == "" && len(lines) > 0:
			ts.Fatalf("%s: %s should have nothing to say, but has\n%s", i.heading, source, strings.Join(lines, "\n"))
		case pattern != "" && at < 0:
			ts.Fatalf("%s: %s has no line that matches %q:\n%s", i.heading, source, pattern, strings.Join(lines, "\n"))
		}
	}
	i.run(ts)
	o.mark(ts)
}

// overdue is the command of scripts that runs a command whose call continues when its time is
// over: a line of csi-proxyctl calls matches the pattern, and its caller is gone. The variable
// TIMEOUT is the command's time limit. On a busy machine, the time can be over before the call has
// got that far; then the command runs again with more time, and what the sources say about the
// first run is old.
func (o *observer) overdue(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: overdue PATTERN PROGRAM ARGUMENT...")
	}
	there := regexp.MustCompile("(?m)^[0-9].* gone .*" + args[0])
	late := regexp.MustCompile(`(?s)DeadlineExceeded.*\ncsi-proxyctl: hint: .*csi-proxyctl calls`)
	for limit := 200 * time.Millisecond; limit < longLimit; limit *= 2 {
		ts.Setenv("TIMEOUT", limit.String())
		if err := ts.Exec(args[1], args[2:]...); err == nil || !late.MatchString(ts.ReadFile("stderr")) {
			ts.Fatalf("the command does not exceed its time limit, or does not name csi-proxyctl calls: %v", err)
		}
		for {
			ts.Check(ts.Exec("csi-proxyctl", "calls", "--no-headers"))
			calls := ts.ReadFile("stdout")
			if there.MatchString(calls) {
				return
			}
			if calls == "" {
				break // it ended
			}
		}
		if ts.Getenv("LOG") != "" {
			o.mark(ts)
		}
	}
	ts.Fatalf("no call is like %s when its time is over", args[0])
}

// mark makes everything that the sources say now old.
func (o *observer) mark(ts *testscript.TestScript) {
	log := ts.Getenv("LOG")
	o.logged[log] = len(ts.ReadFile(log))
	o.counted[log] = metricsOf(log, ts)
	o.doctor = outputOf(ts, "doctor")
}

// ask returns the lines of a source that are not old and may name a cause.
func (o *observer) ask(ts *testscript.TestScript, source, subject string) []string {
	log := ts.Getenv("LOG")
	findings := regexp.MustCompile(`^(problem|note) `)
	var lines []string
	switch source {
	case "log":
		for line := range strings.Lines(ts.ReadFile(log)[o.logged[log]:]) {
			if strings.HasPrefix(line, "W") || strings.HasPrefix(line, "E") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		if crash, err := os.ReadFile(strings.TrimSuffix(log, ".log") + "-crash.log"); err == nil && len(crash) > 0 {
			first, _, _ := strings.Cut(string(crash), "\n")
			lines = append(lines, "(crash file) "+first)
		}
	case "metrics":
		old, now := o.counted[log], metricsOf(log, ts)
		for series, value := range now {
			if series == "csi_proxy_ready" && value == "0" || failing.MatchString(series) && value != "0" && value != old[series] {
				lines = append(lines, strings.TrimSpace(series+" "+value))
			}
		}
		slices.Sort(lines)
	case "calls":
		lines = outputOf(ts, "calls", "--no-headers")
	case "doctor":
		for _, line := range outputOf(ts, "doctor") {
			if findings.MatchString(line) && !slices.Contains(o.doctor, line) {
				lines = append(lines, line)
			}
		}
	case "why":
		if subject == "" {
			return nil
		}
		for _, line := range outputOf(ts, "why", subject) {
			if findings.MatchString(line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// failing matches the series whose increase means that something fails, hangs or waits. The
// others, such as seconds and the errors of single calls of Windows, increase on a healthy node.
var failing = regexp.MustCompile(`^(grpc_server_handled_total\{grpc_code="([^O]|O[^K])|csi_proxy_calls_(in_flight|refused_total)|csi_proxy_smb_mappings_pending_removal|` +
	`csi_proxy_(disks|smb_mappings)\{state="([^o]|o[^kn]|off)|\(no answer\))`)

// outputOf returns the lines that csi-proxyctl prints, whatever its exit code.
func outputOf(ts *testscript.TestScript, args ...string) []string {
	_ = ts.Exec("csi-proxyctl", args...)
	return strings.FieldsFunc(ts.ReadFile("stdout")+ts.ReadFile("stderr"), func(r rune) bool { return r == '\n' })
}

var metricsURL = regexp.MustCompile(`url="http://([^/"]+)/metrics"`)

// metricsOf returns the values of the series that the csi-proxy of a log file serves. If it does
// not answer, the only series says so.
func metricsOf(log string, ts *testscript.TestScript) map[string]string {
	all := map[string]string{}
	urls := metricsURL.FindAllStringSubmatch(ts.ReadFile(log), -1)
	if urls == nil {
		ts.Fatalf("%s has no address of metrics", log)
	}
	text, err := scrape(context.Background(), urls[len(urls)-1][1]) // of the last process
	if err != nil {
		all["(no answer)"] = "1"
		return all
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			all[line[:at]] = line[at+1:]
		}
	}
	return all
}
