package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// host is the node that is served.
type host struct {
	pipes []apiserver.Pipe
	// survey tells the log what earlier processes left on the node.
	survey func(context.Context) error
	close  func() error
}

// surveyOf is the survey of an SMB service that has one, else one that finds nothing.
func surveyOf(s smb.Interface) func(context.Context) error {
	if s, ok := s.(interface{ Survey(context.Context) error }); ok {
		return s.Survey
	}
	return func(context.Context) error { return nil }
}

func openHost(o *options) (*host, error) {
	dirs, err := policy.ParseDirs(o.allWorkingDirs())
	if err != nil {
		return nil, fmt.Errorf("working directories: %w", err)
	}
	if o.host == hostSimulated {
		return openSimulated(o, dirs)
	}
	return openWindows(o, dirs)
}

// openWindows serves the Windows that this process runs on.
func openWindows(o *options, dirs policy.Dirs) (*host, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n, err := node.OpenNative(node.NativeOptions{Format: o.formatBackend, SMB: o.smbBackend, FormatHelper: exe})
	if err != nil {
		return nil, fmt.Errorf("-host=%s: %w", hostWindows, err)
	}
	n.API = win32.Trace(n.API, n.Log)
	n.WorkingDirs = o.allWorkingDirs()
	n.AllowedServices = o.allowedServices()
	d, err := disk.New(diskapi.On(n))
	if err != nil {
		return nil, err
	}
	v, err := volume.New(volumeapi.On(n))
	if err != nil {
		return nil, err
	}
	f, err := filesystem.New(filesystemapi.On(n))
	if err != nil {
		return nil, err
	}
	s, err := system.New(systemapi.On(n))
	if err != nil {
		return nil, err
	}
	m, err := smb.New(smbapi.On(n).RequirePrivacy(o.requirePrivacy), f)
	if err != nil {
		return nil, err
	}
	i, err := iscsi.New(iscsiapi.On(n))
	if err != nil {
		return nil, err
	}
	g := wire.Groups{Disk: d, Volume: v, Filesystem: f, ISCSI: i, SMB: m, System: s}
	if o.smb.ThisNode, err = thisMachine(); err != nil && !o.smb.AllowLoopback {
		// No reason to keep a node from its disks.
		klog.ErrorS(err, "SMB is not served: mappings of this node's own shares, which are not allowed, are recognised by its names and addresses, and Windows does not tell them")
		g.SMB = nil
	}
	return &host{pipes: pipes(g, o, dirs), survey: surveyOf(g.SMB), close: func() error { return nil }}, nil
}

// openSimulated serves a node that exists in this process only, and the service
// that controls it.
func openSimulated(o *options, dirs policy.Dirs) (*host, error) {
	config, err := nodeConfig(o.nodeConfig)
	if err != nil {
		return nil, err
	}
	if o.stateDir != "" {
		config.StateDir = o.stateDir
	}
	config.WorkingDirs = o.allWorkingDirs()
	config.AllowedServices = o.allowedServices()
	config.NoSMBPrivacy = !o.requirePrivacy
	n, err := simnode.Open(config)
	if err != nil {
		return nil, err
	}
	control := apiserver.Pipe{Name: simcontrol.Pipe, Desc: &simcontrol.Node_ServiceDesc, Impl: simcontrol.NewServer(n)}
	g := wire.Groups{Disk: n.Disk(), Volume: n.Volume(), Filesystem: n.Filesystem(), ISCSI: n.ISCSI(), SMB: n.SMB(), System: n.System()}
	return &host{pipes: append(pipes(g, o, dirs), control), survey: surveyOf(n.SMB()), close: n.Close}, nil
}

// pipes are the pipes of the services, behind the rules of the daemon.
func pipes(g wire.Groups, o *options, dirs policy.Dirs) []apiserver.Pipe {
	g.Volume = policy.Volume(g.Volume, dirs)
	g.Filesystem = policy.Filesystem(g.Filesystem, dirs)
	if g.SMB != nil {
		g.SMB = policy.SMB(g.SMB, dirs, o.smb)
	}
	g.System = policy.System(g.System, o.allowedServices())
	return apiserver.Pipes(wire.Services(g))
}

// thisMachine are the names and addresses by which shares of this machine can be
// reached, beside localhost.
func thisMachine() ([]string, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	names := []string{name}
	if short, _, qualified := strings.Cut(name, "."); qualified {
		names = append(names, short)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			names = append(names, p.Addr().WithZone("").String())
		}
	}
	return names, nil
}

// nodeConfig reads the description of the simulated node.
func nodeConfig(file string) (simnode.Config, error) {
	var config simnode.Config
	if file == "" {
		return config, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return config, fmt.Errorf("-node-config: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return config, fmt.Errorf("-node-config %s: %s%w", file, lines(string(text), err), err)
	}
	return config, nil
}

// unknownField is how the YAML library tells of a field that nothing has: without
// the line, which it tells of all that is no YAML.
var unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)

// lines are the lines of text that have the field that err does not know, as the
// beginning of an error; empty if it is about something else. A field that is
// known in another place is in several.
func lines(text string, err error) string {
	name := unknownField.FindStringSubmatch(err.Error())
	if name == nil {
		return ""
	}
	field, bad := regexp.Compile(`(^|[\s{,"'])` + regexp.QuoteMeta(name[1]) + `["']?\s*:`)
	if bad != nil { // of bytes that are no text
		return ""
	}
	var found []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		if code, _, _ := strings.Cut(line, "#"); field.MatchString(code) {
			found = append(found, strconv.Itoa(n))
		}
	}
	if found == nil {
		return ""
	}
	return "line " + strings.Join(found, " or ") + ": "
}
