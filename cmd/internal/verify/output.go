package verify

import (
	"regexp"
	"strings"
)

// parser reads what a test program prints with -test.v=test2json, and reports the result
// of each test that has no subtests.
type parser struct {
	section string
	report  func(result)

	current string
	logs    map[string][]string
	answers map[string]string
	running []string        // tests without a result, in the order in which they began
	parents map[string]bool // tests with subtests
	blamed  map[string]bool // tests with a subtest that failed
}

func newParser(section string, report func(result)) *parser {
	return &parser{section: section, report: report, logs: map[string][]string{}, answers: map[string]string{}, parents: map[string]bool{}, blamed: map[string]bool{}}
}

var (
	event  = regexp.MustCompile(`^\s*=== (RUN|NAME|ATTR|PAUSE|CONT) +(\S*) ?(.*)$`)
	logged = regexp.MustCompile(`^\s*\w+\.go:\d+: `) // where a log line comes from
	ended  = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
)

var verdicts = map[string]verdict{"PASS": passed, "FAIL": failed, "SKIP": skipped}

// shown reports whether a result is printed while the program runs. The contract has many
// cases that only the simulated node can run, and there are many statuses; the report
// lists them.
func (r result) shown() bool {
	if r.Section == statusesSection {
		return r.Verdict == failed
	}
	return r.Verdict != skipped || !strings.HasPrefix(r.Section, contractPrefix)
}

// line reads a line. A line that belongs to no event is in the log of the current test.
func (p *parser) line(text string) {
	text = strings.TrimPrefix(text, "\x16") // by which test2json distinguishes events from output
	if e := event.FindStringSubmatch(text); e != nil {
		p.current = e[2]
		switch e[1] {
		case "RUN":
			p.running = append(p.running, e[2])
			if up := strings.LastIndexByte(e[2], '/'); up >= 0 {
				p.parents[e[2][:up]] = true
			}
		case "ATTR":
			if key, value, _ := strings.Cut(e[3], " "); key == "answer" {
				p.answers[e[2]] = value
			}
		}
		return
	}
	if e := ended.FindStringSubmatch(text); e != nil {
		p.finish(e[2], verdicts[e[1]])
		p.current = e[2]
		return
	}
	if text = strings.TrimSpace(logged.ReplaceAllString(text, "")); text != "" && text != "PASS" && text != "FAIL" {
		p.logs[p.current] = append(p.logs[p.current], text)
	}
}

func (p *parser) finish(name string, v verdict) {
	for i, running := range p.running {
		if running == name {
			p.running = append(p.running[:i:i], p.running[i+1:]...)
			break
		}
	}
	if v == failed {
		for up := strings.LastIndexByte(name, '/'); up >= 0; up = strings.LastIndexByte(name[:up], '/') {
			p.blamed[name[:up]] = true
		}
	}
	if p.parents[name] && (v != failed || p.blamed[name]) {
		return
	}
	_, short, _ := strings.Cut(name, "/")
	r := result{Section: p.section, Name: strings.ReplaceAll(short, "_", " "), Verdict: v, Answer: p.answers[name]}
	if v != passed {
		r.Detail = strings.Join(p.logs[name], "\n")
	}
	p.report(r)
}

// end reports the tests that did not end: the process died in them. trouble is what it
// printed about that.
func (p *parser) end(trouble string) {
	for _, name := range append([]string(nil), p.running...) {
		if !p.parents[name] {
			p.logs[name] = append(p.logs[name], "its process died", trouble)
			p.finish(name, failed)
		}
	}
}
