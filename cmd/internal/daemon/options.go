package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"strings"

	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
)

// The hosts that -host names.
const (
	hostWindows   = "windows"
	hostSimulated = "simulated"
)

// options are the command line.
type options struct {
	host           string
	nodeConfig     string
	stateDir       string
	kubeletPath    string
	workingDirs    []string
	services       []string
	requirePrivacy bool
	smb            policy.SMBRules
	formatBackend  node.Backend
	smbBackend     node.Backend
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
func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("csi-proxy", flag.ContinueOnError)
	f.SetOutput(stderr)
	klog.InitFlags(f)

	defaultHost := hostSimulated
	if runtime.GOOS == "windows" {
		defaultHost = hostWindows
	}
	f.StringVar(&o.host, "host", defaultHost, "the node to work on: \"windows\", this machine, or \"simulated\", one that exists only in this process")
	f.StringVar(&o.nodeConfig, "node-config", "", "YAML `file` that describes the simulated node; read when its state directory is empty")
	f.StringVar(&o.stateDir, "state-dir", "", "`directory` that keeps the simulated node between runs; without one it is forgotten at the end")
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
	f.BoolVar(&o.requirePrivacy, "require-privacy", true, "encrypt new SMB mappings")
	f.BoolVar(&o.smb.AllowLoopback, "smb-allow-loopback", false, "let SMB mappings be of shares of this node, through which links lead to any of its directories")
	f.BoolVar(&o.smb.AllowAdminShares, "smb-allow-admin-shares", false, "let SMB mappings be of administrators' shares such as C$, ADMIN$ and IPC$")
	backend := func(name string, to *node.Backend, what string) {
		f.Func(name, "how a Windows node "+what+"; where Windows does not have the one the other is used (default wmi)", func(s string) (err error) {
			*to, err = node.ParseBackend(s)
			return err
		})
	}
	backend("format-backend", &o.formatBackend, "formats volumes: `wmi`, or native, which is fmifs.dll in a process of its own")
	backend("smb-backend", &o.smbBackend, "maps shares: `wmi`, or native, which is NetUseAdd")
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
	switch o.host {
	case hostSimulated:
		for _, f := range []struct {
			name  string
			value node.Backend
		}{{"format-backend", o.formatBackend}, {"smb-backend", o.smbBackend}} {
			if f.value != "" {
				return fmt.Errorf("flag -%s is about Windows, of which a simulated node has no part, and needs -host=%s", f.name, hostWindows)
			}
		}
	case hostWindows:
		for _, f := range []struct{ name, value string }{{"node-config", o.nodeConfig}, {"state-dir", o.stateDir}} {
			if f.value != "" {
				return fmt.Errorf("flag -%s is about a simulated node and needs -host=%s", f.name, hostSimulated)
			}
		}
	default:
		return fmt.Errorf("invalid value %q for flag -host: want %s or %s", o.host, hostWindows, hostSimulated)
	}
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
