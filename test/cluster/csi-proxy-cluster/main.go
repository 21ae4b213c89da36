// Command csi-proxy-cluster runs Kubernetes over simulated Windows nodes, on one Linux
// machine, in the background:
//
//	csi-proxy-cluster up --nodes 3
//	csi-proxy-cluster kubectl apply -f pod.yaml
//	csi-proxy-cluster status
//	csi-proxy-cluster kill-kubelet node-1
//	csi-proxy-cluster upgrade
//	csi-proxy-cluster down
//
// The kubelets are the build for Linux. Package cluster says what that means.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is a command of the program.
type command struct {
	name, args, does string
	run              func(ctx context.Context, o *options) error
}

// options are what a command was called with.
type options struct {
	args           []string
	stdout, stderr io.Writer

	nodes  int
	source string
	proxy  string
}

// errUsage is the error for a wrong command line, after its text.
var errUsage = errors.New("usage")

func commands() []command {
	return []command{
		{"up", "[DRIVER [ARGUMENT...]]", "start a cluster, with a driver or the example driver on each node", up},
		{"status", "", "print the nodes, their programs, and what volumes have on them", ask("status")},
		{"kubectl", "ARGUMENT...", "run kubectl in the cluster", kubectl},
		{"kill-kubelet", "NODE", "end a kubelet at once, and start it again", ask("kill-kubelet")},
		{"reboot", "NODE", "restart a node with everything on it", ask("reboot")},
		{"upgrade", "[BUILD]", "replace CSI Proxy on each node by the build new or old, one node after the other", ask("upgrade")},
		{"down", "", "end the cluster, and remove its files", down},
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, stdout, stderr)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	fmt.Fprintf(stderr, "csi-proxy-cluster: %v\n", err)
	return 1
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		usage(stderr)
		return errUsage
	}
	if args[0] == "--help" || args[0] == "-h" || args[0] == "help" {
		usage(stdout)
		return nil
	}
	for _, c := range append(commands(), command{name: background, args: "[DRIVER [ARGUMENT...]]", run: serve}) {
		if c.name != args[0] {
			continue
		}
		o := &options{stdout: stdout, stderr: stderr, args: args[1:]}
		if c.name == "kubectl" {
			return c.run(ctx, o) // its flags are kubectl's
		}
		f := flag.NewFlagSet(c.name, flag.ContinueOnError)
		f.SetOutput(stderr)
		f.Usage = func() {
			fmt.Fprintf(f.Output(), "usage: csi-proxy-cluster %s [FLAG...] %s\n\n%s.\n\n", c.name, c.args, c.does)
			f.PrintDefaults()
		}
		if c.name == "up" || c.name == background {
			f.IntVar(&o.nodes, "nodes", 1, "`number` of nodes")
			f.StringVar(&o.proxy, "proxy", programs.New, "`build` of CSI Proxy, which upgrade replaces: old does not serve disk/v1, new serves all")
			f.StringVar(&o.source, "source", ".", "`directory` in a checkout of CSI Proxy, from which the programs are built")
		}
		switch err := f.Parse(args[1:]); {
		case errors.Is(err, flag.ErrHelp):
			return nil
		case err != nil:
			return errUsage
		}
		o.args = f.Args()
		if c.args == "" && len(o.args) > 0 || c.args == "NODE" && len(o.args) != 1 || c.args == "[BUILD]" && len(o.args) > 1 || o.proxy != "" && !slices.Contains(programs.Builds(), o.proxy) || o.nodes < 0 || (c.name == "up" && o.nodes == 0) {
			f.Usage()
			return errUsage
		}
		return c.run(ctx, o)
	}
	fmt.Fprintf(stderr, "csi-proxy-cluster: unknown command %q\n", args[0])
	usage(stderr)
	return errUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: csi-proxy-cluster COMMAND [FLAG...]\n\nRuns Kubernetes over simulated Windows nodes. The kubelets are the build for Linux.\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(t, "  %s %s\t%s\n", c.name, c.args, c.does)
	}
	t.Flush()
	fmt.Fprint(w, "\nThe cluster's files are in $CSI_PROXY_CLUSTER_DIR, a new directory whose path has at most\n40 characters, else in csi-proxy-cluster-<user ID> of the directory for temporary files.\n")
}
