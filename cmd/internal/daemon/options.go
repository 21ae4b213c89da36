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
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/similar"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// options are the parsed command line.
type options struct {
	kubeletPath    string
	workingDirs    []string
	services       []string
	requirePrivacy bool
	rules          rules.Rules // of the flags that set a field as it is
	smb            policy.SMBRules
	metricsAddress string
	pprofAddress   string
	pipeSDDL       string
	enabledAPIs    []string
	readOnly       bool
	ignoreFields   bool
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
	f.StringVar(&o.kubeletPath, "kubelet-path", `C:\var\lib\kubelet`, "`directory` of the kubelet, which is always a working directory")
	list(f, "working-dir", &o.workingDirs, "additional working `directory`; requests may use only paths in working directories; repeatable", func(dir string) error {
		if dir == "" {
			return errors.New("want a directory; an empty path would allow every path")
		}
		return nil
	})
	list(f, policy.ServiceFlag, &o.services, "key `name` of another Windows service that may be started and stopped, in addition to "+strings.Join(policy.DefaultServices(), ", ")+"; repeatable; requests may query all services", func(name string) error {
		if strings.TrimSpace(name) == "" || strings.ContainsAny(name, `/\*?,`) {
			return errors.New("want the key name of one service, without wildcards")
		}
		return nil
	})
	choice(f, "format-existing", &o.rules.FormatExisting, "refuse", "ntfs", "what FormatVolume does with an NTFS file system that holds data: refuse, or `ntfs`, which formats it")
	list(f, "protected-dir", &o.rules.ProtectedDirs, "`directory` whose disk is not partitioned, formatted, resized or taken offline, such as that of the container storage; repeatable; those of Windows, of page files, of working directories and of containerd and docker in C:\\ProgramData are protected always", func(dir string) error {
		if strings.TrimSpace(dir) == "" {
			return errors.New("want a directory")
		}
		return nil
	})
	choice(f, "disk-locations", &o.rules.AllDiskLocations, "usable", "all", "which disks ListDiskLocations lists, among which drivers look for a LUN: usable, without the temporary disk of an Azure machine, and without one that Windows needs if another disk has its LUN, or `all`")
	choice(f, "read-only-disks", &o.rules.KeepReadOnly, "writable", "keep", "what SetDiskState does with a read-only disk when it takes it online: writable, which makes it so if its storage can be written, or `keep`")
	Choice(f, "disk-content", "strict", "which content of a disk may be overwritten: strict, which is none; `cleaned`, which is what a disk without partitions still has after diskpart clean or Clear-Disk, behind its blank first and last MiB; or unknown, which is the same and all content that is not recognized", func(s string) error {
		switch o.rules.DiskContent = rules.DiskContent(s); o.rules.DiskContent {
		case rules.DiskContentCleaned, rules.DiskContentUnknown:
			return nil
		}
		if o.rules.DiskContent = rules.DiskContentStrict; s != "strict" {
			return errors.New("want strict, cleaned or unknown")
		}
		return nil
	})
	choice(f, "volume-root-access", &o.rules.UsersModify, "windows", "users-modify", "who may change what on a volume that FormatVolume formats: windows, which leaves the rights that Windows gives, or `users-modify`, with which the group Users, and so ordinary containers, may change everything")
	f.BoolVar(&o.requirePrivacy, "require-privacy", true, "encrypt new SMB mappings")
	f.BoolVar(&o.rules.AcceptUnverifiedPasswords, "smb-accept-unverified-passwords", false, "let requests use an SMB mapping in use with another or unknown password, if the server cannot verify the password of the request")
	f.BoolVar(&o.smb.AllowLoopback, "smb-allow-loopback", false, "allow SMB mappings of shares of this node, through which links can lead to any directory")
	f.BoolVar(&o.smb.AllowAdminShares, "smb-allow-admin-shares", false, "allow SMB mappings of administrative shares such as C$, ADMIN$ and IPC$")
	f.StringVar(&o.metricsAddress, metricsFlag, "", "`host:port` on which to serve metrics; default: no metrics")
	f.StringVar(&o.pprofAddress, pprofFlag, "", "loopback `address:port`, such as 127.0.0.1:6060, on which to serve profiles of this process for go tool pprof; default: no profiles")
	list(f, "enable-api", &o.enabledAPIs, "`group` or group/version to serve, or several with commas between them; repeatable; default: all", func(string) error { return nil })
	f.BoolVar(&o.readOnly, "read-only-api", false, "refuse requests that change the node")
	choice(f, "unknown-fields", &o.ignoreFields, "refuse", "log", "what becomes of a request with a field that the called version of the API does not have: refuse, or `log`, which ignores the field")
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
	Choice(f, "logging-format", "text", "format of the log: text, or `json`, with an object on each line", func(s string) error {
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
		if l, ok := fl.Value.(*listValue); ok && given[fl.Name] != nil {
			*l.to = nil
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
	if strings.TrimSpace(o.kubeletPath) == "" {
		return errors.New("flag -kubelet-path: want a directory; an empty path would allow every path")
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

// allWorkingDirs returns the working directories in the order of logs and errors.
func (o *options) allWorkingDirs() []string {
	return append(o.workingDirs[:len(o.workingDirs):len(o.workingDirs)], o.kubeletPath)
}

// apis returns the groups and versions to serve. None means all.
func (o *options) apis() []string {
	var all []string
	for _, names := range o.enabledAPIs {
		all = append(all, strings.Split(names, ",")...)
	}
	return all
}

// allowedServices returns the services that may be started and stopped.
func (o *options) allowedServices() []string { return append(policy.DefaultServices(), o.services...) }

// hostRules returns the rules that the services of the host keep.
func (o *options) hostRules() rules.Rules {
	r := o.rules
	r.WorkingDirs, r.AllowedServices = o.allWorkingDirs(), o.allowedServices()
	r.NoSMBPrivacy = !o.requirePrivacy
	return r
}
