// Command screens makes the pictures of docs/screens. It starts csi-proxy-sim with the
// node of node.yaml, runs csi-proxyctl, and draws the output as SVG. `make generate` runs
// it.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/hack/internal/generated"
)

// release is the version that the programs in the pictures show.
const release = "v2.0.0"

// limit is for everything. Building takes most of it.
const limit = 5 * time.Minute

//go:embed node.yaml
var node []byte

// A screen is a picture of commands and their output.
type screen struct {
	name     string
	commands []string // of csi-proxyctl; arguments have no blanks
}

// before are commands after which something is wrong with the node.
var before = [...]string{
	"versions --wait --timeout 30s",
	"call disk/v1 SetDiskState disk_number=2 is_online=false",
	`smb new \\nas\backup --user ann`,
}

var screens = [...]screen{
	{"disk-list", []string{"disk list", "disk list 1 --output yaml"}},
	{"versions", []string{"versions"}},
	{"doctor", []string{"doctor"}},
}

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stderr)) }

func run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("screens", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "the project's `directory`")
	check := flags.Bool("check", false, "write nothing; fail if a picture is out of date")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	pictures, err := take(ctx, *root)
	if err != nil {
		fmt.Fprintf(stderr, "screens: %v\n", err)
		return 1
	}
	if err := generated.Sync(filepath.Join(*root, "docs", "screens"), pictures, *check); err != nil {
		fmt.Fprintf(stderr, "screens: %v\n", err)
		return 1
	}
	return 0
}

// take returns all pictures by the names of their files.
func take(ctx context.Context, root string) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "csi-screens")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-X main.version="+release, "-o", dir, "./cmd/csi-proxy-sim", "./cmd/csi-proxyctl")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "node.yaml"), node, 0o600); err != nil {
		return nil, err
	}

	env := append(os.Environ(), "CSI_PROXY_DIR="+dir, "CSI_PROXY_SMB_PASSWORD=for-tests-only")
	daemon := exec.CommandContext(ctx, filepath.Join(dir, "csi-proxy-sim"), "-node-config="+filepath.Join(dir, "node.yaml"))
	daemon.Env = env
	var log bytes.Buffer
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		return nil, err
	}
	defer func() {
		daemon.Process.Signal(os.Interrupt) // so that it removes its temporary files
		daemon.Wait()
	}()
	ctl := func(command string) (string, error) {
		c := exec.CommandContext(ctx, filepath.Join(dir, "csi-proxyctl"), strings.Fields(command)...)
		c.Env = env
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, command := range before {
		if out, err := ctl(command); err != nil {
			daemon.Process.Kill()
			daemon.Wait() // its log is complete now
			return nil, fmt.Errorf("csi-proxyctl %s: %w\n%s%s", command, err, out, &log)
		}
	}
	pictures := map[string][]byte{}
	for _, s := range screens {
		var lines []string
		for _, command := range s.commands {
			out, err := ctl(command)
			if err != nil && s.name != "doctor" { // it exits with 3 if something is wrong
				return nil, fmt.Errorf("csi-proxyctl %s: %w\n%s", command, err, out)
			}
			lines = append(lines, prompt+"csi-proxyctl "+command)
			lines = append(lines, strings.Split(strings.TrimRight(out, "\n"), "\n")...)
		}
		pictures[s.name+".svg"] = draw(lines)
	}
	return pictures, nil
}
