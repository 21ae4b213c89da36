// Command demo drives three volumes through their lives as CSI drivers do, from stage to
// unstage: one on a disk, one on an SMB share, and one on an iSCSI target. It starts
// csi-proxy-sim with a simulated node and calls it over its sockets with the client module
// that drivers use. It prints every call, and checks the result of each step.
//
//	hack/demo.sh
//
// The exit code is 0 only if every call that should succeed did, every check passed, and
// sgdisk finds no problem on the disk at the end.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	daemon := flags.String("csi-proxy-sim", "bin/csi-proxy-sim", "the csi-proxy-sim `program` to start")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	start := time.Now()
	d := &demo{out: stdout}
	if err := d.run(ctx, *daemon); err != nil {
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return 1
	}
	fmt.Fprintf(stdout, "\n%d calls over %d pipes, %d checks, %v. All passed.\n", d.calls, len(d.pipes), d.checks, time.Since(start).Round(time.Millisecond))
	return 0
}

// The disk, as the storage system describes it.
const (
	diskSerial = "DEMO0001"
	diskID     = "demo-volume-0001" // in its page 83h
	diskSize   = 1 << 30
	grownSize  = 2 << 30
)

// nodeYAML describes the node: its system disk, and a blank disk that was just attached.
const nodeYAML = `disks:
- content: system
- size: 1GiB
  serial: ` + diskSerial + `
  identifiers:
  - codeSet: ascii
    type: 1
    text: ` + diskID + `
`

// demo is one run of the demo.
type demo struct {
	out           io.Writer
	calls, checks int
	pipes         map[string]bool
}

func (d *demo) run(ctx context.Context, program string) (err error) {
	program, err = exec.LookPath(program)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("sgdisk"); err != nil {
		return fmt.Errorf("sgdisk, which checks the disk at the end, is not installed (package gdisk): %w", err)
	}
	dir, err := os.MkdirTemp("", "csi-proxy-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d.pipes = map[string]bool{}
	config := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(config, []byte(nodeYAML), 0o600); err != nil {
		return err
	}
	// The clients in this process find the sockets by the same variable.
	sockets := filepath.Join(dir, "run")
	if err := os.Setenv(pipe.DirVariable, sockets); err != nil {
		return err
	}
	p, err := startDaemon(ctx, d.out, program, "-node-config="+config, "-state-dir="+filepath.Join(dir, "node"))
	if err != nil {
		return err
	}
	defer p.kill()
	fmt.Fprintf(d.out, "sockets in %s\n", sockets)

	image, err := d.story(ctx)
	if err != nil {
		return errors.Join(err, p.log())
	}

	d.title("The daemon stops")
	if err := p.stop(); err != nil {
		return errors.Join(err, p.log())
	}
	left, err := filepath.Glob(filepath.Join(sockets, "*.sock"))
	if err != nil {
		return err
	}
	if err := d.check(len(left) == 0, "exit code 0, and all sockets are removed"); err != nil {
		return err
	}
	return d.judge(ctx, image)
}

// story runs all steps. It returns the image file of the first volume's disk.
func (d *demo) story(ctx context.Context) (image string, err error) {
	c, err := connect()
	if err != nil {
		return "", err
	}
	defer c.close()
	v := &volumeStory{demo: d, clients: c}
	for _, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"NodeStage", v.stage},
		{"NodePublish", v.publish},
		{"NodeExpand", v.expand},
		{"NodeUnpublish", v.unpublish},
		{"NodeUnstage", v.unstage},
	} {
		d.title(step.title)
		if err := step.run(ctx); err != nil {
			return "", fmt.Errorf("%s: %w", step.title, err)
		}
	}
	share := &smbStory{demo: d, clients: c}
	if err := share.run(ctx); err != nil {
		return "", err
	}
	target := &iscsiStory{volumeStory{demo: d, clients: c}}
	if err := target.run(ctx); err != nil {
		return "", err
	}
	state, err := c.node.Show(ctx)
	if err != nil {
		return "", err
	}
	for _, disk := range state.Disks {
		if disk.Number == v.disk {
			return disk.Image, nil
		}
	}
	return "", fmt.Errorf("the node has no disk %d any more", v.disk)
}

// judge shows what sgdisk, which is independent of this project, finds on the disk.
func (d *demo) judge(ctx context.Context, image string) error {
	d.title("The disk, as sgdisk sees it")
	var report []byte
	for _, arg := range []string{"-p", "-v"} {
		cmd := exec.CommandContext(ctx, "sgdisk", arg, image)
		out, err := cmd.CombinedOutput()
		fmt.Fprintf(d.out, "$ sgdisk %s %s\n%s", arg, filepath.Base(image), indent(out))
		if err != nil {
			return fmt.Errorf("sgdisk %s %s: %w", arg, image, err)
		}
		report = out
	}
	return d.check(bytes.Contains(report, []byte("No problems found")), "sgdisk finds no problems")
}

func indent(text []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString("  " + line)
	}
	return b.String()
}

func (d *demo) title(text string) { fmt.Fprintf(d.out, "\n%s\n", text) }

// check prints a condition, and returns an error if it is false.
func (d *demo) check(ok bool, format string, args ...any) error {
	d.checks++
	text := fmt.Sprintf(format, args...)
	if !ok {
		fmt.Fprintf(d.out, "  FAILED: %s\n", text)
		return fmt.Errorf("check failed: %s", text)
	}
	fmt.Fprintf(d.out, "  ok: %s\n", text)
	return nil
}

// call makes one call and prints it: the pipe, the method with its request, how long it
// took, and the response.
func call[In, Out proto.Message](ctx context.Context, d *demo, group string, version apiversion.Version, method func(context.Context, In, ...grpc.CallOption) (Out, error), name string, in In) (Out, error) {
	var out Out
	err := d.print(ctx, "csi-proxy-"+group+"-"+version.String(), name+" "+short(in), func(ctx context.Context) (answer string, err error) {
		out, err = method(ctx, in)
		return short(out), err
	})
	return out, err
}

// onNode makes one call of the service that controls the node, and prints it.
func onNode(ctx context.Context, d *demo, name, request string, method func(context.Context) error) error {
	return d.print(ctx, simcontrol.Pipe, name+" "+request, func(ctx context.Context) (string, error) { return "{}", method(ctx) })
}

func (d *demo) print(ctx context.Context, pipeName, request string, call func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d.calls++
	d.pipes[pipeName] = true
	start := time.Now()
	answer, err := call(ctx)
	took := time.Since(start)
	if err != nil {
		answer = err.Error()
	}
	fmt.Fprintf(d.out, "  %-26s %8.2f ms  %s\n  %39s→ %s\n", pipeName, float64(took)/float64(time.Millisecond), request, "", answer)
	if err != nil {
		name, _, _ := strings.Cut(request, " ")
		return fmt.Errorf("%s %s: %w", pipeName, name, err)
	}
	return nil
}

// secretField matches the names of fields that are not printed.
var secretField = regexp.MustCompile(`(?i)password|secret`)

// short returns a message as JSON on one line, shortened, without passwords and secrets.
func short(m proto.Message) string {
	m = proto.Clone(m)
	r := m.ProtoReflect()
	r.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.Kind() == protoreflect.StringKind && !f.IsList() && secretField.MatchString(string(f.Name())) {
			r.Set(f, protoreflect.ValueOfString("***"))
		}
		return true
	})
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err.Error()
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return err.Error()
	}
	const most = 220
	if s := b.String(); len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return b.String()
}

// connectNode connects to the control service of the simulated node.
func connectNode() (*grpc.ClientConn, error) { return transport.Connect(pipe.Path(simcontrol.Pipe)) }

// process is the running daemon.
type process struct {
	cmd    *exec.Cmd
	output *bytes.Buffer // its log, complete after done
	done   chan error
}

// startLimit is after how long a start has failed. A good one takes milliseconds.
const startLimit = 2 * time.Minute

// startDaemon starts the daemon and waits until it serves.
func startDaemon(ctx context.Context, out io.Writer, program string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	pipeEnd, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "$ %s %s\n", program, strings.Join(args, " "))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, output: &bytes.Buffer{}, done: make(chan error, 1)}
	serving := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(pipeEnd)
		for first := true; lines.Scan(); {
			fmt.Fprintln(p.output, lines.Text())
			if first && strings.Contains(lines.Text(), "Serving ") {
				first = false
				close(serving)
			}
		}
		p.done <- cmd.Wait()
	}()
	select {
	case <-serving:
		return p, nil
	case err := <-p.done:
		p.done <- err
		return nil, fmt.Errorf("start csi-proxy-sim: %w\n%s", err, p.output)
	case <-time.After(startLimit):
		p.kill()
		return nil, fmt.Errorf("csi-proxy-sim does not serve after %v\n%s", startLimit, p.output)
	}
}

// stop stops the daemon, and returns an error if its exit code is not 0.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := <-p.done
	p.done <- err
	if err != nil {
		return fmt.Errorf("stop csi-proxy-sim by SIGTERM: %w", err)
	}
	return nil
}

// kill kills the daemon if it still runs.
func (p *process) kill() {
	p.cmd.Process.Kill() // fails if it has ended
	p.done <- <-p.done
}

// log kills the daemon and returns its log, to be joined with an error.
func (p *process) log() error {
	p.kill()
	return fmt.Errorf("log of csi-proxy-sim:\n%s", p.output)
}
