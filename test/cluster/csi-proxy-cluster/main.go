// Command csi-proxy-cluster starts Kubernetes over simulated Windows nodes, on one Linux machine,
// and a shell in which kubectl and csi-proxyctl reach it. The cluster ends with the shell:
//
//	csi-proxy-cluster --nodes 3
//	csi-proxy-cluster ./my-driver --endpoint=ENDPOINT --nodeid=NODE
//	csi-proxy-cluster < commands.sh
//
// The kubelets are the build for Linux. Package cluster says what that means.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("csi-proxy-cluster", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, "usage: csi-proxy-cluster [FLAG...] [DRIVER [ARGUMENT...]]\n\nStarts Kubernetes over simulated Windows nodes, with a driver or the example driver on each, and a\nshell. The cluster ends with the shell. The kubelets are the build for Linux.\n\n")
		f.PrintDefaults()
	}
	nodes := f.Int("nodes", 1, "`number` of nodes")
	proxy := f.String("proxy", programs.New, "`build` of CSI Proxy: old does not serve disk/v1, new serves all")
	source := f.String("source", ".", "`directory` in a checkout of CSI Proxy, from which the programs are built")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case *nodes < 1 || !slices.Contains(programs.Builds(), *proxy):
		fmt.Fprintf(stderr, "csi-proxy-cluster: --nodes=%d --proxy=%s: want at least one node, and the build %s\n", *nodes, *proxy, strings.Join(programs.Builds(), " or "))
		return 2
	}
	err := start(ctx, *source, cluster.Config{Nodes: *nodes, Proxy: *proxy, Driver: f.Args()}, stdin, stdout, stderr)
	var shell *exec.ExitError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "csi-proxy-cluster: interrupted")
		return 1
	case errors.As(err, &shell): // it has said why
		return max(1, shell.ExitCode())
	}
	fmt.Fprintf(stderr, "csi-proxy-cluster: %v\n", err)
	return 1
}

// start builds the programs, starts the cluster, and runs the shell in it.
func start(ctx context.Context, source string, config cluster.Config, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	source, err = programs.Source(source)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "Building what is not built yet; Kubernetes takes minutes, once.")
	if config.Programs, err = programs.Build(ctx, source, stdout); err != nil {
		return err
	}
	if config.Dir, err = os.MkdirTemp("", "csi-cluster"); err != nil {
		return err
	}
	began := time.Now()
	c, err := cluster.Start(ctx, config)
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, os.RemoveAll(config.Dir))
	}
	if err != nil {
		return fmt.Errorf("%w\nthe output of the programs is in %s", err, config.Dir)
	}
	defer func() { err = errors.Join(err, c.Close(), os.RemoveAll(config.Dir)) }()

	bin := filepath.Join(config.Dir, "bin")
	kubectl := fmt.Sprintf("#!/bin/sh\nexec '%s' kubectl \"$@\"\n", config.Programs.Kubernetes)
	if err := errors.Join(os.Mkdir(bin, 0o700), os.WriteFile(filepath.Join(bin, "kubectl"), []byte(kubectl), 0o700)); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d nodes are ready, after %.1f s. kubectl and csi-proxyctl of this shell reach the cluster and node-1;\nthe output of each program is in %s.\n", config.Nodes, time.Since(began).Seconds(), config.Dir)
	shell := exec.CommandContext(ctx, cmp.Or(os.Getenv("SHELL"), "/bin/sh"))
	shell.Env = append(os.Environ(),
		"KUBECONFIG="+c.Servers.Kubeconfig(), "CSI_PROXY_DIR="+c.Nodes[0].Pipes(),
		"PATH="+strings.Join([]string{bin, filepath.Join(source, "bin"), os.Getenv("PATH")}, string(os.PathListSeparator)))
	shell.Stdin, shell.Stdout, shell.Stderr = stdin, stdout, stderr
	return shell.Run()
}
