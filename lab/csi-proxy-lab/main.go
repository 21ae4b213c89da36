// Command csi-proxy-lab runs the Windows build of a CSI driver on Linux: under Wine, with
// CSI Proxy on a simulated node, the kubelet's directories, a cloud that attaches disks,
// and csi-sanity.
//
//	csi-proxy-lab up
//	csi-proxy-lab run --cloud ebs driver.exe --mode=node --endpoint=ENDPOINT
//	csi-proxy-lab sanity
//	csi-proxy-lab story
//	csi-proxy-lab down
//
// A lab runs in the background, until down.
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
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is a command of the program.
type command struct {
	name, args, does string
	flags            func(*flag.FlagSet, *options)
	run              func(ctx context.Context, o *options) error
}

// options are what a command was called with.
type options struct {
	args   []string
	stdout io.Writer

	plain, beta bool
	node, relay string
	cloud       string
	env         list
	files       list
	before      list
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
		{"up", "[-- CSI-PROXY-FLAG...]", "start the lab: Wine, a simulated node and CSI Proxy, with flags of csi-proxy such as -read-only-disks=keep", func(f *flag.FlagSet, o *options) {
			f.BoolVar(&o.plain, "plain", false, "mounted volumes are plain directories, of the size of this machine's disk")
			f.BoolVar(&o.beta, "beta", false, "CSI Proxy serves the versions before v1 only")
			f.StringVar(&o.node, "node", "", "YAML `file` that describes the node, as for -node-config of csi-proxy-sim")
			f.StringVar(&o.relay, "relay", "", "`path` of csi-proxy-relay.exe; default: beside this program, else it is built with go")
		}, up},
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
		{"files", "", "print the kubelet's directories, as the driver sees them", nil, files},
		{"kill", "", "end the driver as the end of its container does; run starts it again", nil, kill},
		{"down", "", "end the lab and its driver", nil, down},
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
	fmt.Fprintf(stderr, "csi-proxy-lab: %v\n", err)
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
	all := append(commands(), command{name: background, args: commands()[0].args, flags: commands()[0].flags, run: serveLab})
	for _, c := range all {
		if c.name != args[0] {
			continue
		}
		o := &options{stdout: stdout}
		f := flag.NewFlagSet(c.name, flag.ContinueOnError)
		f.SetOutput(stderr)
		f.Usage = func() {
			fmt.Fprintf(f.Output(), "usage: csi-proxy-lab %s [FLAG...] %s\n\n%s.\n\n", c.name, c.args, c.does)
			f.PrintDefaults()
		}
		if c.flags != nil {
			c.flags(f, o)
		}
		switch err := f.Parse(args[1:]); {
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
	fmt.Fprintf(stderr, "csi-proxy-lab: unknown command %q\n", args[0])
	usage(stderr)
	return errUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: csi-proxy-lab COMMAND [FLAG...]\n\nRuns the Windows build of a CSI driver on Linux, under Wine, on a simulated node.\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(t, "  %s\t%s\n", c.name, c.does)
	}
	t.Flush()
	fmt.Fprint(w, "\ncsi-proxy-lab COMMAND --help shows the flags. The lab's files are in $CSI_PROXY_LAB_DIR,\na directory that is new or empty, else in csi-proxy-lab-<user ID> of the directory for\ntemporary files.\n")
}
