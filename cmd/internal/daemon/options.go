package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/configfile"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/logs"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/profiles"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/flags"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/similar"
)

// options are the parsed command line.
type options struct {
	flags.Served
	metricsAddress string
	pprofAddress   string
	pipeSDDL       string
	audit          bool
	adminPipe      bool
	windowsService bool
	service        string // its name, once it runs
	log            logs.Options
	logs           logs.Files
	unserved       sync.Map // why nothing is served at an address, or nil, by its flag
	events         *events  // nil if the program is no Windows service

	config   string    // the configuration file, or empty
	settings []setting // of all flags, by name
}

// A usageError is the error for a wrong command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// parse parses the command line with package flag: flags have one dash or two, booleans
// need "=false", and further arguments are ignored. Flags that it does not have are taken
// from the configuration file, if it names one. It fails with flag.ErrHelp for -help after
// printing the usage to stderr, and with a usageError for a wrong command line or file. Then
// the options say where to log, and nothing else.
func parse(p Program, args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {
		fmt.Fprintf(stderr, "Usage of %s:\n", p.Name)
		if p.Verbs != "" {
			fmt.Fprintf(stderr, "\n%s\n", p.Verbs)
		}
		f.SetOutput(stderr)
		f.PrintDefaults()
	}
	o.log = logs.Options{Program: p.Name, Version: p.Version}
	addLogFlags(f, &o.log)
	p.Host.AddFlags(f)
	o.Served.Add(f)
	f.StringVar(&o.metricsAddress, metricsFlag, "", "`host:port` on which to serve metrics; default: no metrics")
	f.StringVar(&o.pprofAddress, pprofFlag, "", "loopback `address:port`, such as 127.0.0.1:6060, on which to serve profiles of this process for go tool pprof; default: no profiles")
	f.BoolVar(&o.audit, "audit-log", true, "log each request that changes the node, with the calling process and the result")
	f.BoolVar(&o.adminPipe, "admin-pipe", true, "serve the pipe csi-proxy-admin, with which administrators of the node clear disks and see the calls in flight and the last that failed")
	f.StringVar(&o.pipeSDDL, "pipe-sddl", "", "`SDDL` of the security descriptor of the pipes; default: administrators may connect, LocalSystem and the account of this process have all rights")
	f.BoolVar(&o.windowsService, "windows-service", false, "run as a Windows service")
	f.StringVar(&o.config, configFlag, "", "`file` with flags; those of the command line come first")

	err := o.parse(f, args)
	if errors.Is(err, flag.ErrHelp) {
		f.Usage()
		return nil, err
	}
	if err == nil {
		err = o.check()
	}
	readLogFlags(f, &o.log)
	if err != nil {
		return o, &usageError{err}
	}
	return o, nil
}

// addLogFlags adds the flags of the log, and changes those of klog whose meaning is ours.
func addLogFlags(f *flag.FlagSet, o *logs.Options) {
	klog.InitFlags(f)
	size := f.Lookup(logSizeFlag)
	size.DefValue = "100"
	size.Usage = "size in `MiB` beyond which the log file becomes an earlier one and a new one begins (no effect when -logtostderr=true); 0 means no limit"
	_ = size.Value.Set(size.DefValue) // cannot fail: it is a number
	flags.Choice(f, "logging-format", "text", "format of the log: text, or `json`, with an object on each line", func(s string) error {
		if s != "text" && s != "json" {
			return errors.New("want text or json")
		}
		o.JSON = s == "json"
		return nil
	})
	f.UintVar(&o.Limits.Backups, "log-file-backups", 5, "`number` of earlier log files that are kept")
	f.DurationVar(&o.Limits.Age, "log-file-max-age", 30*24*time.Hour, "`time` for which earlier log files are kept; 0 means no limit")
}

// The flags of addresses.
const metricsFlag, pprofFlag = "metrics-bind-address", "pprof-bind-address"

// logSizeFlag is the flag of klog with the size of a log file.
const logSizeFlag = "log_file_max_size"

// readLogFlags reads the flags of the log that klog has.
func readLogFlags(f *flag.FlagSet, o *logs.Options) {
	value := func(name string) string { return f.Lookup(name).Value.String() }
	o.ToStderr = value("logtostderr") == "true"
	o.File, o.Dir = value("log_file"), value("log_dir")
	o.SkipHeader = value("skip_log_headers") == "true"
	// The flags have checked their values.
	size, _ := strconv.ParseUint(value(logSizeFlag), 10, 64)
	o.Limits.Bytes = int64(min(size, math.MaxInt64>>20)) << 20
	o.Verbosity, _ = strconv.Atoi(value("v"))
}

// parseFlags is f.Parse, without printing. The error for an unknown flag has similar ones.
func parseFlags(f *flag.FlagSet, args []string) error {
	usage := f.Usage
	f.Usage = func() {}
	err := f.Parse(args)
	f.Usage = usage
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	unknown, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return err
	}
	var known []string
	f.VisitAll(func(f *flag.Flag) { known = append(known, "-"+f.Name) })
	if question := similar.Question("-"+unknown, known); question != "" {
		return fmt.Errorf("%w; %s", err, question)
	}
	return err
}

// parse sets the flags from the configuration file and the command line. If the file is
// wrong, it sets those of the command line; if that is, those before the wrong one.
func (o *options) parse(f *flag.FlagSet, args []string) (err error) {
	defer func() {
		if err != nil {
			_ = parseFlags(f, args)
		}
	}()
	given, err := givenFlags(f, args)
	if err != nil {
		return err
	}
	var entries []configfile.Entry
	var file string
	if names := given[configFlag]; names != nil {
		file = names[len(names)-1]
		if entries, err = readConfig(f, file); err != nil {
			return err
		}
	}
	// A list of the command line replaces that of the file.
	f.VisitAll(func(fl *flag.Flag) {
		if l, ok := fl.Value.(*flags.List); ok && given[fl.Name] != nil {
			l.Clear()
		}
	})
	if err := parseFlags(f, args); err != nil {
		return err
	}
	o.settings = settingsOf(f, given, file, entries)
	return nil
}

// check checks what one flag alone does not show.
func (o *options) check() error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.windowsService && o.config != "" && !filepath.IsAbs(o.config) {
		return fmt.Errorf("flag -config=%s: want an absolute path, because a service starts in the directory of Windows", o.config)
	}
	if o.pprofAddress != "" {
		if err := profiles.CheckAddress(o.pprofAddress); err != nil {
			return fmt.Errorf("flag -pprof-bind-address=%s: %w", o.pprofAddress, err)
		}
	}
	if age := o.log.Limits.Age; age < 0 {
		return fmt.Errorf("flag -log-file-max-age: %s: want 0, which means no limit, or a time such as 720h", age)
	}
	return nil
}

// openPipes returns a warning if groups such as Everyone may connect to the pipes, or "".
func (o *options) openPipes() string {
	groups := pipes.OpenTo(o.pipeSDDL)
	if o.pipeSDDL == "" || len(groups) == 0 {
		return ""
	}
	return fmt.Sprintf("flag -pipe-sddl lets %s connect to the pipes: each of their programs on this node may call the API; name the account of a driver instead if you can", strings.Join(groups, ", "))
}
