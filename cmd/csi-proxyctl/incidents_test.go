package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

const incidentsPage = "../../docs/run/troubleshooting.md"

// incident is a section of docs/run/troubleshooting.md.
type incident struct {
	heading  string
	commands []incidentCommand
}

// incidentCommand is a command and lines of its output.
type incidentCommand struct {
	line string
	want []string
}

// incidents returns the sections of docs/run/troubleshooting.md with commands and their output.
func incidents() ([]incident, error) {
	page, err := os.ReadFile(incidentsPage)
	if err != nil {
		return nil, err
	}
	var all []incident
	_, text, found := strings.Cut(string(page), "\n## By the text of the event\n")
	if !found {
		return nil, fmt.Errorf("%s has no section about events", incidentsPage)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	inBlock := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		heading, isHeading := strings.CutPrefix(line, "### ")
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

// runIncident is the command of scripts that runs the commands of a section, whatever their exit
// codes, and fails unless their output has the lines of the page.
func runIncident(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: incident HEADING")
	}
	all, err := incidents()
	ts.Check(err)
	at := slices.IndexFunc(all, func(i incident) bool { return i.heading == args[0] })
	if at < 0 {
		ts.Fatalf("%s has no section %q", incidentsPage, args[0])
	}
	for _, c := range all[at].commands {
		_ = ts.Exec("sh", "-c", c.line) // most end with 3
		output := ts.ReadFile("stdout")
		for _, line := range c.want {
			pattern := `(?m)^` + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `$`
			if !regexp.MustCompile(pattern).MatchString(output) {
				ts.Fatalf("%s: %s does not print\n%s\nbut\n%s", args[0], c.line, line, output)
			}
		}
	}
}

// runFill is the command of scripts that makes a large file in a directory of a simulated node
// that is not running, as a program in a pod would.
func runFill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: fill STATE-DIRECTORY DIRECTORY SIZE")
	}
	size, err := simnode.ParseSize(args[2])
	ts.Check(err)
	n, err := simnode.Open(simnode.Config{StateDir: ts.MkAbs(args[0])})
	ts.Check(err)
	ts.Check(errors.Join(n.PutFile(args[1]+`\file`, false, int64(size)), n.Close()))
}

// running is the number of calls of a pipe that run at a time.
const running = 32

// runFlood is the command of scripts that makes calls of WriteVolumeCache for the volume that a
// file names, and waits until csi-proxy has all of them, with as many as possible in
// FlushFileBuffers. They continue until the script ends.
func runFlood(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flood NUMBER FILE")
	}
	number, err := strconv.Atoi(args[0])
	ts.Check(err)
	dir, id := ts.Getenv(pipe.DirVariable), strings.TrimSpace(ts.ReadFile(args[1]))
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	ts.Defer(func() { cancel(); calls.Wait() })
	for range number { // a connection has at most 64 calls
		conn, err := transport.Connect(filepath.Join(dir, "csi-proxy-volume-v1.sock"))
		ts.Check(err)
		calls.Go(func() {
			defer conn.Close()
			_, _ = volumev1.NewVolumeClient(conn).WriteVolumeCache(ctx, &volumev1.WriteVolumeCacheRequest{VolumeId: id}) // it is cut off
		})
	}
	conn, err := transport.Connect(filepath.Join(dir, admin.Pipe+".sock"))
	ts.Check(err)
	defer conn.Close()
	ts.Check(nodetest.Eventually(longLimit, func() error {
		out, err := admin.NewAdminClient(conn).ListCalls(ctx, &admin.ListCallsRequest{})
		queued, hanging := 0, 0
		for _, c := range out.GetCalls() {
			switch {
			case c.Phase == "queued":
				queued++
			case c.Win32 == "FlushFileBuffers":
				hanging++
			}
		}
		if err != nil || hanging != running || queued != number-running {
			return fmt.Errorf("%d calls in FlushFileBuffers and %d queued, want %d calls: %v", hanging, queued, number, err)
		}
		return nil
	}))
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
		if !strings.Contains(string(script), "\nincident '"+i.heading+"'") {
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

// runOverdue is the command of scripts that runs a command whose call continues when its time is
// over: a line of csi-proxyctl calls matches the pattern, and its caller is gone. The variable
// TIMEOUT is the command's time limit. On a busy machine, the time can be over before the call has
// got that far; then the command runs again with more time.
func runOverdue(ts *testscript.TestScript, neg bool, args []string) {
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
			ts.Check(ts.Exec("csi-proxyctl", "calls"))
			calls := ts.ReadFile("stdout")
			if there.MatchString(calls) {
				return
			}
			if strings.Count(calls, "\n") == 1 {
				break // it ended: only the header is left
			}
		}
	}
	ts.Fatalf("no call is like %s when its time is over", args[0])
}
