package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

const incidentsPage = "../../docs/incidents.md"

// incident is a section of docs/incidents.md.
type incident struct {
	heading  string
	commands []incidentCommand
}

// incidentCommand is a command and lines of its output.
type incidentCommand struct {
	line string
	want []string
}

// incidents returns the sections of docs/incidents.md.
func incidents() ([]incident, error) {
	page, err := os.ReadFile(incidentsPage)
	if err != nil {
		return nil, err
	}
	var all []incident
	inBlock := false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimRight(line, "\n")
		heading, isHeading := strings.CutPrefix(line, "## ")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case isHeading:
			all = append(all, incident{heading: heading})
		case strings.HasPrefix(line, "```"):
			inBlock = !inBlock
		case !inBlock:
		case isCommand:
			last := &all[len(all)-1]
			last.commands = append(last.commands, incidentCommand{line: command})
		default:
			commands := all[len(all)-1].commands
			if len(commands) == 0 {
				return nil, fmt.Errorf("%s: output without a command: %s", incidentsPage, line)
			}
			last := &commands[len(commands)-1]
			last.want = append(last.want, line)
		}
	}
	return all, nil
}

// runIncident is the command of scripts that runs the commands of a section, whatever their
// exit codes, and fails unless their output has the lines of the page.
func runIncident(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: incident HEADING")
	}
	all, err := incidents()
	ts.Check(err)
	for _, i := range all {
		if i.heading != args[0] {
			continue
		}
		for _, c := range i.commands {
			_ = ts.Exec("sh", "-c", c.line) // most end with 3
			output := ts.ReadFile("stdout")
			for _, line := range c.want {
				pattern := `(?m)^` + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `$`
				if !regexp.MustCompile(pattern).MatchString(output) {
					ts.Fatalf("%s: %s does not print\n%s\nbut\n%s", i.heading, c.line, line, output)
				}
			}
		}
		return
	}
	ts.Fatalf("%s has no section %q", incidentsPage, args[0])
}

// Every incident of the page is shown by a script, with at most two commands, and by a line
// of output.
func TestIncidentsAreShown(t *testing.T) {
	script, err := os.ReadFile("testdata/incidents.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all, err := incidents()
	if err != nil || len(all) < 10 {
		t.Fatalf("%d incidents, %v", len(all), err)
	}
	for _, i := range all {
		if !strings.Contains(string(script), "\nincident '"+i.heading+"'\n") {
			t.Errorf("%q: no script shows it", i.heading)
		}
		if n := len(i.commands); n < 1 || n > 2 {
			t.Errorf("%q: %d commands, want one or two", i.heading, n)
		}
		for _, c := range i.commands {
			if len(c.want) == 0 {
				t.Errorf("%q: %s has no output", i.heading, c.line)
			}
		}
	}
}
