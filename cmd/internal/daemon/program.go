package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin/server"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Program is a command that serves the API of a node.
type Program struct {
	// Name is the name of the command in its usage and errors.
	Name string
	// Version is the version in the log and in health checks.
	Version string
	// Verbs describes what the command does besides serving, for its usage.
	Verbs string
	// Host opens the node.
	Host Host
}

// Host is the part that differs between programs: the node and its flags.
type Host interface {
	// Name is the kind of the node, for the first log line.
	Name() string
	// AddFlags adds the flags of this host.
	AddFlags(*flag.FlagSet)
	// Open opens the node, after the flags were parsed. Its services keep the rules. counts
	// counts the Win32 calls for the metrics; nil if there are none.
	Open(r rules.Rules, counts *win32.Counts) (*Node, error)
}

// Node is an open node.
type Node struct {
	// Groups are the services. A nil service is not served.
	Groups wire.Groups
	// Names returns the names and addresses that the node has now, except localhost. Its
	// own SMB shares are recognized by them. It may be nil.
	Names func() ([]string, error)
	// Pipes are served in addition to the pipes of the API.
	Pipes []serve.Pipe
	// Close closes the node. It may be nil.
	Close func() error
}

// Pipes returns the paths of the pipes of the API that the program serves with these
// flags, or what is wrong with the flags or with their configuration file.
func Pipes(p Program, args []string) ([]string, error) {
	o, err := parse(p, args, io.Discard)
	if errors.Is(err, flag.ErrHelp) {
		return nil, errors.New("flag -h prints the usage, and serves no pipes")
	}
	if err != nil {
		return nil, err
	}
	return o.pipes()
}

// pipes returns the paths of the pipes of the API. It checks what serving would check first.
func (o *options) pipes() ([]string, error) {
	if _, err := policy.ParseDirs(o.AllWorkingDirs()); err != nil {
		return nil, fmt.Errorf("working directories: %w", err)
	}
	// These services are only counted, and never called.
	every := wire.Groups{
		Disk: struct{ disk.Service }{}, Filesystem: struct{ filesystem.Service }{}, ISCSI: struct{ iscsi.Service }{},
		SMB: struct{ smb.Service }{}, System: struct{ system.Service }{}, Volume: struct{ volume.Service }{},
	}
	enabled, err := wire.Enabled(wire.Services(every), o.APIs())
	if err != nil {
		return nil, fmt.Errorf("flag -enable-api: %w", err)
	}
	var paths []string
	for _, served := range serve.Pipes(enabled) {
		paths = append(paths, `\\.\pipe\`+served.Name)
	}
	return paths, nil
}

// pipes returns the pipes of the node's services, which enforce the rules of the command
// line, the node's additional pipes, and that of administrators, who stop the program with stop.
func (n *Node) pipes(o *options, dirs policy.Dirs, inFlight *calls.Calls, stop context.CancelFunc) ([]serve.Pipe, error) {
	rules := &policy.Rules{Dirs: dirs, Services: o.AllowedServices(), SMB: o.SMB}
	rules.SMB.ThisNode = n.Names
	g := n.Groups
	g.Check = rules.Check
	enabled, err := wire.Enabled(wire.Services(g), o.APIs())
	if err != nil {
		return nil, fmt.Errorf("flag -enable-api: %w", err)
	}
	all := append(serve.Pipes(enabled), n.Pipes...)
	if o.adminPipe {
		disks, _ := n.Groups.Disk.(server.Disks)
		all = append(all, server.Pipe(disks, inFlight, func(ctx context.Context) error {
			if o.service != "" { // its manager would take an end without its request for a failure
				return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "Stop-Service "+o.service, "it runs as the Windows service %s, which Stop-Service stops", o.service)
			}
			caller, program := inflight.Of(ctx).Process, pipes.UnknownProgram
			if caller != 0 {
				program = inflight.Of(ctx).Program()
			}
			klog.InfoS("Stopping, because an administrator asked for it", "caller", caller, "program", program)
			stop()
			return nil
		}, o.problems))
	}
	return all, nil
}

// states returns what looks at the states of the node's disks and mappings, for metrics, or
// nil if the services are not those of this project.
func (n *Node) states() *server.States {
	disks, ok := n.Groups.Disk.(server.Disks)
	if !ok {
		return nil
	}
	mappings, _ := n.Groups.SMB.(server.Mappings)
	return &server.States{Node: disks.Node(), SMB: mappings}
}

func (n *Node) close() error {
	if n.Close == nil {
		return nil
	}
	return n.Close()
}
