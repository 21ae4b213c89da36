package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/similar"
)

// The exit codes; docs/run/csi-proxyctl.md documents them.
const (
	exitOK          = 0
	exitFailure     = 1   // the command failed, or its result is incomplete
	exitUsage       = 2   // wrong usage; nothing was done
	exitFindings    = 3   // doctor found problems
	exitInterrupted = 130 // Ctrl-C, except with --watch, which ends that way
)

// app is the state that subcommands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	connect        func(path string) (*grpc.ClientConn, error)
	output         string
	timeout        time.Duration
	timeoutSet     func() bool // whether --timeout was given
}

// run runs the command. It prints results to stdout and everything else to stderr; each
// line on stderr begins with the name of the command.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	return (&app{stdin: stdin, stdout: stdout, stderr: stderr, connect: connect}).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.command()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout) // --help prints a result
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.Is(err, errUnknown):
		return exitFailure
	case ctx.Err() != nil:
		a.note("interrupted")
		return exitInterrupted
	}
	a.noteError(err)
	if errors.As(err, new(*failure)) {
		return exitFailure
	}
	return exitUsage
}

func (a *app) command() *cobra.Command {
	wait := false
	root := &cobra.Command{
		Use:     "csi-proxyctl",
		Version: version,
		Short:   "Show and call the CSI Proxy of this node",
		Long: `Show what the CSI Proxy of this node serves, call any method of any version of
its API, and find problems of the node.

Exit codes: 0 success, 1 failed, incomplete or unknown, 2 wrong usage, 3 doctor or
why found problems, 130 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if known := formats(c); !slices.Contains(known, a.output) {
				return &hinted{fmt.Errorf("--output %q: want %s", a.output, oneOf(known)), didYouMean(a.output, known)}
			}
			if a.timeout <= 0 {
				return fmt.Errorf("--timeout %v: want more than 0", a.timeout)
			}
			if wait {
				return a.await(c.Context())
			}
			return nil
		},
	}
	f := root.PersistentFlags()
	f.StringVarP(&a.output, "output", "o", formatTable, "`format` of results: table or json; of lists also wide")
	f.DurationVar(&a.timeout, "timeout", 2*time.Minute, "time limit for each response")
	a.timeoutSet = func() bool { return f.Changed("timeout") }
	f.BoolVar(&wait, "wait", false, "first wait until csi-proxy responds, up to --timeout")
	root.Flags().Bool("version", false, "print the version of csi-proxyctl") // without -v, which is the log level of csi-proxy
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(a.callCommand(), a.callsCommand(), a.versionsCommand(), a.diskCommand(), a.volumeCommand(), a.smbCommand(), a.doctorCommand(), a.whyCommand(), a.bundleCommand(), a.stopCommand(), a.nodeCommand())
	needsSubcommand(root)
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return root
}

// flagError adds a hint to the error of a flag that does not exist, and of a duration
// without a unit.
func flagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
		if _, failed := strconv.ParseFloat(invalid.GetValue(), 64); failed == nil {
			return &hinted{err, fmt.Sprintf("a duration needs a unit: --%s %ss", invalid.GetFlag().Name, invalid.GetValue())}
		}
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	return &hinted{err, didYouMean("--"+unknown.GetSpecifiedName(), known)}
}

// group returns a command that has only subcommands.
func group(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.AddCommand(subcommands...)
	needsSubcommand(c)
	return c
}

// needsSubcommand makes a command fail with the list of its subcommands.
func needsSubcommand(c *cobra.Command) {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := didYouMean(args[0], names(c.Commands()))
		if !c.HasParent() && similar.Question(args[0], names(c.Commands())) == "" {
			hint = "csi-proxyctl doctor finds problems of the node, and why explains one; " + hint
		}
		return &hinted{fmt.Errorf("%s has no subcommand %q", c.CommandPath(), args[0]), hint}
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return fmt.Errorf("%s needs a subcommand: %s", c.CommandPath(), strings.Join(names(c.Commands()), ", "))
	}
}

func names(commands []*cobra.Command) []string {
	var all []string
	for _, c := range commands {
		if !c.Hidden {
			all = append(all, c.Name())
		}
	}
	return all
}

// failure is an error of the operation, as opposed to wrong usage.
type failure struct {
	what string // the operation, "disk/v1 GetDiskStats", or "" if the error contains it
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// hinted is an error with a hint.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// explain returns the text for err: the operation, the gRPC code, the message, and the
// hint on a separate line.
func explain(err error) (text, hint string) {
	var f *failure
	if errors.As(err, &f) && f.what != "" {
		text = f.what + ": "
	}
	if s := statusIn(err); s != nil {
		text += brief(err)
		if s.Code() == codes.DeadlineExceeded { // without details it comes from the client
			hint = "csi-proxy did not respond within --timeout; csi-proxyctl calls shows whether it still works on the request, and its log when that has ended"
		}
		for _, d := range s.Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok {
				hint = cmp.Or(info.Metadata["hint"], hint)
			}
		}
	} else {
		text += err.Error()
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			hint = "is csi-proxy running? csi-proxyctl versions shows what is served"
		}
	}
	if h := (*hinted)(nil); errors.As(err, &h) && h.hint != "" {
		hint = h.hint
	}
	return text, hint
}

// statusIn returns the gRPC status in err, or nil. A server whose deadline ends a moment
// before the client's resets the stream, which gRPC reports as Canceled or, if the client's
// deadline has ended as well, as DeadlineExceeded: that is the same timeout.
func statusIn(err error) *status.Status {
	var s interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &s) {
		return nil
	}
	got := s.GRPCStatus()
	if timeout := got.Code() == codes.Canceled || got.Code() == codes.DeadlineExceeded; !timeout || !strings.Contains(got.Message(), "RST_STREAM") {
		return got
	}
	return status.FromContextError(context.DeadlineExceeded)
}

// brief returns err in one line, and a gRPC status as its code and message.
func brief(err error) string {
	if s := statusIn(err); s != nil {
		return s.Code().String() + ": " + s.Message()
	}
	return err.Error()
}
