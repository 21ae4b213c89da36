package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// TestMain lets the test program be the children of the runs that it tests.
func TestMain(m *testing.M) {
	if IsChild(os.Args[1:]) {
		os.Exit(Run(context.Background(), "test", os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// rehearse runs the program over a simulated node and returns its report.
func rehearse(t *testing.T, args ...string) (exit int, r report, stdout string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report")
	var out, trouble bytes.Buffer
	exit = Run(t.Context(), "test", append([]string{"-simulated", "-report", path}, args...), nil, &out, &trouble)
	text, err := os.ReadFile(path + ".json")
	if err != nil {
		t.Fatalf("exit code %d: %v\n%s%s", exit, err, out.String(), trouble.String())
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return exit, r, out.String()
}

// A part of the contract, over a simulated node. Package conformance runs all of it there, and the
// other sections are those of TestQuestionsFindTheWorld.
func TestRehearsal(t *testing.T) {
	exit, r, out := rehearse(t, "-machine-settings", "-only", "contract-(wmi|pipes)/(partition|mount|system)")
	if exit != 0 || r.count(failed) != 0 || r.count(passed) < 20 {
		t.Errorf("exit code %d, %d ok, %d failed:\n%s", exit, r.count(passed), r.count(failed), out)
	}
	t.Attr("measured", "csi-proxy-verify on a simulated node: "+lastLine(out))
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// A question finds the option of the simulated node, in each world.
func TestQuestionsFindTheWorld(t *testing.T) {
	for _, name := range []string{nodespec.WorldStrict, nodespec.WorldKind} {
		world, err := behavior.Of(nodespec.Config{World: name})
		if err != nil {
			t.Fatal(err)
		}
		exit, r, out := rehearse(t, "-machine-settings", "-world", name, "-only", "^(questions|statuses)")
		if exit != 0 {
			t.Errorf("world %s: exit code %d:\n%s", name, exit, out)
		}
		for _, q := range questions() {
			i := slices.IndexFunc(r.Results, func(r result) bool { return r.Name == q.name })
			if i < 0 {
				t.Fatalf("world %s: no result of %q", name, q.name)
			}
			got := r.Results[i]
			skip := q.pipes || q.windows || q.name == "refused growth" && world.GPTEnd == behavior.GPTEndMoves
			if skip != (got.Verdict == skipped) {
				t.Errorf("world %s: %+v", name, got)
			}
			for _, o := range behavior.All() {
				if want := *o.Of(&world); o.Key == q.option && !skip && got.Answer != want {
					t.Errorf("world %s: %s: the answer is %q, and the node was made with %s %q", name, q.name, got.Answer, q.option, want)
				}
			}
		}
	}
}

// The first contact takes at most five minutes and prints one screen, without a name of the
// machine.
func TestFirstContact(t *testing.T) {
	var all time.Duration
	for _, q := range asked(options{FirstContact: true}) {
		all += q.first
		if q.settings || len(q.expected()) == 0 || q.option == "" && q.change == "" {
			t.Errorf("%s: changes settings %t, %d expected answers, what we would change: %q", q.name, q.settings, len(q.expected()), q.change)
		}
	}
	contact := asked(options{FirstContact: true})
	if len(contact) != 10 || all > 5*time.Minute {
		t.Errorf("%d questions in %s, want 10 in 5 minutes", len(contact), all)
	}
	exit, r, out := rehearse(t, "-first-contact")
	if exit != 0 || len(r.Results) != len(contact) || strings.Contains(out, "NEW") {
		t.Errorf("exit code %d, %d results:\n%s", exit, len(r.Results), out)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines {
		if len([]rune(line)) > 90 || len(host) > 2 && strings.Contains(line, host) {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
	if len(lines) > 24 {
		t.Errorf("%d lines", len(lines))
	}
}

// An answer that is not provided for is on the screen with what it changes. With all ten, it
// is still one screen.
func TestScreenOfSurprises(t *testing.T) {
	r := report{Windows: "10.0.20348"}
	for _, f := range asked(options{FirstContact: true}) {
		r.Results = append(r.Results, result{Section: questionsSection, Name: f.name, Verdict: passed, Answer: strings.Repeat("surprise ", 20)})
	}
	var out strings.Builder
	r.screen(&out, "report")
	if n := strings.Count(out.String(), "NEW"); n != 10 || !strings.Contains(out.String(), "10 new, 0 without an answer") {
		t.Errorf("%d of 10 are new:\n%s", n, out.String())
	}
	if lines := strings.Count(out.String(), "\n"); lines > 25 {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
}

// A question that does not end is ended with its process, and the others are asked.
func TestQuestionThatDoesNotEnd(t *testing.T) {
	r := &runner{o: options{Simulated: true, Dir: `C:\ProgramData\t`, Section: questionsSection, Question: "order of a format", Limit: time.Nanosecond}, out: io.Discard, report: &report{redact: strings.NewReplacer()}}
	if err := r.child(t.Context(), r.o); err != nil {
		t.Fatal(err)
	}
	if len(r.report.Results) != 1 || r.report.Results[0].Verdict != failed || !strings.Contains(r.report.Results[0].Detail, "timed out") {
		t.Errorf("%+v", r.report.Results)
	}
}

// Every option of the simulated node has a question, or a reason why not.
func TestEveryOptionIsAsked(t *testing.T) {
	for _, o := range behavior.All() {
		asked := slices.ContainsFunc(questions(), func(q question) bool { return q.option == o.Key })
		if why := notAsked[o.Key]; asked == (why != "") {
			t.Errorf("option %s: asked %t, reason why not %q", o.Key, asked, why)
		}
	}
	if known := len(behavior.All()); len(notAsked) >= known {
		t.Errorf("%d of %d options are not asked", len(notAsked), known)
	}
}

func TestRefusals(t *testing.T) {
	fine := facts{Elevated: true}
	node := facts{Elevated: true, Running: []string{"kubelet.exe"}}
	for _, c := range []struct {
		name string
		o    options
		f    facts
		want string
	}{
		{"an administrator on a fresh machine", options{}, fine, ""},
		{"without rights", options{}, facts{}, "elevated prompt"},
		{"without rights on a node that does not matter", options{OnThisNode: true}, facts{Running: node.Running}, "elevated prompt"},
		{"on a node", options{}, node, "kubelet.exe runs"},
		{"on a node that does not matter", options{OnThisNode: true}, node, ""},
	} {
		if got := refusal(c.o, c.f); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, got, c.want)
		}
	}
}

func TestDryRunDoesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	var out, trouble bytes.Buffer
	if exit := Run(t.Context(), "test", []string{"-simulated", "-dry-run"}, nil, &out, &trouble); exit != 0 {
		t.Errorf("exit code %d: %s", exit, trouble.String())
	}
	for _, q := range questions() {
		if !strings.Contains(out.String(), q.asks) || !strings.Contains(out.String(), q.does) || !strings.Contains(out.String(), q.change) {
			t.Errorf("the dry run does not list %q", q.asks)
		}
		if (len(q.expect) > 0) != (q.change != "") || (len(q.expect) > 0) == (q.option != "") {
			t.Errorf("%s: an answer changes nothing, or it is an option %q and expected %q", q.name, q.option, q.expect)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("the dry run left %v, %v", files, err)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-world", "kind"}, {"-simulated", "-world", "flat"}, {"-only", "("}, {"questions"}, {"-nosuch"},
		{"-first-contact", "-only", "questions"},
		{"-iscsi-target", "192.0.2.1:3260,iqn.2025-01.com.example:data"}, {"-machine-settings", "-iscsi-target", "192.0.2.1:3260"}, {"-machine-settings", "-iscsi-target", "target"}} {
		var out, trouble bytes.Buffer
		if exit := Run(t.Context(), "test", args, nil, &out, &trouble); exit != exitRefused || trouble.Len() == 0 {
			t.Errorf("%q: exit code %d, %q", args, exit, trouble.String())
		}
	}
}

// Whatever asks for it, no disk is changed that the program did not attach.
func TestGuardKeepsOtherDisks(t *testing.T) {
	p := newPlace(t, options{Simulated: true, Dir: `C:\ProgramData\t`}, backends[0])
	sim := p.machine.(*simulated)
	other, err := sim.Node.Attach(conformance.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []conformance.Partition{{FileSystem: "NTFS"}}})
	if err != nil {
		t.Fatal(err)
	}
	own, id := p.data(conformance.Disk{})
	if own == other {
		t.Fatal("two disks have one number")
	}
	state, err := sim.Show()
	if err != nil {
		t.Fatal(err)
	}
	var foreign string
	for _, v := range state.Volumes {
		if !strings.EqualFold(v.ID, id) && slices.Equal(v.Disks, []uint32{other}) {
			foreign = v.ID
		}
	}
	if foreign == "" {
		t.Fatalf("no volume on disk %d: %+v", other, state.Volumes)
	}
	disk, err := storage.OpenDisk(t.Context(), p.node, other, win32.GENERIC_READ|win32.GENERIC_WRITE)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	bare, err := sim.CreateFile(strings.TrimSuffix(foreign, `\`), win32.GENERIC_READ|win32.GENERIC_WRITE, 3, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sim.DeviceIoControl(bare, win32.IOCTL_VOLUME_ONLINE, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := sim.CloseHandle(bare); err != nil {
		t.Fatal(err)
	}
	h := p.openVolume(strings.TrimSuffix(foreign, `\`), win32.GENERIC_READ|win32.GENERIC_WRITE)
	control := func(code uint32) func() error {
		return func() error { _, err := p.node.API.DeviceIoControl(h, code, nil, nil); return err }
	}
	attempts := map[string]func() error{
		"offline":        func() error { return disk.SetAttributes(t.Context(), 1, 1, storage.Passing) },
		"create":         func() error { return disk.CreateGPT(t.Context(), win32.GUID{Data1: 1}) },
		"grow":           func() error { return disk.Grow(t.Context(), 2, 1<<20) },
		"zero":           func() error { return disk.Zero(t.Context(), 0, 4096) },
		"format":         func() error { return p.node.API.Format(foreign, win32.FormatOptions{}) },
		"volume offline": control(win32.IOCTL_VOLUME_OFFLINE),
		"lock":           control(win32.FSCTL_LOCK_VOLUME),
		"write":          func() error { _, err := p.node.API.WriteAt(h, make([]byte, 4096), 0); return err },
	}
	for name, attempt := range attempts {
		if err := attempt(); !win32.IsCode(err, win32.ERROR_WRITE_PROTECT) {
			t.Errorf("%s: %v, want the guard's error", name, err)
		}
	}
	if got := p.guard.refusals(); len(got) != len(attempts) {
		t.Errorf("refused %q, want %d calls", got, len(attempts))
	}
	p.guard.refused = nil // each would fail the test
}

// A run that was killed left a journal: the next run undoes it, last things first, and
// keeps what it could not undo.
func TestJournalOfAKilledRun(t *testing.T) {
	j := &journal{filepath.Join(t.TempDir(), "journal")}
	for _, e := range []entry{{kindDirectory, "d"}, {kindService, "a"}, {kindService, "busy"}, {kindStopped, "c"}} {
		if err := j.add(e); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(j.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\n" + `{"kind":"serv`); err != nil { // it died while it wrote
		t.Fatal(err)
	}
	f.Close()
	if err := j.add(entry{kindService, "b"}); err != nil {
		t.Fatal(err)
	}
	var undone []string
	broken := errors.New("in use")
	n, err := j.undo(func(e entry) error {
		if e.Name == "busy" {
			return broken
		}
		undone = append(undone, e.Name)
		return nil
	})
	if want := []string{"b", "c", "a", "d"}; n != 4 || !errors.Is(err, broken) || !slices.Equal(undone, want) {
		t.Errorf("undone %q (%d), %v; want %q", undone, n, err, want)
	}
	if left, err := j.read(); err != nil || !slices.Equal(left, []entry{{kindService, "busy"}}) {
		t.Errorf("left in the journal: %+v, %v", left, err)
	}
	if n, err := j.undo(func(entry) error { return nil }); n != 1 || err != nil {
		t.Errorf("second try: %d, %v", n, err)
	}
	if _, err := os.Stat(j.file); !os.IsNotExist(err) {
		t.Errorf("the journal is still there: %v", err)
	}
}

// Ctrl-C ends the child at once, and the report has what was found until then.
func TestInterrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	ctx, interrupt := context.WithCancel(t.Context())
	out := &watched{seen: func(text string) {
		if strings.Contains(text, contractPrefix) {
			interrupt()
		}
	}}
	var trouble bytes.Buffer
	exit := Run(ctx, "test", []string{"-simulated", "-report", path, "-only", "questions|contract"}, nil, out, &trouble)
	if exit != exitFailed || !strings.Contains(trouble.String(), "interrupted") {
		t.Errorf("exit code %d: %s", exit, trouble.String())
	}
	// The last section takes longer than all others.
	text, err := os.ReadFile(path + ".json")
	if err != nil || !strings.Contains(string(text), questions()[0].name) || strings.Contains(string(text), contractPrefix+"pipes") {
		t.Errorf("report: %v\n%s", err, text)
	}
}

// watched sees what is written.
type watched struct{ seen func(string) }

func (w *watched) Write(b []byte) (int, error) { w.seen(string(b)); return len(b), nil }

func TestParser(t *testing.T) {
	var got []result
	p := newParser("s", func(r result) { got = append(got, r) })
	for line := range strings.Lines("\x16=== RUN   s\n\x16=== RUN   s/a_b\n\x16=== ATTR  s/a_b answer it is so\n\x16    --- PASS: s/a_b (0.01s)\n" +
		"\x16=== RUN   s/c\n    x_test.go:7: why\n        more\n\x16    --- FAIL: s/c (0.00s)\n" +
		"\x16=== RUN   s/d\n\x16=== NAME  s/d\n    y.go:1: not here\n\x16    --- SKIP: s/d (0.00s)\n\x16=== RUN   s/e\npanic: boom\n") {
		p.line(strings.TrimSuffix(line, "\n"))
	}
	p.end("exit status 2")
	want := []result{
		{"s", "a b", passed, "it is so", ""},
		{"s", "c", failed, "", "why\nmore"},
		{"s", "d", skipped, "", "not here"},
		{"s", "e", failed, "", "panic: boom\nits process died\nexit status 2"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// A suite that fails by itself, and not by a case, is a result.
func TestParserReportsSuite(t *testing.T) {
	var got []result
	p := newParser("s", func(r result) { got = append(got, r) })
	for _, line := range []string{"=== RUN   s", "=== RUN   s/a", "--- PASS: s/a (0.00s)", "=== NAME  s", "    run.go:1: goroutines left", "--- FAIL: s (0.00s)"} {
		p.line(line)
	}
	if want := []result{{"s", "a", passed, "", ""}, {"s", "", failed, "", "goroutines left"}}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReportHasNoNames(t *testing.T) {
	env := map[string]string{"USERPROFILE": `C:\Users\Jane.Doe`, "COMPUTERNAME": "BUILD-7", "USERDOMAIN": "CORP", "USERNAME": "Jane.Doe"}
	r := &report{redact: redactor(func() (string, error) { return "build-7", nil }, func(k string) string { return env[k] })}
	r.add(result{Detail: `open C:\Users\Jane.Doe\x on BUILD-7 as corp\jane.doe: \\build-7\share`, Answer: "BUILD-7"})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"jane", "build-7", "corp"} {
		if strings.Contains(strings.ToLower(string(text)), name) {
			t.Errorf("the report has %q: %s", name, text)
		}
	}
}

// moving is a machine on which each new disk gets an address of its own.
type moving struct {
	machine
	next uint8
}

func (m *moving) Attach(d conformance.Disk) (uint32, error) {
	m.next++
	d.Bus, d.Serial, d.Address = "scsi", "moving", &nodespec.Address{Target: m.next}
	return m.machine.Attach(d)
}

// Where the next disk has another address, the question has no answer, and must leave nothing at
// the first one: a disk of the machine may get that one day.
func TestQuestionAboutASlotLeavesNothing(t *testing.T) {
	p := newPlace(t, options{Simulated: true, Dir: `C:\ProgramData\t`}, backends[0])
	p.machine = &moving{machine: p.machine}
	left := map[win32.SCSIAddress]uint64{}
	ask := p.node.API
	p.node.API = win32.Observe(ask, func(c *win32.Call) error {
		err := c.Do()
		if a, failed := win32.DecodeSetDiskAttributes(c.In); c.Code == win32.IOCTL_DISK_SET_DISK_ATTRIBUTES && failed == nil && a.Persist {
			b := make([]byte, 8)
			if _, err := ask.DeviceIoControl(c.Handle, win32.IOCTL_SCSI_GET_ADDRESS, nil, b); err != nil {
				return err
			}
			at, err := win32.DecodeSCSIAddress(b)
			if err != nil {
				return err
			}
			left[at] = a.Attributes
		}
		return err
	})
	answer := attributesOfASlot(p)
	if !strings.Contains(answer, "another address") {
		t.Errorf("answer %q", answer)
	}
	for at, attributes := range left {
		if attributes != 0 {
			t.Errorf("Windows remembers the attributes %#x for %+v", attributes, at)
		}
	}
}
