package verify

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// options are the flags of the program.
type options struct {
	Simulated       bool   // ask a simulated node instead of this machine
	World           string // of the simulated node
	OnThisNode      bool
	MachineSettings bool
	FirstContact    bool   // only the ten questions on which most depends
	Target          string // address:port,IQN of an iSCSI target
	DryRun          bool
	Only            string // regular expression of sections and tests
	Report          string // the report's path without its extension

	// For the child, which runs one section.
	Wine     bool // this Windows is Wine
	Section  string
	Question string // the only one of the section of questions
	Limit    time.Duration
	Dir      string // directory of what it makes, on the node
	Journal  string
}

// errUsage is an error in the flags, which is printed.
var errUsage = fmt.Errorf("usage")

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("csi-proxy-verify", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.Simulated, "simulated", false, "ask a simulated node instead of this machine, on any system: a rehearsal")
	f.StringVar(&o.World, "world", "", "with -simulated: the `name` of the simulated node's world (strict, kind)")
	f.BoolVar(&o.FirstContact, "first-contact", false, "ask the ten questions on which most depends, in at most five minutes, and print one screen")
	f.BoolVar(&o.OnThisNode, "on-this-node", false, "run although a kubelet or a CSI Proxy runs on this machine")
	f.BoolVar(&o.MachineSettings, "machine-settings", false, "also change the machine: the service MSiSCSI, a local account and a share. Each is put back")
	f.StringVar(&o.Target, "iscsi-target", "", "with -machine-settings: `address:port,IQN` of an iSCSI target whose LUNs nothing uses; "+chapUser+" and "+chapSecret+" have its CHAP account")
	f.BoolVar(&o.DryRun, "dry-run", false, "print what a run would do, and do nothing")
	f.StringVar(&o.Only, "only", "", "run only sections, or tests in them, whose names match this regular `expression`, as in go test -run")
	f.StringVar(&o.Report, "report", "csi-proxy-verify", "write the report to this `path` with .json added")
	f.Usage = func() {
		fmt.Fprint(stderr, "Usage: csi-proxy-verify [flags]\n\n"+
			"Asks this Windows what its documents leave open, and runs the contract of CSI Proxy on it.\n\n")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return o, errUsage
	}
	fail := func(format string, args ...any) (options, error) {
		fmt.Fprintf(stderr, "csi-proxy-verify: "+format+"\n", args...)
		return o, errUsage
	}
	if f.NArg() > 0 {
		return fail("unexpected argument %q", f.Arg(0))
	}
	if o.FirstContact && o.Only != "" {
		return fail("-first-contact is a run of its own, without -only")
	}
	if o.Target != "" {
		if _, _, err := parseTarget(o.Target); err != nil || !o.MachineSettings {
			return fail("-iscsi-target %q: want address:port,IQN, and -machine-settings: %v", o.Target, err)
		}
	}
	if o.World != "" && !o.Simulated {
		return fail("-world needs -simulated")
	}
	if _, err := behavior.Of(nodespec.Config{World: o.World}); err != nil {
		return fail("-world: %v", err)
	}
	for part := range strings.SplitSeq(o.Only, "/") {
		if _, err := regexp.Compile(part); err != nil {
			return fail("-only: %v", err)
		}
	}
	return o, nil
}

// The environment variables with the CHAP account for -iscsi-target.
const (
	chapUser   = "CSI_PROXY_VERIFY_CHAP_USER"
	chapSecret = "CSI_PROXY_VERIFY_CHAP_SECRET"
)

// parseTarget parses -iscsi-target.
func parseTarget(text string) (portal *iscsi.TargetPortal, iqn string, err error) {
	address, iqn, _ := strings.Cut(text, ",")
	at, err := netip.ParseAddrPort(address)
	if err == nil && iqn == "" {
		err = errors.New("no IQN")
	}
	return &iscsi.TargetPortal{TargetAddress: at.Addr().String(), TargetPort: uint32(at.Port())}, iqn, err
}

// backends are the two ways to format volumes and to map shares. The questions are about
// the first one, which is the daemon's default.
var backends = [...]node.Backend{"wmi", "native"}
