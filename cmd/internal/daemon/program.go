package daemon

import (
	"flag"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// Program is a command that serves the API of a node.
type Program struct {
	// Name is that of the command, as its usage and its errors show it.
	Name string
	// Version is the version that the log and the health checks report.
	Version string
	// Host opens the node.
	Host Host
}

// Host is what one such program has and the others do not: the node that it
// serves, and the flags about that node.
type Host interface {
	// Name is the kind of the node, for the first line of the log.
	Name() string
	// AddFlags adds the flags of this host.
	AddFlags(*flag.FlagSet)
	// Open opens the node, after the flags were parsed.
	Open(Rules) (*Node, error)
}

// Rules are the rules of the command line that a host must follow.
type Rules struct {
	// WorkingDirs are the only directories in which paths may lie.
	WorkingDirs []string
	// AllowedServices are the only services that may be started and stopped.
	AllowedServices []string
	// FormatExisting lets FormatVolume format an NTFS file system that holds data.
	FormatExisting bool
	// RequirePrivacy makes new SMB mappings encrypted.
	RequirePrivacy bool
	// AcceptUnverifiedPasswords lets a request use an SMB mapping in use with a
	// password that the server could not be asked about.
	AcceptUnverifiedPasswords bool
	// AllowLoopback lets shares of the node itself be mapped.
	AllowLoopback bool
}

// Node is an open node.
type Node struct {
	// Groups are its services. One that is nil is not served.
	Groups wire.Groups
	// Names are the names and addresses at which the node's own SMB shares can
	// be reached, apart from localhost.
	Names []string
	// Pipes are served in addition to those of the API.
	Pipes []apiserver.Pipe
	// Close closes the node. It may be nil.
	Close func() error
}

// pipes are the pipes of the node's services, behind the rules of the command
// line, and those of its own.
func (n *Node) pipes(o *options, dirs policy.Dirs) []apiserver.Pipe {
	rules := &policy.Rules{Dirs: dirs, Services: o.allowedServices(), SMB: o.smb}
	rules.SMB.ThisNode = n.Names
	g := n.Groups
	g.Check = rules.Check
	return append(apiserver.Pipes(wire.Services(g)), n.Pipes...)
}

func (n *Node) close() error {
	if n.Close == nil {
		return nil
	}
	return n.Close()
}
