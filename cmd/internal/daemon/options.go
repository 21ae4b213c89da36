package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
)

// options are the command line.
type options struct {
	kubeletPath    string
	workingDirs    []string
	services       []string
	requirePrivacy bool
	formatExisting bool
	anyPassword    bool
	smb            policy.SMBRules
	metricsAddress string
	windowsService bool
	logsToStderr   bool
}

// errUsage is a command line that is wrong and has been answered with usage.
var errUsage = errors.New("wrong usage")

// parse reads the command line, with the rules of package flag: one dash or
// two, booleans need "=false", further arguments are ignored. It is
// flag.ErrHelp where help was asked for, errUsage if the line is wrong; both
// have been answered on stderr.
func parse(p Program, args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	f.SetOutput(stderr)
	klog.InitFlags(f)

	p.Host.AddFlags(f)
	f.StringVar(&o.kubeletPath, "kubelet-path", `C:\var\lib\kubelet`, "the kubelet's `directory`; always one of the working directories")
	f.Func("working-dir", "further `directory` in which paths of requests may lie; repeatable", func(dir string) error {
		if dir == "" {
			return errors.New("the empty path would allow every path")
		}
		o.workingDirs = append(o.workingDirs, dir)
		return nil
	})
	f.Func(policy.ServiceFlag, "further Windows service, by its key `name`, that may be started and stopped beside "+strings.Join(policy.DefaultServices(), ", ")+"; repeatable. All may be asked about", func(name string) error {
		if strings.TrimSpace(name) == "" || strings.ContainsAny(name, `/\*?,`) {
			return errors.New("want the key name of one service, without wildcards")
		}
		o.services = append(o.services, name)
		return nil
	})
	f.Func("format-existing", "what FormatVolume does with an NTFS file system that holds data: refuse, or `ntfs`, which formats it (default refuse)", func(what string) error {
		if what != "refuse" && what != "ntfs" {
			return errors.New("want refuse or ntfs")
		}
		o.formatExisting = what == "ntfs"
		return nil
	})
	f.BoolVar(&o.requirePrivacy, "require-privacy", true, "encrypt new SMB mappings")
	f.BoolVar(&o.anyPassword, "smb-accept-unverified-passwords", false, "let a request use an SMB mapping in use whose password is unknown or another one, where the server cannot be asked about the password of the request")
	f.BoolVar(&o.smb.AllowLoopback, "smb-allow-loopback", false, "let SMB mappings be of shares of this node, through which links lead to any of its directories")
	f.BoolVar(&o.smb.AllowAdminShares, "smb-allow-admin-shares", false, "let SMB mappings be of administrators' shares such as C$, ADMIN$ and IPC$")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", "", "`host:port` for metrics; empty for none")
	f.BoolVar(&o.windowsService, "windows-service", false, "run as the Windows service "+serviceName)

	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, errUsage // Parse has printed the error and the usage
	}
	o.logsToStderr = f.Lookup("logtostderr").Value.String() == "true"
	if err := o.check(); err != nil {
		fmt.Fprintln(stderr, err)
		f.Usage()
		return nil, errUsage
	}
	return o, nil
}

func (o *options) check() error {
	if strings.TrimSpace(o.kubeletPath) == "" {
		return errors.New("flag -kubelet-path is empty, which would allow every path")
	}
	return nil
}

// allWorkingDirs are the directories in which paths of requests may lie, as
// the log and errors list them.
func (o *options) allWorkingDirs() []string {
	return append(o.workingDirs[:len(o.workingDirs):len(o.workingDirs)], o.kubeletPath)
}

// allowedServices are the services that may be started and stopped.
func (o *options) allowedServices() []string { return append(policy.DefaultServices(), o.services...) }

// rules are those for the host.
func (o *options) rules() Rules {
	return Rules{
		WorkingDirs: o.allWorkingDirs(), AllowedServices: o.allowedServices(), FormatExisting: o.formatExisting,
		RequirePrivacy: o.requirePrivacy, AcceptUnverifiedPasswords: o.anyPassword, AllowLoopback: o.smb.AllowLoopback,
	}
}
