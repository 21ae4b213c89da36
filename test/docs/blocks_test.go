package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// pageLimit is the time limit for the commands of one page. They take a minute at most; the
// limit is for commands that hang.
const pageLimit = 20 * time.Minute

// programs is the directory of the programs that were built.
var programs string

// build returns the directory of the programs: that of CSI_PROXY_SIM_BINARY, else one for which they
// are built, once for all pages.
var build = sync.OnceValues(func() (string, error) {
	if sim := os.Getenv("CSI_PROXY_SIM_BINARY"); sim != "" {
		return filepath.Dir(sim), nil
	}
	dir, err := os.MkdirTemp("", "csi-docs")
	if err != nil {
		return "", err
	}
	programs = dir
	c := exec.Command("go", "build", "-o", dir, "./cmd/csi-proxy", "./cmd/csi-proxy-sim", "./cmd/csi-proxyctl")
	c.Dir = root
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(programs) // "" if nothing was built
	os.Exit(code)
}

// tutorial is the page whose commands take longer than those of all others.
const tutorial = "docs/drivers/tutorial.md"

// Every block of every page has a known kind, and its commands work.
func TestBlocks(t *testing.T) {
	for _, p := range pages(t) {
		if len(p.blocks) == 0 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			for _, b := range p.blocks {
				if err := check(b); err != nil {
					t.Errorf("%s:%d: %v", p.name, b.line, err)
				}
				if reason := notHere(b); reason != "" {
					t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) { t.Skip(reason) })
				}
			}
			if testing.Short() && p.name == tutorial {
				t.Skip("builds the example driver and runs its tests, a minute: make test runs it")
			}
			if slices.ContainsFunc(p.blocks, runs) {
				runPage(t, p)
			}
		})
	}
}

// kind is the first word after the fence.
func (b block) kind() string {
	if len(b.info) == 0 {
		return ""
	}
	return b.info[0]
}

// notHere returns why the commands of a block cannot run on this machine, or "".
func notHere(b block) string {
	if reason, ok := strings.CutPrefix(strings.Join(b.info, " "), "sh needs:"); ok {
		return "needs " + reason
	}
	if b.kind() == "powershell" {
		return "needs Windows"
	}
	return ""
}

func runs(b block) bool { return notHere(b) == "" && (b.kind() == "sh" || b.kind() == "console") }

// check checks a block without running it.
func check(b block) error {
	switch b.kind() {
	case "sh", "powershell", "text", "diff":
	case "console":
		if !strings.HasPrefix(b.body, "$ ") {
			return errors.New("want a command after \"$ \" in the first line")
		}
	case "go":
		return parsesAsGo(b.body)
	case "yaml":
		var v any
		return yaml.Unmarshal([]byte(b.body), &v)
	case "json":
		var v any
		return json.Unmarshal([]byte(b.body), &v)
	default:
		return fmt.Errorf("unknown kind of block %q; doc.go of test/docs lists the kinds", b.kind())
	}
	return nil
}

// parsesAsGo checks that body is a Go file, declarations, statements (also after
// imports), methods of an interface, or elements of a list.
func parsesAsGo(body string) error {
	imports, rest := "", body
	if at := strings.Index(body, "\n)\n"); at >= 0 && strings.HasPrefix(strings.TrimSpace(body), "import (") {
		imports, rest = body[:at+3], body[at+3:]
	}
	var first error
	for _, text := range []string{body, "package p\n" + body, "package p\n" + imports + "func _() {\n" + rest + "\n}", "package p\ntype _ interface {\n" + rest + "\n}", "package p\nvar _ = []any{\n" + rest + "\n}"} {
		_, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return fmt.Errorf("does not parse as Go: %w", first)
}

// step is a command of a console block with its expected output.
type step struct {
	line    int
	command string
	want    string
}

// steps splits a console block into commands.
func steps(b block) []step {
	var all []step
	n := b.line
	for line := range strings.Lines(b.body) {
		n++
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, step{line: n, command: strings.TrimSpace(command)})
		} else {
			all[len(all)-1].want += line
		}
	}
	return all
}

// interruptAfterOutput runs a command until it has printed something, and then
// interrupts it, as a reader would.
const interruptAfterOutput = `%s & watch=$!
while ! test -s %s && kill -0 $watch; do sleep 0.1; done
while kill -INT $watch; do sleep 0.1; done 2>/dev/null
wait $watch`

// script returns the shell script of a page and its steps. Before each block the
// script prints the block's line to descriptor 3. It writes the output of steps to
// files.
func script(p page, dir string) (string, []step, error) {
	var b strings.Builder
	var all []step
	b.WriteString("set -eu\n")
	for _, bl := range p.blocks {
		if len(bl.info) == 2 && (bl.kind() == "yaml" || bl.kind() == "json" || bl.kind() == "go") {
			// Files are written before the script runs; a page uses each name once.
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(bl.info[1])), []byte(bl.body), 0o600); err != nil {
				return "", nil, err
			}
		}
		if !runs(bl) {
			continue
		}
		fmt.Fprintf(&b, "echo %d >&3\n", bl.line)
		if bl.kind() == "sh" {
			b.WriteString(bl.body + "\n")
			continue
		}
		for _, s := range steps(bl) {
			command, to := s.command, filepath.Join(dir, fmt.Sprintf("step%d", len(all))) // commands may cd
			if strings.Contains(command, "--watch") || strings.Contains(command, " -w") {
				command = fmt.Sprintf(interruptAfterOutput, command, to)
			}
			fmt.Fprintf(&b, "{ %s\n} >%s 2>&1 || test $? -lt 126\n", command, to)
			all = append(all, s)
		}
	}
	return b.String(), all, nil
}

// makeCommand replaces make. It only checks that the target exists.
const makeCommand = `#!/bin/sh
for target; do grep -q "^$target:" "$PROJECT/Makefile" || { echo "make: no target $target" >&2; exit 2; }; done
`

// runPage runs the commands of a page.
func runPage(t *testing.T, p page) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell: runs on Linux")
	}
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	project, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	// A short path, because of the sockets.
	dir, err := os.MkdirTemp("", "doc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	tools, temp, sockets := filepath.Join(dir, "tools"), filepath.Join(dir, "t"), filepath.Join(dir, "s")
	for _, d := range []string{tools, temp, sockets} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		os.Symlink(bin, filepath.Join(dir, "bin")),
		os.Symlink(project, filepath.Join(dir, "csi-proxy")),
		os.WriteFile(filepath.Join(tools, "make"), []byte(makeCommand), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	text, all, err := script(p, dir)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), pageLimit)
	defer cancel()
	started, log, err := shell(ctx, dir, []string{
		"PATH=" + tools + ":" + bin + ":" + os.Getenv("PATH"), "PROJECT=" + project, "CSI_PROXY_DIR=" + sockets, "TMPDIR=" + temp,
	}, text)
	blocks := strings.Fields(started)
	if err != nil {
		at := "the start"
		if len(blocks) > 0 {
			at = "the block at line " + blocks[len(blocks)-1]
		}
		t.Errorf("%s: %s: %v\n%s", p.name, at, err, log)
	}
	for i, s := range all {
		got, missing := os.ReadFile(filepath.Join(dir, fmt.Sprintf("step%d", i)))
		if missing != nil {
			if err == nil {
				t.Errorf("%s:%d: %s has no output: %v", p.name, s.line, s.command, missing)
			}
			continue // an earlier block failed
		}
		if s.want != "" && !matches(s.want, string(got)) {
			t.Errorf("%s:%d: %s prints\n%swant\n%s", p.name, s.line, s.command, got, s.want)
		}
	}
	t.Logf("ran %d blocks", len(blocks))
}

// shell starts csi-proxy-sim, runs a script, and stops all processes that it left
// running. It returns the lines of the blocks that were started, which the script
// prints to descriptor 3, and all other output.
func shell(ctx context.Context, dir string, env []string, text string) (started, log string, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", "", err
	}
	defer r.Close()
	// The pipe is read until every process that has it open has ended.
	read := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		b.ReadFrom(r)
		read <- b.String()
	}()
	out, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		w.Close()
		return "", "", err
	}
	defer out.Close()
	// With -m each job is a process group, so that all its processes can be killed,
	// also after the time limit.
	const around = `set -m
jobs=
trap 'kill -- $jobs 2>/dev/null' EXIT
trap 'exit 1' TERM
csi-proxy-sim & jobs=-$!
csi-proxyctl versions --wait >/dev/null || exit 1
bash page & page=$!; jobs="-$page $jobs"
wait $page
`
	if err := os.WriteFile(filepath.Join(dir, "page"), []byte(text), 0o600); err != nil {
		w.Close()
		return "", "", err
	}
	c := exec.CommandContext(ctx, "bash", "-c", around)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	c.Stdout, c.Stderr = out, out
	c.ExtraFiles = []*os.File{w}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	err = c.Run()
	w.Close()
	started = <-read
	logged, _ := os.ReadFile(filepath.Join(dir, "log"))
	return started, string(logged), err
}

// matches compares output with the output on a page, in which a line … stands for
// any number of lines.
func matches(want, got string) bool {
	parts := strings.Split(want, "…\n")
	for i, part := range parts {
		at := strings.Index(got, part)
		if at < 0 || i == 0 && at != 0 {
			return false
		}
		got = got[at+len(part):]
	}
	return got == "" || parts[len(parts)-1] == ""
}

func TestCheckFindsWrongBlocks(t *testing.T) {
	for text, good := range map[string]bool{
		"```sh\nls\n```\n":                      true,
		"```\nls\n```\n":                        false,
		"```bash\nls\n```\n":                    false,
		"```console\nls\n```\n":                 false,
		"```console\n$ ls\n```\n":               true,
		"```go\nx := 1\n```\n":                  true,
		"```go\nimport (\n\"a\"\n)\nx()\n```\n": true,
		"```go\nfunc (\n```\n":                  false,
		"```yaml\na: [\n```\n":                  false,
		"```json\n{\n```\n":                     false,
	} {
		if err := check(parse("a.md", text).blocks[0]); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A command that fails makes its page fail, and its processes are stopped.
func TestShellReportsFailedCommand(t *testing.T) {
	started, log, err := runText(t, t.Context(), t.TempDir(), "```sh\nsleep 1000 &\n```\n```sh\nfalse\n```\n```sh\ntrue\n```\n")
	if err == nil || started != "1\n4\n" {
		t.Errorf("a failing block: %v, blocks %q, want an error at line 4\n%s", err, started, log)
	}
}

// runText runs the commands of a page in dir, within the time limit of a page.
func runText(t *testing.T, ctx context.Context, dir, text string) (started, log string, err error) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell: runs on Linux")
	}
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	commands, _, err := script(parse("a.md", text), dir)
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "doc") // short, because the path of a socket is limited to 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	ctx, cancel := context.WithTimeout(ctx, pageLimit)
	defer cancel()
	return shell(ctx, dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "CSI_PROXY_DIR=" + sockets, "TMPDIR=" + dir}, commands)
}
