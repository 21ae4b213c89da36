// Command csi-proxy-lab runs the Windows build of a CSI driver on Linux: under Wine, with
// CSI Proxy on a simulated node, the kubelet's directories, a cloud that attaches disks,
// and csi-sanity. Without a command it starts the lab, and a shell in which the commands reach it;
// the lab ends with the shell:
//
//	csi-proxy-lab
//	csi-proxy-lab run --cloud ebs driver.exe --mode=node --endpoint=ENDPOINT
//	csi-proxy-lab sanity
//	csi-proxy-lab story
//	exit
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// command is a command of the program.
type command struct {
	name, args, does string
	flags            func(*flag.FlagSet, *options)
	run              func(ctx context.Context, o *options) error
}

// options are what a command was called with.
type options struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer

	beta   bool
	node   string
	cloud  string
	env    list
	files  list
	before list
	class
}

// class is what the flags say of a StorageClass.
type class struct {
	secrets             string
	parameters, context list
	mountFlags          list
}

// list is a flag that can be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// errUsage is the error for a wrong command line, after its text.
var errUsage = errors.New("usage")

func commands() []command {
	cloudFlag := func(f *flag.FlagSet, o *options) {
		f.StringVar(&o.cloud, "cloud", "", "`cloud` whose disks are attached: "+strings.Join(clouds(), ", "))
	}
	volumeFlags := func(f *flag.FlagSet, o *options) {
		cloudFlag(f, o)
		f.StringVar(&o.secrets, "secrets", "", "`file` with the secrets of the volume, NAME=value on each line, or - for standard input; they replace those that the cloud has")
		f.Var(&o.parameters, "parameter", "`NAME=value` of CreateVolume; can be given several times")
		f.Var(&o.context, "context", "`NAME=value` of the volume context; can be given several times")
		f.Var(&o.mountFlags, "mount-flag", "`option` of the mount; can be given several times")
	}
	return []command{
		{"", "[-- CSI-PROXY-FLAG...]", "start the lab: Wine, a simulated node and CSI Proxy, with flags of csi-proxy such as -read-only-disks=keep; and a shell", func(f *flag.FlagSet, o *options) {
			f.BoolVar(&o.beta, "beta", false, "CSI Proxy serves the versions before v1 only")
			f.StringVar(&o.node, "node", "", "YAML `file` that describes the node, as for -node-config of csi-proxy-sim")
		}, start},
		{"run", "DRIVER.exe [ARGUMENT...]", "run a driver, or any program such as a test, in place of the one that runs; ENDPOINT and ADDRESS in an argument stand for where it must listen", func(f *flag.FlagSet, o *options) {
			cloudFlag(f, o)
			f.Var(&o.env, "env", "`NAME=value` of the driver's environment; can be given several times")
			f.Var(&o.files, "file", "`PATH=FILE`: the driver has this file at the path, such as 'C:\\k\\azure.json=azure.json', as from a ConfigMap or a Secret; can be given several times")
		}, runDriver},
		{"sanity", "", "run csi-sanity on the driver", volumeFlags, runSanity},
		{"story", "", "make the calls of a volume's life, each node call twice, with a pod that writes and reads a file", func(f *flag.FlagSet, o *options) {
			volumeFlags(f, o)
			f.Var(&o.before, "before", "`STEP=COMMAND` of the shell, run before the first step of this name, such as 'NodePublishVolume=csi-proxy-lab proxy restart'; can be given several times")
		}, runStory},
		{"proxy", "stop|start|restart|kill", "stop or start CSI Proxy, as an update or a crash does", nil, changeProxy},
		{"logs", "", "print the output of the driver", nil, logs},
		{"kill", "", "end the driver as the end of its container does; run starts it again", nil, kill},
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, &options{stdin: stdin, stdout: stdout, stderr: stderr})
	var shell ended
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	case errors.As(err, &shell): // it has said why
		return int(shell)
	}
	fmt.Fprintf(stderr, "csi-proxy-lab: %v\n", err)
	return 1
}

func dispatch(ctx context.Context, args []string, o *options) error {
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	for _, c := range commands() {
		if c.name != name {
			continue
		}
		f := flag.NewFlagSet(c.name, flag.ContinueOnError)
		f.SetOutput(o.stderr)
		f.Usage = func() {
			if c.name == "" {
				usage(o.stderr)
			} else {
				fmt.Fprintf(o.stderr, "usage: csi-proxy-lab %s [FLAG...] %s\n\n%s.\n\n", c.name, c.args, c.does)
			}
			f.PrintDefaults()
		}
		if c.flags != nil {
			c.flags(f, o)
		}
		switch err := f.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil
		case err != nil:
			return errUsage
		}
		o.args = f.Args()
		if !strings.HasPrefix(c.args, "[") && (c.args == "") != (len(o.args) == 0) {
			f.Usage()
			return errUsage
		}
		return c.run(ctx, o)
	}
	fmt.Fprintf(o.stderr, "csi-proxy-lab: unknown command %q\n", name)
	usage(o.stderr)
	return errUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: csi-proxy-lab [FLAG...] [-- CSI-PROXY-FLAG...]\n       csi-proxy-lab COMMAND [FLAG...]\n\nRuns the Windows build of a CSI driver on Linux, under Wine, on a simulated node. Without a command it\nstarts the lab and a shell, and the lab ends with the shell. In the shell:\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands()[1:] {
		fmt.Fprintf(t, "  %s\t%s\n", c.name, c.does)
	}
	t.Flush()
	fmt.Fprint(w, "\ncsi-proxy-lab COMMAND --help shows the flags of a command.\n\n")
}
